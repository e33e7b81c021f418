# what stays, is made again or waits on the host
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial --offload auto --memory 1GiB | sed -n '2p;/^Out of core/,/^Step/p'
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial,swap=karma --memory 1GiB --json | grep -c '"out_of_core"\|"policies"\|"choice": "swap"'
$paradl project resnet18 --system abci-v100 --batch 64 --strategy 'pipe=2(m=2),swap=karma'; echo "rc $?"
$paradl project resnet18 --system abci-v100 --batch 64 --strategy serial --memory much; echo "rc $?"
