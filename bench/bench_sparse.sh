#!/bin/bash
# Sparse against dense allreduce of 32 M floats, on 2 and 4 ranks.
paradl=$(realpath "$1")
build=$(dirname "$paradl")
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$build/libparadl-run.a" ] || { echo "sparse: no MPI, not built"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mpi=$(sed -n 's/^PDL_MPI:STRING=//p' "$build/CMakeCache.txt")
mpirun=$(sed -n 's/^PDL_MPIRUN:FILEPATH=//p' "$build/CMakeCache.txt")
[ "$mpi" = mpich ] || { mpi=ompi-c; mpirun="$mpirun --oversubscribe --allow-run-as-root"; }
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -DOMPI_SKIP_MPICXX -I"$here/../include" \
    $(pkg-config --cflags "$mpi") -o "$tmp/ours" "$here/sparse_ours.c" \
    "$build/libparadl-run.a" "$build/libparadl.a" \
    $(pkg-config --libs "$mpi" jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lpthread -lm || exit 4
for n in 2 4; do
    $mpirun -n $n "$tmp/ours" || exit 1
done
