#!/bin/bash
# srun.sh BUILD: the benchmark under Slurm, started by srun and by paradl inside
# an allocation. Where there is no cluster, one of this node is started for the
# test where the daemons are installed and may be run (root, munge).
build=$(realpath "$1")
skip() { echo "SKIPPED: $*"; exit 77; }
command -v srun >/dev/null || skip "no srun here"
tmp=$(mktemp -d)
pids=()
finish() {
    for p in "${pids[@]}"; do kill "$p" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$tmp"
}
trap finish EXIT

start_cluster() {
    local host
    host=$(hostname -s)
    [ "$(id -u)" = 0 ] || skip "no cluster, and no right to start one"
    for d in munged slurmctld slurmd; do
        [ -x "/usr/sbin/$d" ] || skip "no cluster, and no $d"
    done
    mkdir "$tmp/state" "$tmp/spool"
    cat >"$tmp/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=27817
SlurmdPort=27818
AuthType=auth/munge
AuthInfo=socket=$tmp/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
END
    export SLURM_CONF=$tmp/slurm.conf
    mkdir "$tmp/munge"
    chmod 755 "$tmp" "$tmp/munge"
    head -c 1024 /dev/urandom >"$tmp/key"
    chmod 400 "$tmp/key"
    munged --foreground --force --key-file "$tmp/key" --socket \
        "$tmp/munge/socket" --pid-file "$tmp/munge/pid" --log-file \
        "$tmp/munge/log" --seed-file "$tmp/munge/seed" >"$tmp/munged.out" 2>&1 &
    pids+=($!)
    sleep 1
    slurmctld -D >"$tmp/ctld.out" 2>&1 &
    pids+=($!)
    sleep 1
    slurmd -D >"$tmp/slurmd.out" 2>&1 &
    pids+=($!)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sinfo -h 2>/dev/null | grep -q idle && return
        sleep 1
    done
    skip "no node gets ready: $(tail -n 1 "$tmp"/*.out)"
}
timeout 5 sinfo -h 2>/dev/null | grep -q . || start_cluster
srun --mpi=list 2>&1 | grep -q pmix || skip "Slurm without PMIx"

# ranks that run on their own would each say "1 ranks"
timeout 100 srun -n 2 --mpi=pmix "$build/paradl-run" bench allreduce --size \
    1KiB..64KiB --seconds 0.02s --against mpi >"$tmp/out" 2>&1 || {
    cat "$tmp/out"
    exit 1
}
grep -q '^# allreduce, 2 ranks, 1 node' "$tmp/out" || {
    cat "$tmp/out"
    exit 1
}
timeout 100 salloc -n 2 "$build/paradl" bench allgather -n 2 --size 1KiB..4KiB \
    --seconds 0.02s >"$tmp/out" 2>"$tmp/err" || {
    cat "$tmp/out" "$tmp/err"
    exit 1
}
grep -q '^# allgather, 2 ranks, 1 node' "$tmp/out" || {
    cat "$tmp/out"
    exit 1
}
echo "ok: srun, and paradl inside an allocation"
