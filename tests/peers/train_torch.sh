#!/bin/bash
# Kernels and optimizers of the runtime against PyTorch: every case of the
# kernel tests, forward and both gradients. Needs Debian's python3-torch and a
# build with MPI; exit 77 without them.
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$(realpath "$1")")
/usr/bin/python3 "$(dirname "$0")/has.py" torch || exit 77
[ -f "$build/build.ninja" ] || exit 77
flock "$build" ninja -C "$build" peer_train_kernels >/dev/null 2>&1 || exit 77
OMP_NUM_THREADS=1 "$build/peer_train_kernels" | /usr/bin/python3 "$here/train_torch.py"
