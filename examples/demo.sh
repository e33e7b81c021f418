#!/bin/bash
# make demo: what ParaDL does, on real networks and machines, in a minute.
set -eu
paradl=$1
say() { printf '\n== %s\n' "$*"; }
show() {
    printf '\n$ paradl'
    printf ' %q' "$@"
    printf '\n'
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
printf '\nMore: paradl help, README.md, doc/\n'
