#!/bin/bash
# Names show scope: pdl_ is public and declared in a public header, room_ is
# shared inside that room, everything else is static.
cd "$(dirname "$0")/.." || exit 5
build=$1
declared=$(mktemp)
trap 'rm -f "$declared"' EXIT
for h in include/paradl/*.h; do # "room name" of every public name
    grep -o '\<pdl_[a-z0-9_]*' "$h" | sort -u | sed "s/^/$(basename "$h" .h) /"
done >"$declared"
find "$build/CMakeFiles" -path '*paradl*_objects.dir/src/*.o' -print0 |
    xargs -0 -r nm -A -g --defined-only |
    awk -v declared="$declared" '
        BEGIN { while ((getline line < declared) > 0) public[line] = 1 }
        NF == 3 {
            n++; name = $3; room = $1
            sub(/.*\/src\//, "", room); sub(/\/.*/, "", room)
            if (name ~ /^__/) next
            if (name ~ /^pdl_/) {
                if ((room " " name) in public) next
                print $1 ": " name " is public but not in include/paradl/" room ".h"
            } else if (index(name, room "_") == 1) next
            else print $1 ": " name " is neither pdl_, " room "_ nor static"
            bad = 1
        }
        END {
            if (n == 0) { print "no objects to look at"; exit 1 }
            if (!bad) print "symbols: every name shows its scope (" n ")"
            exit bad
        }'
