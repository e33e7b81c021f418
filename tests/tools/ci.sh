#!/bin/bash
# .ci/run says of each part how it ended, and fails when one does: with a make
# that fails where it is told to.
cd "$(dirname "$0")/../.." || exit 5
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/make" <<'END'
#!/bin/sh
[ "$1" != "$FAIL" ] || exit 2
END
chmod +x "$tmp/make"
bad=0
expect() { # the target that fails, exit code, then a line for each part
    local fail=$1 want=$2 got line
    shift 2
    FAIL=$fail PATH=$tmp:$PATH bash .ci/run >"$tmp/out" 2>&1
    got=$?
    [ $got = "$want" ] || { echo "${fail:-nothing} fails: exit code $got, not $want"; bad=1; }
    for line; do
        grep -qE "^$line +[0-9]+ s\$" "$tmp/out" ||
            { echo "${fail:-nothing} fails: no line '$line'"; cat "$tmp/out"; bad=1; }
    done
}
expect "" 0 "check +passed" "code +passed" "peers +passed" "all +passed"
expect check 1 "check +FAILED \(2\)" "code +passed" "peers +passed" "all +FAILED"
expect check-code 1 "check +passed" "code +FAILED \(2\)" "peers +passed" "all +FAILED"
expect check-peers 1 "check +passed" "code +passed" "peers +FAILED \(2\)" "all +FAILED"
[ $bad = 0 ] && echo "ci: a failing part fails, and is named"
exit $bad
