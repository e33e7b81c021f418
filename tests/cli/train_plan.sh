# the plan checked is the plan priced is the plan run, byte for byte
set +e
here=$PWD
cd "$data/../.."
train="$paradl train --data digits --steps 2 --batch 16 --backend ref --virtual --json"
hash() { grep -o '"[a-z_]*hash": *"[0-9a-f]*"' | grep -o '[0-9a-f]\{16\}'; }
$paradl train examples/digits.yaml --strategy data=2,filter=2 --batch 16 --emit "$here/a.plan" --json >"$here/emitted"
grep -c "$(hash <"$here/emitted")" "$here/emitted"
$paradl plan check "$here/a.plan" | sed "s,.*/a.plan,a.plan,"
$paradl plan cost "$here/a.plan" --system abci-v100 | head -n 2
# from a strategy, from the file, and by paradl-run itself: one hash, one loss
$train examples/digits.yaml --strategy data=2,filter=2 >"$here/one"
$paradl train --plan "$here/a.plan" --data digits --steps 2 --backend ref --virtual --json >"$here/two"
"$(dirname "$paradl")/paradl-run" train --plan "$here/a.plan" --data digits --steps 2 --backend ref --virtual --json >"$here/three"
cat "$here/emitted" "$here/one" "$here/two" "$here/three" | hash | sort | uniq -c | sed 's/ [0-9a-f]*$/ times the same hash/'
for f in one two three; do grep -o '"final_loss": [0-9.]*' "$here/$f"; done | uniq -c
# a plan that was changed on its way is refused, as is one of another version
"$(dirname "$paradl")/paradl-run" train --plan "$here/a.plan" --plan-hash 0123456789abcdef --data digits --virtual 2>&1 | sed 's/.*a.plan/a.plan/;s/hash [0-9a-f]*/hash H/;s/ (hint.*//'
cd "$here"
sed '1s/2/9/' a.plan >old.plan
$paradl train --plan old.plan --data digits
echo "exit $?"
$paradl train --plan a.plan --data digits --strategy data=2
echo "exit $?"
# plan run FILE is train --plan FILE, with synthetic samples unless told others
grep -o '"final_loss": [0-9.]*' two >trained
(cd "$data/../.." && $paradl plan run "$here/a.plan" --data digits --steps 2 --backend ref --virtual --json) |
    grep -o '"final_loss": [0-9.]*' | cmp - trained && echo the same loss
$paradl plan lenet5 --system abci-v100 --pes 2 --batch 8 --emit best.plan >best
$paradl plan run best.plan --steps 1 --backend ref --virtual --no-test | grep -o 'done after 1 steps'
$paradl plan run best.plan --resume
echo "exit $?"
$paradl plan run best.plan --batch 8
echo "exit $?"
