#!/bin/bash
# Golden tests of the command line: run.sh PARADL [--update] [CASE...]
#
# A case is tests/cli/NAME.sh, run by bash with $paradl set, in an empty
# folder with $data = tests/data. Its standard output, standard error and exit
# code must equal NAME.out, NAME.err (absent: empty) and NAME.rc (absent: 0).
# --update rewrites these; review the diff.
paradl=$(realpath "$1")
shift
update=
[ "${1:-}" = --update ] && { update=1; shift; }
here=$(cd "$(dirname "$0")" && pwd)
export paradl data="$here/../data" NO_COLOR=1 LC_ALL=C
unset COLUMNS
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=("$here"/*.sh)
for case in "${cases[@]}"; do
    name=$(basename "$case" .sh)
    [ "$name" = run ] && continue
    # a second time, under the sanitizers, without those that search long, only
    # compare texts (see tests/effort.h) or start MPI, which leaks
    [[ -n ${PDL_SHORT:-} && $name =~ ^(agree|examples|federate|plan_layers)$ ]] && continue
    want="$here/$name"
    rm -rf "$work/run" && mkdir "$work/run"
    (cd "$work/run" && bash "$here/$name.sh") >"$work/out" 2>"$work/err" </dev/null
    echo $? >"$work/rc"
    if [ -n "$update" ]; then
        cp "$work/out" "$want.out"
        if [ -s "$work/err" ]; then cp "$work/err" "$want.err"; else rm -f "$want.err"; fi
        if [ "$(cat "$work/rc")" != 0 ]; then cp "$work/rc" "$want.rc"; else rm -f "$want.rc"; fi
        continue
    fi
    ok=1
    diff -u "$want.out" "$work/out" || ok=
    diff -u "$([ -f "$want.err" ] && echo "$want.err" || echo /dev/null)" "$work/err" || ok=
    [ "$([ -f "$want.rc" ] && cat "$want.rc" || echo 0)" = "$(cat "$work/rc")" ] ||
        { echo "$name: exit code $(cat "$work/rc")"; ok=; }
    if [ -n "$ok" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name"; fi
done
[ -n "$update" ] && exit 0
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
