# plans anchored to and ranked by own runs: the table, --against, JSON
set +e
cat >mine.json <<'END'
{"schema": "paradl.runs/1", "runs": [
{"id": "a", "model": "gpt2", "system": "dgx-a100", "strategy": "data=8", "batch": 64,
 "options": {"framework": "megatron"}, "measured": {"step_s": 0.3}},
{"id": "b", "model": "gpt2", "system": "dgx-a100", "strategy": "data=4,tensor=2+seq,zero=1",
 "batch": 64, "options": {"framework": "megatron"}, "measured": {"step_s": 0.25}}]}
END
p="$paradl plan gpt2 --system dgx-a100 --pes 8 --batch 64"
$p --top 2 --evidence mine.json --against data=8 |
    grep -E "^\*|^=  |^STEP, |^own runs|^against|^  step" | sed -E 's/ +[0-9.]+ m?s.*/ .../'
for how in "" "--evidence mine.json"; do
    $p --top 1 $how --json | grep -E '"(strategy|anchored_s)"'
done
$p --evidence nosuch.json; echo "rc $?"
# what one runs today, and how long it takes
$p --top 1 --against data=8 --measured-step 0.4s |
    grep -E "^\*|^STEP, |^own runs|^against|^  step" | sed -E 's/ +[0-9.]+ m?s.*/ .../'
$p --measured-step 0.4s; echo "rc $?"
