#!/bin/bash
# Fails when a file uses a room that tools/rooms.txt does not allow it. Every
# include in quotes is resolved: beside the file, below src ("room/folder/x.h"),
# below include; what is made while building is named here. Folders of a room
# that rooms.txt lists in order ("oracle/: kernel habit ...") look only at those
# before them.
cd "$(dirname "$0")/.." || exit 5
bad=0
say() {
    echo "$1"
    bad=1
}
room_of() { # path below src or include/paradl
    case $1 in
    include/paradl/*) basename "$1" .h ;;
    src/*) r=${1#src/}; echo "${r%%/*}" ;;
    esac
}
resolve() { # the including file, what it includes
    case $2 in onnx.pb-c.h) echo generated; return ;; esac
    for at in "$(dirname "$1")/$2" "src/$2" "include/$2"; do
        [ -f "$at" ] && { echo "$at"; return; }
    done
}
folder_of() { # path: the folder inside the room, or nothing
    r=${1#src/*/}
    case $1,$r in src/*,*/*) echo "${r%%/*}" ;; esac
}
looks_down() { # two files of one room
    local room order from to
    room=$(room_of "$1")
    from=$(folder_of "$1")
    to=$(folder_of "$2")
    order=$(sed -n "s|^$room/: ||p" tools/rooms.txt | sed 's/ /  /g')
    [ -z "$order" ] || [ -z "$from" ] || [ -z "$to" ] || [ "$from" = "$to" ] && return 0
    case " $order " in *" $to "*" $from "*) return 0 ;; *) return 1 ;; esac
}
while IFS=: read -r file line; do
    room=$(room_of "$file")
    name=${line#*[<\"]}
    name=${name%%[>\"]*}
    case $line in *'"../'*) say "$file: reaches upward: $name" ;; esac
    at=$(resolve "$file" "$name")
    case $at in
    generated) continue ;;
    '') say "$file: $name is nowhere in src or include"; continue ;;
    esac
    used=$(room_of "$at")
    if [ "$used" = "$room" ]; then
        looks_down "$file" "$at" || say "$file: looks up at $at"
        continue
    fi
    grep -q "^$room:.*\<$used\>" tools/rooms.txt || say "$file: room $room may not use $used"
done < <(grep -rHE '^#include ("|<paradl/)' src include --include='*.[ch]')
for room in $(ls src) $(cd include/paradl && ls -- *.h | sed 's/\.h$//'); do
    grep -q "^$room:" tools/rooms.txt || say "no room '$room' in tools/rooms.txt"
done
[ $bad = 0 ] && echo "rooms: every include is allowed"
exit $bad
