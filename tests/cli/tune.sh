# which exchange of gradients; figures are in tests/tune
set +e
$paradl tune lenet5 --system dgx-a100:nodes=2 --strategy data=16 --batch 256 --lossless --parameters ideal --nccl n.csv --table t.yaml --env e.sh --buckets | grep -c .
sed 's/^# .*/# STRATEGY/; s/ring\|tree/ALGORITHM/' n.csv
sed 's/^# [^D].*/# STRATEGY/; s/=[0-9]*)/=MB)/; s/Ring\|Tree/ALGORITHM/; s/=[46]$/=N/' e.sh
sed 's/algorithm: .*}/algorithm: A}/' t.yaml
$paradl tune vgg16 --system abci-v100:nodes=2,nic=1x125MB/s --strategy data=8 --batch 64 | grep -o '^compress\|^do not compress'
$paradl tune resnet50 --system dgx-h100:nodes=2 --strategy data=16 --batch 1024 --lossless | grep -o '^compress\|^do not compress'
$paradl tune alexnet --framework pytorch --system abci-v100:nodes=4,nic=1x3.125GB/s --strategy data=16 --batch 512 | grep -o 'of [0-9]* layers only'
$paradl plan vgg16 --system abci-v100:nodes=2,nic=1x125MB/s --pes 8 --batch 64 --strategies data --framework none --collectives | grep -o '^collectives: .*compress=[a-z]*'
$paradl plan vgg16 --system abci-v100 --pes 1 --batch 8 --framework none --collectives | grep -o '^collectives: nothing'
$paradl tune lenet5 --system dgx-a100 --strategy data=8,zero=1 --batch 64; echo "rc $?"
$paradl tune lenet5 --system dgx-a100 --strategy serial --batch 64; echo "rc $?"
$paradl tune lenet5 --system dgx-a100; echo "rc $?"
$paradl tune lenet5 --system dgx-a100 --strategy data=8 --batch 64 --table /nowhere/t.yaml; echo "rc $?"
# nothing is gained by a name: nothing is exported (MPI leaks by itself)
$paradl tune vgg16 --system abci-v100:nodes=16 --strategy data=64 --batch 2048 --env e.sh --nccl n.csv --table t.yaml -q; cat e.sh n.csv t.yaml
ASAN_OPTIONS=detect_leaks=0 PARADL_PROFILE=t.yaml $paradl bench allreduce -n 2 --table >/dev/null; echo "rc $?"
for least in 0 -1 1 x; do
    $paradl tune lenet5 --system dgx-a100 --strategy data=8 --batch 64 --least $least; echo "rc $?"
done
