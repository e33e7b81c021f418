#!/bin/bash
# Collectives flow by flow (ours) and packet by packet (ns-3), on the same
# networks by the same routes.
build=$(dirname "$1")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ -e /usr/include/ns3/core-module.h ] || {
    echo "ns3: no ns-3 to compare with (apt install libns3-dev)"
    exit 77
}
ns3="-lns3-core -lns3-network -lns3-internet -lns3-point-to-point"
ns3="$ns3 -lns3-traffic-control"
# shellcheck disable=SC2046,SC2086
g++ -std=c++17 -O1 -I"$here/../../include" -o "$tmp/packets" \
    "$here/ns3_packets.cpp" "$build/libparadl.a" $ns3 \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lm || exit 1
"$tmp/packets" 10 20 <"$here/ns3_packets.txt"
