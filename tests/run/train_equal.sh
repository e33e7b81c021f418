#!/bin/bash
# P MPI ranks and P virtual ranks train the same network, bit for bit over a
# whole run: every loss, and every byte of every checkpoint. Usage: PARADL [P..]
set -u
paradl=$1; shift
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
model=$(dirname "$0")/../../examples/digits.yaml
mixture=moe:layers=2,hidden=8,heads=2,ffn=6,vocab=11,seq=5,experts=4,topk=2
keys=llama:layers=1,hidden=16,heads=4,kv_heads=2,ffn=12,vocab=11,seq=12
others='^(mixture|fast|keys|quick|half):'
bad=0

# strategies for each number of ranks; axes larger than what they cut are
# admitted, so that some ranks have little or nothing to do. A mixture of
# experts runs with the reference kernels and (fast:) with the fast ones, so
# does a model whose keys go round a ring (quick:), and in bfloat16 with the
# weights cut (half:); all of these must also be the serial run.
declare -A list=(
    [2]="keys:context=2 keys:context=2(plain) quick:context=2(gather) quick:context=2 half:data=2,zero=3 half:tensor=2,zero=1 data=2 data=2,compress=topk:0.1 filter=2 spatial=2 channel=2 pipe=2(1f1b,m=4) pipe=2(zb-v,m=4) mixture:expert=2 fast:expert=2 fast:tensor=2"
    [3]="keys:context=3 quick:context=3(gather) quick:context=3 data=3 data=3,compress=topk:0.02 spatial=3 pipe=3(gpipe,m=2) pipe=3(zb-h2,m=4)"
    [4]="keys:tensor=4+seq keys:context=4 quick:context=4 quick:context=2,tensor=2 quick:data=2,context=2 mixture:data=2,expert=2 fast:data=2,expert=2 fast:expert=4 fast:expert=2,tensor=2 data=2,spatial=2 data=2,filter=2 pipe=2(1f1b,m=2),data=2"
    [7]="data=7 filter=7")

run() { # NAME STRATEGY FLAGS...
    local name=$1 strategy=$2 train="$model --data digits" backend=ref; shift 2
    [[ $strategy =~ ^(fast|quick|half): ]] && backend=cpu
    [[ $strategy =~ ^(mixture|fast): ]] &&
        train="$mixture --data synthetic --samples 400"
    [[ $strategy =~ ^(keys|quick|half): ]] && train="$keys --data synthetic --samples 400"
    [[ $strategy =~ ^half: ]] && train+=" --precision bf16"
    [ "${name%%-*}" = serial ] && strategy=serial
    [[ $strategy =~ $others ]] && strategy=${strategy#*:}
    "$paradl" train $train --no-test --steps 8 --batch 28 --lr 0.05 \
        --strategy "$strategy" --allow-empty --backend $backend --threads 1 \
        --checkpoint "$dir/$name" --every 4 --json "$@" \
        >"$dir/$name.json" 2>"$dir/$name.err" || {
        echo "$name $strategy: exit code $?"; cat "$dir/$name.err"; return 1
    }
    # the loss of each step, and the digits of its text
    sed -n 's/.*"step": \([0-9]*\),.*"loss": \([^,]*\),.*/\1 \2/p' \
        "$dir/$name.json" >"$dir/$name.loss"
}
serial() { # STRATEGY: is it the serial run, to the rounding of sums?
    [[ $1 =~ $others ]] || return 0
    local name=serial-${1%%:*} bound=1e-5
    [[ $1 =~ ^half: ]] && bound=1e-3
    [ -f "$dir/$name.loss" ] || run "$name" "$1" --virtual || return 1
    paste "$dir/$name.loss" "$dir/mpi.loss" | awk -v bound=$bound '
        { d = ($4 - $2) / $2; d = d < 0 ? -d : d; if (d > worst) worst = d }
        END { printf "losses differ from serial by %.1e; ", worst
              exit !(NR >= 8 && worst <= bound) }'
}

fast=0 # a build without oneDNN has the reference kernels only
"$paradl" train "$mixture" --data synthetic --samples 28 --batch 28 --steps 1 --virtual \
    --backend cpu >/dev/null 2>&1 && fast=1
[ $fast = 1 ] || echo "SKIPPED: fast kernels (no backend cpu)"
for p in "${@:-2 3 4 7}"; do
    for p in $p; do
        for s in ${list[$p]}; do
            [[ $fast = 0 && $s =~ ^(fast|quick|half): ]] && continue
            rm -rf "$dir"/mpi* "$dir"/virtual*
            good=1
            run mpi "$s" || { bad=1; continue; }
            run virtual "$s" --virtual || { bad=1; continue; }
            [ "$(wc -l <"$dir/mpi.loss")" -ge 8 ] || { echo "$s: no losses"; good=0; }
            cmp -s "$dir/mpi.loss" "$dir/virtual.loss" || {
                echo "$p ranks, $s: losses differ"
                diff "$dir/mpi.loss" "$dir/virtual.loss" | head -4
                good=0
            }
            for f in "$dir"/mpi/step-8/data-*; do
                rank=$(basename "$f" | cut -d- -f2)
                cmp "$f" "$dir"/virtual/step-8/data-"$rank"-* || good=0
            done
            serial "$s" || good=0
            [ $good = 1 ] && echo "$p ranks, $s: equal" || { echo "$p ranks, $s: WRONG"; bad=1; }
        done
    done
done
exit $bad
