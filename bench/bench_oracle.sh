#!/bin/bash
# The oracle: CPU time of lowering and pricing one strategy in the library
# (median of 20), and wall time of the command (best of 5).
paradl=$(realpath "$1")
build=$(dirname "$paradl")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -I"$here/../include" -o "$tmp/ours" \
    "$here/oracle_ours.c" "$build/libparadl.a" \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash hwloc) \
    -lexpat -lz -lm || exit 4
"$tmp/ours" resnet50 dgx-a100:nodes=128 data=1024 32768 fp32 || exit 1
"$tmp/ours" vgg16 abci-v100 data=16,filter=4 1024 fp32 || exit 1
"$tmp/ours" gpt3-175b dgx-a100:nodes=128 data=64 1536 bf16 || exit 1
best=1000000000000
for _ in 1 2 3 4 5; do
    start=$(date +%s%N)
    "$paradl" project resnet50 --system dgx-a100:nodes=128 \
        --strategy data=1024 --batch 32768 >/dev/null
    end=$(date +%s%N)
    [ $((end - start)) -ge $best ] || best=$((end - start))
done
echo "paradl project resnet50 on 1024 PEs: $((best / 1000000)).$((best / 100000 % 10)) ms  (wall, best of 5, with limits and gains)"
