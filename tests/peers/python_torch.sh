#!/bin/bash
# The Python package beside Debian's PyTorch: modules as models, samplers under
# DataLoader and DistributedDataParallel, hiding, going on. Exit 77 without it.
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$paradl")
python=/usr/bin/python3
$python "$(dirname "$0")/has.py" torch torchvision || {
    echo "python_torch: no python3-torch here: skipped"
    exit 77
}
export PYTHONPATH=$here/../../python PARADL_LIBRARY=$build/libparadl.so.0
export PYTHONDONTWRITEBYTECODE=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
exec $python "$here/python_torch.py" "$paradl"
