#!/bin/bash
# The choice of strategies by layer against the optimum of CBC, an integer
# programming solver, on the same costs.
build=$(dirname "$1")
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! command -v cbc >/dev/null; then
    echo "layers: no CBC to compare with (apt install coinor-cbc)"
    exit 77
fi
flock "$build" ninja -C "$build" peer_layers_cbc peer_stages_cbc >"$tmp/log" 2>&1 || { tail "$tmp/log"; exit 1; }
bad=0
against_cbc() { # largest square of the difference, what, program, its arguments
    local most=$1 what=$2 ours theirs verdict size
    shift 2
    "$build/$@" >"$tmp/a.lp" || exit 1
    read -r _ ours size < <(head -1 "$tmp/a.lp")
    cbc "$tmp/a.lp" ratio 0 allow 0 solve solution "$tmp/a.sol" >"$tmp/log" 2>&1
    theirs=$(awk 'NR == 1 && $1 == "Optimal" { print $NF }' "$tmp/a.sol")
    verdict=$(awk -v a="$ours" -v b="$theirs" -v most="$most" 'BEGIN {
        d = b > 0 ? (a - b) / b : 1
        print (d * d < most ? "ok" : "WRONG") }')
    echo "$what: ours $ours, CBC $theirs ms ($size): $verdict"
    [ "$verdict" = ok ] || bad=1
}
while read -r model pes batch share; do
    against_cbc 1e-14 "layers $model on $pes, batch $batch, exchange $share %" \
        peer_layers_cbc "$model" "$pes" "$batch" "$share"
done <<'CASES'
alexnet 8 256 100
alexnet 16 64 25
vgg16 8 128 100
vgg16 8 32 0
resnet18 8 64 100
resnet18 4 16 50
resnet50 8 64 50
unet 4 4 100
resnet152 64 512 50
densenet121 8 64 50
CASES
# Stages, strategies and savings together.
while read -r model pes batch base room; do
    against_cbc 1e-12 "stages $model on $pes, batch $batch, $base, $room MB" \
        peer_stages_cbc "$model" "$pes" "$batch" "$base" "$room"
done <<'CASES'
alexnet 4 64 pipe=2(m=4) 100000
alexnet 8 64 pipe=4(m=8) 100000
alexnet 4 256 pipe=2(m=8) 350
vgg16 4 64 pipe=2(m=4) 100000
vgg16 4 64 pipe=2(m=4) 900
resnet18 4 64 pipe=4(m=8) 100000
CASES
exit $bad
