#!/bin/bash
# Ranks that another MPI's launcher started would each be alone: they say so.
set -u
run="$(dirname "$1")/paradl-run"
export ASAN_OPTIONS=detect_leaks=0
for size in PMI_SIZE OMPI_COMM_WORLD_SIZE; do
    said=$(env "$size=2" PMI_RANK=0 "$run" bench allreduce --size 4KiB 2>&1)
    rc=$?
    if [ $rc != 4 ] || [[ $said != *"started as 2 ranks by another MPI"* ]]; then
        echo "$size: exit $rc: $said"
        exit 1
    fi
done
