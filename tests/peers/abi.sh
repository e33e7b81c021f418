#!/bin/bash
# Programs built against the last release still run: abidiff. 77 without it.
# Before that, of a small library: what breaks programs is found, what does not
# is not.
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(dirname "$1")
command -v abidw >/dev/null || exec "$root/tools/abi.sh" "$build"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
mkdir -p "$tmp"/{tools,include,tests/abi,build}
cp "$root/tools/abi.sh" "$tmp/tools/"
echo 'project(paradl VERSION 9.1.0)' >"$tmp/CMakeLists.txt"
library() { # public struct, private struct, more
    echo "struct shown {$1}; struct own; int f(struct shown *, struct own *);" >"$tmp/include/x.h"
    printf '#include "x.h"\nstruct own {%s};\n%s\n' "$2" "$3" >"$tmp/x.c"
    gcc -g -shared -fPIC -I"$tmp/include" "$tmp/x.c" -o "$tmp/build/libparadl.so.0"
}
expect() { # what, exit code, then of library
    local what=$1 want=$2 got
    shift 2
    [ $# = 0 ] || library "$@"
    "$tmp/tools/abi.sh" "$tmp/build" >"$tmp/log" 2>&1
    got=$?
    [ $got = "$want" ] && return
    echo "FAILED: $what: exit code $got, not $want"
    tail -n 5 "$tmp/log"
    bad=1
}
f='int f(struct shown *a, struct own *b) { return a->i + b->i; }'
g='int g(struct shown *a) { return a->i; }'
library 'int i;' 'int i;' "$f"
"$tmp/tools/abi.sh" "$tmp/build" --update
echo '## 9.1.0, 2031-01-01' >"$tmp/CHANGELOG.md"
expect "the same" 0
expect "a private type has changed" 0 'int i;' 'int i; int j;' "$f"
expect "a function more" 0 'int i;' 'int i;' "$f$g"
expect "a public type has changed" 1 'int h, i;' 'int i;' "$f"
expect "another function" 1 'int i;' 'int i;' "$g"
rm "$tmp/build/libparadl.so.0"
expect "no library" 3
library 'int h, i;' 'int i;' "$f"
echo '## 9.1.0, not released yet' >"$tmp/CHANGELOG.md"
expect "before a release" 0
[ $bad = 0 ] && "$root/tools/abi.sh" "$build"
