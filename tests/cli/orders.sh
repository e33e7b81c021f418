# a plan of the best whose axes are in another order than the search writes them
# is the same plan for `project`, and as a file
set +e
paradl() { "$paradl" "$@"; }
step() { sed -n 's/^ *"step_s": \([^,]*\),$/\1/p' | head -n 1; }
same() { # WHAT A B
    awk -v what="$1" -v a="$2" -v b="$3" 'BEGIN {
        d = a > b ? a - b : b - a
        print what, (a > 0 && d <= 1e-9 * a ? "the same step" : a " and " b) }'
}
found=
while read -r model system pes batch axes options; do
    ask="plan $model --system $system --pes $pes --batch $batch --strategies $axes $options"
    # shellcheck disable=SC2086
    paradl $ask --top 30 --json >list
    strategy=$(sed -n 's/^ *"strategy": "\(data=.*,pipe=.*\)",$/\1/p' list | head -n 1)
    [ "$strategy" ] || continue # pipe is written first
    found=1
    first=$(sed -n "/\"strategy\": \"${strategy//\//.}\"/,\$p" list | step)
    paradl project "$model" --system "$system" --batch "$batch" \
        --strategy "$strategy" $options --emit best.plan --json >project
    same "project:" "$first" "$(step <project)"
    same "plan cost:" "$first" "$(paradl plan cost best.plan $options --json | step)"
    # the same axes in the usual order are another plan: the test can fail
    other=$(sed -E 's/^(data=[0-9]*),(pipe=[0-9]*\([^)]*\))/\2,\1/' <<<"$strategy")
    same "in the usual order:" "$first" "$(paradl project "$model" --system "$system" \
        --batch "$batch" --strategy "$other" $options --json | step)" |
        sed -E 's/: [0-9.]+ and [0-9.]+/: another step/'
    break
done <<'CASES'
llama-3-8b dgx-a100 32 512 pipe,data --framework megatron
llama-3-8b dgx1-v100 32 128 pipe,data,tensor --framework megatron --precision fp16
llama-3-70b dgx-a100 64 256 pipe,data,tensor --framework megatron
CASES
[ "$found" ] || echo "no plan in another order among the cases"
