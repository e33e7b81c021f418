#!/bin/bash
# An unmodified MPI program has the same results with libparadl-mpi.so, which
# must have done the work: run.sh LIBRARY PROGRAM RANKS MPIRUN...
lib=$(realpath "$1") program=$(realpath "$2") n=$3
shift 3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

run() { # NAME [VARIABLE=VALUE...]
    local name=$1
    shift
    timeout 120 "${launch[@]}" -n "$n" env "$@" "$program" "$tmp/$name" \
        2>"$tmp/$name.err" || {
        echo "$name: failed"; tail -5 "$tmp/$name.err"; exit 1; }
    cat "$tmp/$name".[0-9] >"$tmp/$name.sorted"
}
launch=("$@")
run plain A=b
run ours LD_PRELOAD="$lib" PARADL_MPI_VERBOSE=1
run off LD_PRELOAD="$lib" PARADL_MPI_VERBOSE=1 PARADL_MPI=0
[ -s "$tmp/plain.sorted" ] || { echo "the program says nothing"; exit 1; }
for name in ours off; do
    cmp "$tmp/plain.sorted" "$tmp/$name.sorted" || {
        diff "$tmp/plain.sorted" "$tmp/$name.sorted" | head -5; exit 1; }
done
for call in Allreduce Reduce_scatter Reduce_scatter_block Allgather Alltoall \
    Bcast; do
    grep -q "^libparadl-mpi: [1-9][0-9]* MPI_$call calls" "$tmp/ours.err" || {
        echo "paradl did no MPI_$call:"; cat "$tmp/ours.err"; exit 1; }
    grep -q "^libparadl-mpi: 0 MPI_$call calls" "$tmp/off.err" || {
        echo "PARADL_MPI=0 did not switch it off:"; cat "$tmp/off.err"; exit 1; }
done
cat "$tmp/ours.err"
