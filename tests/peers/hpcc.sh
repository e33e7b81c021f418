#!/bin/bash
# HPCC as Debian has it, a program that knows nothing of paradl, with and
# without libparadl-mpi.so: it must pass all of its own tests with it, and must
# have been served.
lib=$(dirname "$(realpath "$1")")/libparadl-mpi.so
for need in hpcc mpirun.openmpi; do
    command -v $need >/dev/null || {
        echo "hpcc: no $need (apt install hpcc openmpi-bin)"
        exit 77
    }
done
[ -e "$lib" ] || {
    echo "hpcc: built without $(basename "$lib")"
    exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sed -e 's/^1000  /600   /' -e '11s/^2 /1 /' \
    /usr/share/doc/hpcc/examples/_hpccinf.txt >"$tmp/hpccinf.txt"
cd "$tmp" || exit 5
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run() { # NAME VARIABLE=VALUE...
    local name=$1 start=$EPOCHREALTIME
    shift
    rm -f hpccoutf.txt
    timeout 300 mpirun.openmpi --oversubscribe --bind-to none -n 2 \
        env "$@" hpcc >"$name.log" 2>&1 || {
        echo "hpcc: $name failed"
        tail -5 "$name.log"
        exit 1
    }
    mv hpccoutf.txt "$name.out"
    # results that neither time nor chance decides (PTRANS_residual is 0 or 1
    # from run to run without us, too)
    grep -hE '^(HPL_(N|Anorm|Xnorm|Rnorm)|MPIFFT_(N|maxErr)|MPIRandomAccess_.*Err|Success)' \
        "$name.out" >"$name.results"
    echo "$name: $(awk -v a="$start" -v b="$EPOCHREALTIME" \
        'BEGIN { printf "%.1f s", b - a }')"
}
run plain A=b
run ours LD_PRELOAD="$lib" PARADL_MPI_VERBOSE=1
[ "$(grep -c . plain.results)" -ge 8 ] || { echo "hpcc: no results"; exit 1; }
diff plain.results ours.results || exit 1
grep FAILED ours.out && exit 1
for call in Allreduce Alltoall Bcast; do
    grep -h "^libparadl-mpi: [1-9][0-9]* MPI_$call calls" ours.log || {
        echo "hpcc: paradl did no MPI_$call"
        cat ours.log
        exit 1
    }
done
