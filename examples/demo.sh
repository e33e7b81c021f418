#!/bin/bash
# make demo: what ParaDL does, on real networks and machines, in a minute.
set -eu
paradl=$(realpath "$1")
cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*" | fold -s -w 80 | sed 's/ $//'; }
show() { # the command, 80 columns wide, and what it prints
    local line='$ paradl' word part=
    for word in "$@" --; do
        case $word in
        --*)
            if [ $((${#line} + ${#part})) -gt 78 ]; then
                printf '\n%s \\' "$line"
                line='   '
            fi
            line+=$part part= ;;
        esac
        word=$(printf %q "$word")
        part+=" ${word//\\,/,}"
    done
    printf '\n%s\n' "$line"
    "$paradl" "$@"
}
say "What is this network, exactly?"
show model show resnet50
say "And this one, from its published configuration? A trillion parameters are a few dozen nodes."
show model show megatron-1t
say "How should ResNet-50 be trained on 64 GPUs of ABCI?"
show plan resnet50 --system abci-v100 --pes 64 --batch 2048 --top 6
say "What does the best one cost, phase by phase?"
show project resnet50 --system abci-v100 --strategy data=64 --batch 2048
say "Is this collective algorithm right, for every number of ranks?"
show collective verify --algorithm shd --ranks 1..64
say "How long does it take on the network it was designed with, and on which link is it hot?"
show simulate allreduce --algorithm shd --topology dln:switches=32,hosts=16,bw=12.5GB/s,lat=1us --size 32MiB
say "33.5 million messages: a ring of 4096 hosts on a fat tree"
show simulate allreduce --algorithm ring --topology fat-tree:down=64x64,up=1x64,links=1x1,bw=12.5GB/s,lat=1us --size 100MiB
if [ -x "$(dirname "$paradl")/paradl-run" ]; then
    say "A projection is an opinion until it runs: train real digits, serially, then as data=2,spatial=2 on four ranks"
    show train examples/digits.yaml --data digits --epochs 3 --batch 32 --lr 0.05
    show train examples/digits.yaml --data digits --epochs 3 --batch 32 --lr 0.05 --strategy data=2,spatial=2 --virtual
    say "Are they the same network? Every tensor of every operation, compared"
    show diff-run serial data=2,spatial=2 --model examples/digits.yaml
fi
say "And as a page: a CNN on ABCI, GPT-3 on a cluster of A100s"
out=$(realpath --relative-to=. "$(dirname "$paradl")")
show plan resnet50 --system abci-v100 --pes 64 --batch 2048 --top 3 --report "$out/demo-resnet50.html"
show plan gpt3-175b --system dgx-a100 --pes 1024 --batch 1536 --top 3 --report "$out/demo-gpt3.html"
printf '\nOpen %s/demo-resnet50.html and %s/demo-gpt3.html in a browser.\n' "$out" "$out"
printf 'More: paradl help, README.md, doc/\n'
