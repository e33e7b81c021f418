# the network of a system is a topology
set +e
$paradl topology show system:abci-v100:nodes=16 | head -n 3
$paradl simulate allreduce --algorithm ring-ring:k=8 --topology system:dgx-h100:nodes=4 --size 64MiB | head -n 2
$paradl topology show system:abci-v10; echo "rc $?"
