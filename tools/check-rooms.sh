#!/bin/sh
# Fails when a file uses a room that tools/rooms.txt does not allow it.
cd "$(dirname "$0")/.." || exit 5
bad=0
for f in src/*/*.[ch] include/paradl/*.h; do
    case $f in
    include/*) room=$(basename "$f" .h) ;;
    *) room=${f#src/}; room=${room%%/*} ;;
    esac
    grep -q "^$room:" tools/rooms.txt || { echo "$f: no room '$room' in tools/rooms.txt"; bad=1; }
    for used in $(sed -n 's|^#include [<"]paradl/\([a-z]*\)\.h[>"].*|\1|p' "$f"); do
        [ "$used" = "$room" ] && continue
        grep -q "^$room:.*\<$used\>" tools/rooms.txt && continue
        echo "$f: room $room may not use $used"
        bad=1
    done
    if grep -Hn '^#include "\.\./' "$f"; then
        echo "$f: reaches into another room"
        bad=1
    fi
done
[ $bad = 0 ] && echo "rooms: every include is allowed"
exit $bad
