#!/bin/sh
# clang-tidy with the checks of .clang-tidy over the library and the program.
cd "$(dirname "$0")/.." || exit 5
build=$1
find src -name '*.c' | sort |
    xargs -P2 -n4 clang-tidy --quiet -p "$build" 2>/dev/null >"$build/tidy.log"
rc=$?
grep -E 'warning:|error:' "$build/tidy.log" | sort -u
[ $rc = 0 ] && ! grep -qE 'warning:|error:' "$build/tidy.log" &&
    echo "clang-tidy: nothing found"
