#!/bin/bash
# make bench: bench/run.sh PARADL runs every bench/bench_*.sh, each of which
# prints lines "what  value unit  (how it was measured)".
paradl=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
rc=0
for b in "$here"/bench_*.sh; do
    bash "$b" "$paradl" || { echo "FAILED $(basename "$b")"; rc=1; }
done
exit $rc
