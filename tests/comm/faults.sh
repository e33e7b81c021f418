#!/bin/bash
# faults.sh PROGRAM MPIRUN...: real faults. Ranks that are killed or exit in the
# middle of collectives, on every way they may be in; a /dev/shm that is full;
# a kernel that lets nobody read another process. What a machine does not let
# us arrange is skipped, loudly.
program=$1
shift
[ -x "$program" ] || { echo "no program $program"; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

# ends N WHAT TRANSPORT COUNT [OPTION]: the job must end by itself, in time, and
# not as if all was well
ends() {
    local n=$1 what=$2 transport=$3 count=$4 start took rc
    shift 4
    start=$(date +%s)
    timeout 60 "${run[@]}" "$@" -n "$n" "$program" "$what" "$transport" \
        "$count" >"$tmp/out" 2>&1
    rc=$?
    took=$(($(date +%s) - start))
    # it must have begun: one of them was lost, or somebody says so
    grep -E -q 'signal 9|exited|is gone|gave up|no answer' "$tmp/out" || rc=0
    if [ $rc = 0 ] || [ $rc = 124 ] || [ $took -gt 30 ]; then
        echo "FAILED: $n ranks, $what, $transport, $count: exit $rc, $took s"
        bad=1
    else
        echo "ok: $n ranks, $what, $transport, $count: exit $rc, $took s"
    fi
}

run=("$@")
# under the sanitizers (PDL_SHORT) one number of ranks does
for n in $([ -n "${PDL_SHORT:-}" ] && echo 3 || echo 2 3 4 7); do
    ends $n kill auto 1000
    ends $n kill auto 4000000
done
ends 3 kill p2p 100000
ends 3 kill cma 4000000
ends 2 exit auto 1000
ends 4 exit auto 4000000
ends 3 exit p2p 100000

# says N WHAT TRANSPORT COUNT: Open MPI is told not to end the job. Now our own
# time-outs must work, and the survivors must say what happened.
says() {
    local start took
    start=$(date +%s)
    timeout 60 "${run[@]}" --enable-recovery -n "$1" "$program" "$2" "$3" \
        "$4" >"$tmp/out" 2>&1
    took=$(($(date +%s) - start))
    if grep -E -q 'is gone|gave up|no answer within' "$tmp/out" &&
        [ $took -le 30 ]; then
        echo "ok: $*: $(grep -E -m1 -o 'allreduce: .*' "$tmp/out")"
    else
        echo "FAILED: $*: after $took s the survivors say:"
        head -5 "$tmp/out"
        bad=1
    fi
}
if "${run[@]}" --version 2>/dev/null | grep -q 'Open MPI'; then
    says 2 kill auto 1000
    says 3 kill auto 4000000
    says 4 exit auto 4000000
    says 7 kill auto 4000000
fi

# private MOUNT-OPTIONS WHAT: in a mount namespace of its own, with a /dev/shm
# of that size. MPI's own segments go elsewhere.
private() {
    OMPI_MCA_btl_vader_backing_directory=$tmp \
        unshare -m sh -c 'mount -t tmpfs -o "$0" none /dev/shm && exec "$@"' \
        "$1" timeout 100 "${run[@]}" -n 2 "$program" "$2" >"$tmp/out" 2>&1 || {
        echo "FAILED: /dev/shm with $1"
        cat "$tmp/out"
        bad=1
    }
}
if unshare -m mount -t tmpfs -o size=1m none /dev/shm 2>/dev/null; then
    private size=1m full
    private size=16m nearly-full
    echo "ok: a full /dev/shm"
else
    echo "SKIPPED: no right to mount a small /dev/shm"
fi

if [ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/kernel/yama/ptrace_scope \
    2>/dev/null || echo 0)" = 0 ]; then
    OMPI_MCA_btl_vader_single_copy_mechanism=none timeout 100 "${run[@]}" -n 2 \
        "$program" ptrace >"$tmp/out" 2>&1 || {
        echo "FAILED: a kernel that refuses to read another process"
        cat "$tmp/out"
        bad=1
    }
    echo "ok: reading another process refused"
fi
exit $bad
