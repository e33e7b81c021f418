#!/bin/bash
# bench/slow_link.sh PARADL [GBITS...]: steps of two hosts (network name spaces
# of this machine, with an Ethernet of 1, 3 and 10 Gb/s between them) that sum
# their gradients in every way, measured and projected, and what tune would have
# taken. A step is one of the later ones: the first has pages to take and
# connections to make. SYSTEM=FILE.yaml: what calibrate wrote (else it is asked,
# two minutes). Needs root, iproute2, and a machine that does nothing else;
# RUN='chrt -r 10' keeps other programs off the processors.
paradl=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/comm/two_hosts.bash"
tmp=$(mktemp -d)
trap 'end_hosts; rm -rf "$tmp"' EXIT
model=$here/vgg-like.yaml batch=16
number() { sed -n "s/.*\"$1\": \([0-9.e-]*\)[,}].*/\1/p" | tail -1; }

mean_step() { # STEPS
    on_hosts $RUN "$paradl" train "$model" --data synthetic --threads 1 \
        --strategy $strategy --batch $batch --epochs 100 --steps "$1" --no-test \
        --json 2>"$tmp/err" | number step_s
}

system=${SYSTEM:-$tmp/here.yaml}
[ -e "$system" ] || "$paradl" calibrate -q -n 2 --threads 1 -o "$system" || exit
[ $# -gt 0 ] || set -- 1 3 10
for gbits in "$@"; do
    end_hosts
    two_hosts "$gbits" "$tmp" || {
        echo "slow_link: no right to make network name spaces"
        exit 0
    }
    hosts="$system:nodes=2,node.pes=1,nic=1x${gbits}Gbps"
    printf '%s Gb/s\n  %-12s %9s %9s %7s\n' "$gbits" WAY MEASURED PROJECTED ERROR
    for way in dense bf16 fp16 int8 sign topk:0.01 powersgd:4 lossless; do
        strategy=data=2
        [ $way = dense ] || strategy=data=2,compress=$way
        few=$(mean_step 4) many=$(mean_step 14)
        took=$(awk -v a="$few" -v b="$many" 'BEGIN { print (14 * b - 4 * a) / 10 }')
        said=$("$paradl" project "$model" --system "$hosts" --batch $batch \
            --strategy $strategy --json 2>>"$tmp/err" | number step_s)
        awk -v w=$way -v t="$took" -v s="$said" 'BEGIN {
            printf "  %-12s %6.0f ms %6.0f ms %+5.1f %%\n", w, t * 1e3, s * 1e3,
                (t ? s / t - 1 : 0) * 100 }' || cat "$tmp/err"
    done
    "$paradl" tune "$model" --system "$hosts" --strategy data=2 --batch $batch |
        sed -n 's/^\(compress\|strategy\)/  tune: &/p'
done
