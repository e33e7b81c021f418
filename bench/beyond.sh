#!/bin/bash
# bench/beyond.sh [PARADL]: what beats DLN + SHD on 1024 hosts at equal or
# lower cost, both duplex modes (see doc/beyond-dln.md). Full duplex takes about
# 3 minutes of a core, shared about 5.
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$(realpath "${1:-$here/../build/paradl}")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -I"$here/../include" -o "$tmp/beyond" \
    "$here/beyond.c" "$build/libparadl.a" \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lm || exit 4
"$tmp/beyond" shared >"$tmp/shared" &
"$tmp/beyond" full 2>/dev/null || exit 1
wait $! || exit 1
cat "$tmp/shared"
