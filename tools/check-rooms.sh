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
declare -A allowed order # by room: the rooms it may use; its folders in order
while IFS=: read -r room rest; do
    case $room in
    '' | '#'*) ;;
    */) order[${room%/}]=" ${rest// /  } " ;;
    *) allowed[$room]=" $rest " ;;
    esac
done <tools/rooms.txt
# Each leaves its answer in REPLY: there are thousands of includes.
room_of() { # path below src or include/paradl
    REPLY=${1#*/}
    case $1 in
    include/paradl/*) REPLY=${1##*/} REPLY=${REPLY%.h} ;;
    src/*) REPLY=${REPLY%%/*} ;;
    esac
}
resolve() { # the including file, what it includes
    case $2 in onnx.pb-c.h | chakra.pb-c.h) REPLY=generated; return ;; esac
    for REPLY in "${1%/*}/$2" "src/$2" "include/$2"; do
        [ ! -f "$REPLY" ] || return
    done
    REPLY=
}
folder_of() { # path: the folder inside the room, or nothing
    REPLY=${1#src/*/}
    case $1,$REPLY in src/*,*/*) REPLY=${REPLY%%/*} ;; *) REPLY= ;; esac
}
looks_down() { # two files of one room, and it
    local from to=${order[$3]:-}
    [ -n "$to" ] || return 0
    folder_of "$1"
    from=$REPLY
    folder_of "$2"
    [ -z "$from" ] || [ -z "$REPLY" ] || [ "$from" = "$REPLY" ] && return 0
    case $to in *" $REPLY "*" $from "*) return 0 ;; *) return 1 ;; esac
}
while IFS=: read -r file line; do
    room_of "$file"
    room=$REPLY
    name=${line#*[<\"]}
    name=${name%%[>\"]*}
    case $line in *'"../'*) say "$file: reaches upward: $name" ;; esac
    resolve "$file" "$name"
    at=$REPLY
    case $at in
    generated) continue ;;
    '') say "$file: $name is nowhere in src or include"; continue ;;
    esac
    room_of "$at"
    if [ "$REPLY" = "$room" ]; then
        looks_down "$file" "$at" "$room" || say "$file: looks up at $at"
        continue
    fi
    case ${allowed[$room]:-} in
    *" $REPLY "*) ;;
    *) say "$file: room $room may not use $REPLY" ;;
    esac
done < <(grep -rHE '^#include ("|<paradl/)' src include --include='*.[ch]')
for room in $(ls src) $(cd include/paradl && ls -- *.h | sed 's/\.h$//'); do
    [ -n "${allowed[$room]:-}" ] || say "no room '$room' in tools/rooms.txt"
done
[ $bad = 0 ] && echo "rooms: every include is allowed"
exit $bad
