#!/bin/bash
# The oracle: CPU time (median of 20) and memory of lowering and pricing one
# strategy of each kind in the library, and of the command. Bars: ResNet-50 on
# 1024 PEs under 2 ms and 30 ms, 32 MB; GPT-3 on 4096 PEs the same order. Then
# the search over configurations: points a second on one core, beside Calculon.
paradl=$(realpath "$1")
build=$(dirname "$paradl")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck disable=SC2046
cc -O2 -std=c11 -D_GNU_SOURCE -I"$here/../include" -o "$tmp/ours" \
    "$here/oracle_ours.c" "$build/libparadl.a" \
    $(pkg-config --libs jansson yaml-0.1 libprotobuf-c libxxhash) \
    -lexpat -lz -lm || exit 4
for strategy in data=1024 data=128,filter=8 data=128,channel=8 \
    data=256,spatial=4 data=64,spatial=4x4 data=64,filter=4,channel=4 \
    'pipe=4(1f1b,m=8),data=256' 'pipe=16(gpipe,m=32),data=64' \
    'pipe=4(1f1b,m=8),data=64,spatial=4'; do
    "$tmp/ours" resnet50 dgx-a100:nodes=128 "$strategy" 32768 fp32 || exit 1
done
for strategy in data=64 data=1024; do
    "$tmp/ours" gpt3-175b dgx-a100:nodes=512 "$strategy" 4096 bf16 || exit 1
done
"$tmp/ours" --command "$paradl" project resnet50 \
    --system dgx-a100:nodes=128 --strategy data=1024 --batch 32768 || exit 1
"$tmp/ours" --command "$paradl" project gpt3-175b \
    --system dgx-a100:nodes=512 --strategy data=4096 --batch 4096 || exit 1
"$tmp/ours" --search gpt3-175b dgx-a100 4096 1536 || exit 1
"$tmp/ours" --search llama-3-70b dgx-h100 1024 1024 || exit 1
