# what stays, is made again or waits on the host
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial --offload auto --memory 1GiB | sed -n '2p;/^Out of core/,/^Step/p'
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial,swap=karma --memory 1GiB --json | grep -c '"out_of_core"\|"policies"\|"choice": "swap"'
$paradl project resnet18 --system abci-v100 --batch 64 --strategy 'pipe=2(m=2),swap=karma'; echo "rc $?"
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial --memory much; echo "rc $?"
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial --memory 0; echo "rc $?"
# copies each way have rows of their own, beside what computes
p="$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial,offload=activations,offload=optimizer"
$p --trace t.json >trace.txt
grep -o '"args": {"name": "[a-z ]*"' t.json
$p --details --json | grep -o '"rows": \[[^]]*\]'
# which method, at which batch; the page draws it
$paradl fit-in resnet18 --system abci-v100 --pes 1 --batch 256 --memory 4GiB --offload auto --report fit.html | sed -n '/^Samples/,/^  karma/p'
grep -o '<section id="[^"]*"' fit.html
