#!/bin/bash
# train_samples.sh PARADL: orders with state in real runs. What is hidden and
# who holds what depends on losses, never on ranks: one process, threads and
# MPI ranks see the same samples; a run that was stopped in the middle of an
# epoch ends in the same bits; another --hide is not taken for it.
set -u
paradl=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() {
    echo "FAIL: $*"
    bad=1
}
# what is shown and hidden is a matter of losses: a small network has them, too
cat >"$tmp/small.yaml" <<'EOF'
format: paradl-model/1
name: small
kind: cnn
inputs:
  - {name: input, shape: [1, 8, 8]}
layers:
  - {op: flatten, name: flatten}
  - {op: linear, name: fc1, features: 24}
  - {op: relu, name: relu}
  - {op: linear, name: fc2, features: 10}
EOF
train() { # more options
    "$paradl" train "$tmp/small.yaml" --no-test --data digits --batch 96 \
        --epochs 3 --lr 0.05 --warmup 14 --threads 1 --json "$@" 2>"$tmp/err" ||
        { cat "$tmp/err"; fail "train $*"; }
}
# what does not depend on time: steps, epochs, losses, hidden samples
figures() {
    python3 -c '
import json, sys
for line in sys.stdin:
    try:
        x = json.loads(line)
    except ValueError:
        continue
    if "step" in x and "lr" in x:
        print(x["step"], x["epoch"], round(x["loss"], 6), round(x["lr"], 9), x.get("hidden"))'
}

for ways in "--hide infobatch" "--hide kakurenbo --shuffle partial:workers=4"; do
    # shellcheck disable=SC2086
    train $ways --precision fp64 | figures >"$tmp/one"
    [ "$(wc -l <"$tmp/one")" -gt 25 ] || fail "$ways: $(wc -l <"$tmp/one") lines"
    # shellcheck disable=SC2086
    train $ways --precision fp64 --strategy data=2 | figures >"$tmp/two"
    cmp -s "$tmp/one" "$tmp/two" || {
        diff "$tmp/one" "$tmp/two" | head -n 5
        fail "$ways: two ranks see something else"
    }
done
awk '$5 > 0' "$tmp/one" | grep -q . || fail "nothing was ever hidden"

# weights of samples on a device, and hidden ones looked at: the host plays one
for ways in "--hide infobatch" "--hide kakurenbo" \
    "--hide kakurenbo --strategy accumulate=2"; do
    # shellcheck disable=SC2086
    train $ways --backend ref | figures >"$tmp/host"
    # shellcheck disable=SC2086
    train $ways --backend ref --device twin:3 | figures >"$tmp/device"
    cmp -s "$tmp/host" "$tmp/device" || {
        diff "$tmp/host" "$tmp/device" | head -n 5
        fail "$ways: a device sees something else"
    }
done

# workers that are groups of one rank's samples: what as many ranks train
sed 's/{op: relu, name: relu}/{op: batch_norm, name: bn}/' "$tmp/small.yaml" \
    >"$tmp/norm.yaml"
with_norm() {
    "$paradl" train "$tmp/norm.yaml" --no-test --data digits --batch 96 \
        --epochs 3 --lr 0.05 --threads 1 --json --precision fp64 "$@" \
        2>"$tmp/err" || { cat "$tmp/err"; fail "train $*"; }
}
for m in 2 4; do
    for way in local partial pair; do
        with_norm --strategy "data=$m" --shuffle "$way:place=class" |
            figures >"$tmp/ranks"
        with_norm --strategy "bn-groups=$m" \
            --shuffle "$way:workers=$m,place=class" | figures >"$tmp/groups"
        cmp -s "$tmp/ranks" "$tmp/groups" || {
            diff "$tmp/ranks" "$tmp/groups" | head -n 5
            fail "$way: $m groups of a rank are not $m ranks"
        }
    done
done

# stopped in the middle of an epoch, and in its last step
ways="--hide kakurenbo --shuffle pair:workers=4"
# shellcheck disable=SC2086
train $ways --save "$tmp/whole.safetensors" >"$tmp/out"
for at in 20 14; do
    rm -rf "$tmp/a"
    # shellcheck disable=SC2086
    train $ways --checkpoint "$tmp/a" --steps "$at" >"$tmp/out"
    # shellcheck disable=SC2086
    train $ways --checkpoint "$tmp/a" --resume --save "$tmp/again.safetensors" >"$tmp/out"
    cmp -s "$tmp/whole.safetensors" "$tmp/again.safetensors" ||
        fail "$ways: stopped at $at, the weights are others"
done
if "$paradl" train "$tmp/small.yaml" --data digits --batch 96 --epochs 3 \
    --hide ies --shuffle pair:workers=4 --checkpoint "$tmp/a" --resume >"$tmp/out" 2>"$tmp/err"; then
    fail "a checkpoint of --hide kakurenbo is taken for another's"
fi
grep -q "made with hide kakurenbo, not ies" "$tmp/err" || { cat "$tmp/err"; fail "no reason is given"; }
[ $bad = 0 ] && echo "samples: equal on one rank and two, and after a stop"
exit $bad
