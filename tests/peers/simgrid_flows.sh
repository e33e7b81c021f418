#!/bin/bash
# Flow by flow against SimGrid (optim:Full) on random networks.
build=$(dirname "$1")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! g++ -std=c++17 -o "$tmp/simgrid" "$here/simgrid_flows.cpp" -lsimgrid \
    2>"$tmp/log"; then
    echo "simgrid flows: no SimGrid to compare with (apt install libsimgrid-dev)"
    exit 77
fi
"$here/../../tools/build-flows.sh" "$build" "$tmp/ours" || exit 1
python3 "$here/simgrid_flows.py" "$tmp/ours" "$tmp/simgrid" \
    "${PDL_PEER_RUNS:-$([ -n "$PDL_LONG" ] && echo 250 || echo 20)}"
