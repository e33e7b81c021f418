# sites that train by themselves and meet now and then
set +e
m="$data/../../examples/digits.yaml"
run="$paradl train $m --data digits --batch 32 --virtual --threads 1 --lr 0.05"
few="--steps 6 --optimizer sgd:momentum=0 -q --no-test"
cat >far.py <<'END'
import array, json, struct, sys

def read(name):
    b = open(name, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    return {k: array.array("f", b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(b[8:8 + n]).items() if k != "__metadata__"}

a, b = read(sys.argv[1]), read(sys.argv[2])
far = max(abs(x - y) for k in a for x, y in zip(a[k], b[k]))
print("the same" if far < 1e-6 else "another network")
END
# that meet after every step and take the mean are data parallel
$run $few --strategy data=2 --save data.safetensors >/dev/null
$run $few --sites 2:local=1,lr=1,momentum=0 --save each.safetensors >/dev/null
python3 far.py data.safetensors each.safetensors
$run $few --sites 2:local=3,lr=1,momentum=0 --save third.safetensors >/dev/null
python3 far.py data.safetensors third.safetensors
# a site may be divided in any way; its ranks meet those that hold the same
$run $few --sites 2:local=3,lr=1,momentum=0 --strategy filter=2 --save filter.safetensors >/dev/null
python3 far.py third.safetensors filter.safetensors
# its ends are between two meetings; all stop together
${run% --lr 0.05} --lr 0.003 --optimizer adamw --sites 4:local=10 --epochs 5 --json | python3 -c '
import json, sys
x = [json.loads(l) for l in sys.stdin][-1]
print(x["ranks"], x["batch"], x["steps"], x["accuracy"] > 0.8)'
for wrong in 0 2x 2: 2:local=0 2:foo=1 2:lr=-1 '2:local=1,momentum=1' 3; do
    $run --steps 2 --sites "$wrong"; echo "rc $?"
done
$run --steps 2 --sites 2 --ema 0.9; echo "rc $?"
$run --steps 2 --sites 2 --strategy data=2,zero=1; echo "rc $?"
$run --steps 2 --sites 2 --strategy data=2 -n 2; echo "rc $?"
