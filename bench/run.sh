#!/bin/bash
# make bench: every bench/*.sh but this one gets the program's path.
paradl=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
for b in "$here"/*.sh; do
    [ "$(basename "$b")" = run.sh ] && continue
    echo "== $(basename "$b" .sh)"
    bash "$b" "$paradl" || exit 1
done
