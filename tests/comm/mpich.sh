#!/bin/sh
# The room builds with MPICH too, and its tests pass there on two ranks (with
# more ranks than processors MPICH spins). mpich.sh BUILD: the build to take the
# compiler and libparadl.a from, which knows no MPI.
from=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 5
pkg-config --exists mpich && [ -x "$(command -v mpirun.mpich)" ] || {
    echo "no MPICH here: nothing tested"
    exit 77
}
get() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
dir=build/mpich
mkdir -p build
{
    cmake -G Ninja -S . -B $dir -DPDL_MPI=mpich -DPDL_CUDA=off \
        -DCMAKE_C_COMPILER="$(get CMAKE_C_COMPILER "$from")" \
        -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
        -DPDL_LIBRARY="$from/libparadl.a" &&
        ninja -C $dir paradl-run comm_mpi_collectives comm_mpi_faults
} >$dir.log 2>&1 || { tail -20 $dir.log; exit 1; }
for program in comm_mpi_collectives comm_mpi_faults; do
    timeout 200 mpirun.mpich -n 2 $dir/$program || {
        echo "$program under MPICH: exit $?"
        exit 1
    }
done
timeout 100 mpirun.mpich -n 2 $dir/paradl-run bench allreduce --size \
    1KiB..64KiB --seconds 0.05s --against mpi
