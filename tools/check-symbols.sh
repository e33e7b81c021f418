#!/bin/sh
# Names show scope: pdl_ is public and declared in a public header, room_ is
# shared inside that room, everything else is static.
cd "$(dirname "$0")/.." || exit 5
build=$1
bad=0
for o in $(find "$build/CMakeFiles" -path '*paradl*_objects.dir/src/*.o'); do
    room=$(echo "$o" | sed 's|.*/src/\([a-z]*\)/.*|\1|')
    for s in $(nm -g --defined-only "$o" | awk 'NF == 3 {print $3}' | grep -v '^__'); do
        case $s in
        pdl_*)
            grep -q "\<$s\>" "include/paradl/$room.h" && continue
            echo "$o: $s is public but not in include/paradl/$room.h"; bad=1 ;;
        "$room"_*) ;;
        *) echo "$o: $s is neither pdl_, ${room}_ nor static"; bad=1 ;;
        esac
    done
done
[ -n "${o:-}" ] || { echo "$build: no objects to look at"; exit 1; }
[ $bad = 0 ] && echo "symbols: every name shows its scope"
exit $bad
