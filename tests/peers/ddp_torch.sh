#!/bin/bash
# ParaDL's allreduce under DistributedDataParallel, beside gloo's: the same bits
# with two ranks, within 1e-6 with three, sparse with error feedback trains.
# Needs Debian's python3-torch; exit 77 without it, or without paradl-run.
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$paradl")
python=/usr/bin/python3
$python "$(dirname "$0")/has.py" torch && [ -e "$build/libparadl-comm.so.0" ] || {
    echo "ddp_torch: no python3-torch or no libparadl-comm.so: skipped"
    exit 77
}
export PYTHONPATH=$here/../../python PARADL_LIBRARY=$build/libparadl.so.0
export PYTHONDONTWRITEBYTECODE=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
exec $python "$here/ddp_torch.py"
