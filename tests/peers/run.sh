#!/bin/bash
# make check-peers: cross-checks against other people's tools. Each
# tests/peers/*.sh but this one gets the program's path; exit 77 = skipped. Two
# at a time (most of them wait for one interpreter on one processor): each says
# what it has to say at its end.
paradl=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 4
trap 'rm -rf "$tmp"' EXIT
export paradl tmp
one() { # script
    local name
    name=$(basename "$1")
    bash "$1" "$paradl" >"$tmp/$name.log" 2>&1
    echo $? >"$tmp/$name.rc"
    flock "$tmp" cat "$tmp/$name.log"
}
export -f one
find "$here" -name '*.sh' ! -name run.sh -print0 | sort -z | xargs -0 -P2 -I{} bash -c 'one "$1"' one {}
passed=0 failed=0 skipped=0
for t in "$here"/*.sh; do
    name=$(basename "$t")
    [ "$name" = run.sh ] && continue
    case $(cat "$tmp/$name.rc") in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $name" ;;
    *) failed=$((failed + 1)); echo "FAILED $name" ;;
    esac
done
echo "peers: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
