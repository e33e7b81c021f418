# two results, systems or plans, number by number
set +e
$paradl compare dgx-a100 dgx-a100:nodes=48
$paradl compare dgx-a100 dgx-a100
$paradl compare dgx-a100 dgx-a100:nodes=48 --json
echo '{"a_s": 2, "list": [{"name": "x", "v_bytes": 1024}, {"name": "y", "v_bytes": 1}], "gone": 1}' >one.json
echo '{"a_s": 1, "list": [{"name": "y", "v_bytes": 1}, {"name": "x", "v_bytes": 2048}], "new": null}' >two.json
$paradl compare one.json two.json
$paradl compare one.json two.json --all
$paradl project lenet5 --system abci-v100 --strategy data=2 --batch 8 --emit a.plan >/dev/null
$paradl project lenet5 --system abci-v100 --strategy filter=2 --batch 8 --emit b.plan >/dev/null
$paradl compare a.plan b.plan
$paradl compare one.json nothere.json; echo "rc $?"
$paradl compare one.json dgx-a10; echo "rc $?"
$paradl project lenet5 --system abci-v100 --strategy data=2 --batch 8 --json >p.json
$paradl compare p.json p.json
$paradl compare p.json dgx-a100; echo "rc $?"
$paradl compare a.plan dgx-a100; echo "rc $?"
# two machines for the same job
$paradl compare dgx-a100 dgx-h100 --model resnet50 --pes 8 --batch 256
$paradl compare dgx-a100 dgx-h100 --model resnet50; echo "rc $?"
$paradl compare dgx-a100 nothing --model resnet50 --pes 8 --batch 256; echo "rc $?"
$paradl compare dgx-a100 dgx-h100 --model resnet50 --pes 8 --batch 256 --report c.html >/dev/null
grep -o '<section id="[a-z]*' c.html
$paradl compare dgx-a100 dgx-h100 --model resnet50 --pes 8 --batch 256 --all --json | $paradl report - -o again.html
grep -c 'dgx-a100 against dgx-h100' again.html
$paradl compare dgx-a100 dgx-h100 --report c.txt; echo "rc $?"
