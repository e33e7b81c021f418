#!/bin/bash
# build-flows.sh BUILD OUT: the program that runs flows with libparadl.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -I"$here/../include" -o "$2" \
    "$here/../tests/peers/paradl_flows.c" "$1/libparadl.a" \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lm
