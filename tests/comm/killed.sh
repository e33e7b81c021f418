#!/bin/sh
# killed.sh MPIRUN... PROGRAM: a rank is killed in the middle of a loop of
# collectives. The job must end by itself, in time, and not as if all was well.
start=$(date +%s)
timeout 60 "$@" kill >/dev/null 2>&1
rc=$?
took=$(($(date +%s) - start))
if [ $rc = 0 ] || [ $rc = 124 ] || [ $took -gt 30 ]; then
    echo "a killed rank: exit $rc after $took s"
    exit 1
fi
echo "a killed rank ends the job after $took s with exit $rc"
