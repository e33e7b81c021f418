#!/bin/bash
# Every route of random fat trees, tori and dragonflies, against SimGrid.
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! g++ -std=c++17 -o "$tmp/routes" "$here/simgrid_routes.cpp" -lsimgrid \
    2>"$tmp/log"; then
    echo "simgrid routes: no SimGrid to compare with (apt install libsimgrid-dev)"
    exit 77
fi
python3 "$here/simgrid_routes.py" "$paradl" "$tmp/routes" "${PDL_PEER_RUNS:-12}"
