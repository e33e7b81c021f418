# The program's start: what every call of a script pays.
set -eu
paradl=$1
runs=200
start=$(date +%s%N)
for ((i = 0; i < runs; i++)); do "$paradl" --version >/dev/null; done
end=$(date +%s%N)
awk -v ns=$((end - start)) -v n=$runs \
    'BEGIN {printf "start  %.2f ms  (mean of %d runs of paradl --version)\n", ns / n / 1e6, n}'
