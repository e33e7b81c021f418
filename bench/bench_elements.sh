#!/bin/bash
# Reductions, top-k and error feedback on one core, against a plain reading.
paradl=$(realpath "$1")
build=$(dirname "$paradl")
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$build/libparadl-run.a" ] || { echo "elements: no MPI, not built"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpi=$(sed -n 's/^PDL_MPI:STRING=//p' "$build/CMakeCache.txt")
[ "$mpi" = mpich ] || mpi=ompi-c
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -DOMPI_SKIP_MPICXX -I"$here/../include" \
    -I"$here/../src/comm" $(pkg-config --cflags "$mpi") -o "$tmp/ours" \
    "$here/elements_ours.c" "$build/libparadl-run.a" "$build/libparadl.a" \
    $(pkg-config --libs "$mpi" jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lpthread -lm || exit 4
"$tmp/ours"
