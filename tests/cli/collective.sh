# list, show, verify: results, a program that is wrong, and misuse
$paradl collective list --collective allgather
$paradl collective show ring --ranks 3 --rank 1
$paradl collective show double-tree:segments=1 --ranks 3
$paradl collective show ring --collective reduce-scatter --ranks 2 --format msccl
$paradl collective show pairwise --collective exchange --ranks 2 --format msccl
$paradl collective verify --algorithm ring-ring:k=4 --ranks 8
$paradl collective verify --collective broadcast --all --ranks 1..12
$paradl collective verify --algorithm kautz --collective alltoall --ranks 6 --json
$paradl collective show ring --ranks 3 >ring.coll
$paradl collective verify --algorithm ring.coll
sed 's/add 0\[1\] from 2/recv 0[1] from 2/' ring.coll >wrong.coll
$paradl collective verify --algorithm wrong.coll
echo "exit $?"
sed 's/to 1/to 7/' ring.coll >bad.coll
$paradl collective verify --algorithm bad.coll
echo "exit $?"
$paradl collective verify --algorithm rign
echo "exit $?"
$paradl collective verify --algorithm ring:k=4
echo "exit $?"
$paradl collective verify
echo "exit $?"
$paradl collective show swing --ranks 12
echo "exit $?"
$paradl collective list --collective alltoal
echo "exit $?"
# what NCCL takes, and why
$paradl collective nccl allreduce --system dgx-h100 --ranks 16
$paradl collective nccl allreduce --system dgx-h100 --ranks 8 --size 1MiB
$paradl collective nccl allgather --system dgx-a100 --ranks 8 --per-node 1 --size 1MiB --json | grep -c bytes_per_s
for wrong in "alltoall --system dgx-h100" "allreduce --system fugaku" "allreduce" \
    "allreduce --system dgx-h100 --ranks 12" "allreduce --system dgx-h100 --size 8KiB..1KiB"; do
    $paradl collective nccl $wrong
    echo "exit $?"
done
