#!/bin/bash
# make check-peers: cross-checks against other people's tools. Each
# tests/peers/*.sh but this one gets the program's path; exit 77 = skipped.
paradl=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
passed=0 failed=0 skipped=0
for t in "$here"/*.sh; do
    [ "$(basename "$t")" = run.sh ] && continue
    bash "$t" "$paradl"
    case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED $(basename "$t")" ;;
    *) failed=$((failed + 1)); echo "FAILED $(basename "$t")" ;;
    esac
done
echo "peers: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
