#!/bin/bash
# paradl evaluate says of a checkpoint, and of saved weights, what train said of
# them at its end, under any strategy; with and without moving averages.
set -u
paradl=$1
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
model=$(dirname "$0")/../../examples/digits.yaml
bad=0
fail() { echo "$*"; bad=1; }
number() { # KEY of the JSON on standard input
    sed -n "s/.*\"$1\": \([0-9.e-]*\),*.*/\1/p" | tail -1
}
evaluate() { # FLAGS...
    "$paradl" evaluate "$model" --data digits --backend ref --json --quiet "$@"
}

want=$("$paradl" train "$model" --data digits --batch 16 --steps 12 --lr 0.05 \
    --backend ref --threads 1 --ema 0.8 --json --quiet --checkpoint "$dir/ck" \
    --save "$dir/w.safetensors" | tail -1)
loss=$(number test_loss <<<"${want#*final_loss}")
right=$(number accuracy <<<"${want#*perplexity}")
[ -n "$loss" ] || fail "train: $want"
before=$(ls -lR "$dir/ck")
for how in "--checkpoint $dir/ck" "--checkpoint $dir/ck/step-12" \
    "--weights $dir/w.safetensors" "--checkpoint $dir/ck --virtual --strategy filter=2" \
    "--checkpoint $dir/ck --device twin:7 --virtual" "--checkpoint $dir/ck --batch 7"; do
    # shellcheck disable=SC2086
    got=$(evaluate $how) || fail "$how: exit code $?"
    awk -v a="$loss" -v b="$(number loss <<<"$got")" \
        'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 && d > -1e-5) }' ||
        fail "$how: $got, not $loss"
done
# the weights themselves are others
got=$(evaluate --checkpoint "$dir/ck" --no-ema | number loss)
[ "$got" != "$loss" ] || fail "--no-ema changes nothing"
# nothing was written, and the run that writes there is not in the way
[ "$(ls -lR "$dir/ck")" = "$before" ] || fail "$(ls -lR "$dir/ck")"
evaluate --checkpoint "$dir" 2>/dev/null
[ $? = 3 ] || fail "a folder without checkpoints is no error"
evaluate --checkpoint "$dir/ck" --device none 2>/dev/null
[ $? = 3 ] || fail "a device that is not there is no error"
# weights from two places are refused, from none said; so are too many threads
evaluate --checkpoint "$dir/ck" --weights "$dir/w.safetensors" 2>/dev/null
[ $? = 2 ] || fail "weights from two places are no error"
evaluate --threads 4097 2>/dev/null
[ $? = 2 ] || fail "4097 threads are no error"
"$paradl" evaluate "$model" --data digits --test-samples 8 2>"$dir/err" >"$dir/out"
grep -q 'training begins with' "$dir/err" || fail "no weights: $(cat "$dir/err")"
"$paradl" evaluate "$model" --data digits --test-samples 8 --weights "$dir/w.safetensors" \
    2>"$dir/err" >"$dir/out"
[ ! -s "$dir/err" ] || fail "weights: $(cat "$dir/err")"
[ $bad = 0 ] && echo "evaluate agrees with train: loss $loss, accuracy $right"
exit $bad
