# simulate and compare on small networks; times are deterministic
$paradl simulate allreduce --algorithm ring --topology torus:4x4,bw=10GB/s,lat=1us --size 32MiB
$paradl simulate allreduce --algorithm shd --topology dln:q=3,p=2 --size 1MiB
$paradl simulate alltoall --algorithm half-split --topology full2d:2x2 --size 16KiB --links
$paradl simulate allreduce --algorithm sparse-ring-ring --density 0.01 --topology tsubame3:nodes=2 --size 4MiB --model smpi --share rtt --energy integrate
$paradl simulate allreduce --algorithm halving-doubling --topology dln:q=2,p=2 --size 1MiB --path --timeline 8
$paradl simulate allreduce --algorithm ring --topology torus:2x2 --size 4KiB --path --timeline 2 --json | grep -v wall_s
$paradl simulate allgather --topology star:hosts=4 --size 4KiB --json | grep -v wall_s
$paradl collective show ring --ranks 4 >ring.coll
$paradl simulate allreduce --algorithm ring.coll --topology star:hosts=6 --size 1MiB
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --ranks 8 --mapping random --seed 3
$paradl collective compare allreduce --topology 'torus:2x4;star:hosts=8' --size 4KiB,1MiB --algorithms 'ring;swing;kautz'
$paradl collective compare allreduce --topology 'dln:switches={p/4},hosts=4;torus:8x8' --ranks 16..64 --size 1MiB --algorithms 'ring;shd'
$paradl collective compare allreduce --topology 'torus:{p/3}x8' --ranks 16,64 --size 1MiB
echo "exit $?"
$paradl collective compare allreduce --topology 'torus:{q}x8' --ranks 64 --size 1MiB
echo "exit $?"
$paradl simulate alltoall --algorithm pairwise --topology hyperx:3x3,hosts=2,paths=adaptive --size 72KiB
$paradl simulate alltoall --algorithm pairwise --topology hyperx:3x3,hosts=2,paths=ecmp --size 72KiB --seed 1
$paradl simulate allreduce --algorithm ring
echo "exit $?"
$paradl simulate allreduec --algorithm ring --topology torus:4x4 --size 1MiB
echo "exit $?"
$paradl simulate alltoall --algorithm pairwise --topology torus:3x3 --size 1MiB
echo "exit $?"
$paradl simulate allreduce --algorithm ring --topology torsu:3x3 --size 1MiB
echo "exit $?"
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --repeat 3 --jitter 10ns --seed 5
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --repeat -1
echo "exit $?"
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --timeline -1
echo "exit $?"
# a trace: computes, sends, several waits, labels before they are met
cat >ping.goal <<'END'
num_ranks 3
// a message there and back, and one that waits for five things
rank 0 {
l1: calc 1000
l2: send 1000000b to 1 tag 7
l3: recv 500000b from 1 tag 8
l2 requires l1
l3 irequires l2
l4: calc 1
l5: calc 2
l6: calc 3
l7: calc 4
l8: send 8b to 2 tag 1
l8 requires l3
l8 requires l4
l8 requires l5
l8 requires l6
l8 requires l7
}
rank 1 {
b: send 500000b to 0 tag 8
a: recv 1000000b from 0 tag 7
b requires a
}
rank 2 {
recv 8b from 0 tag 1 cpu 0 nic 0
}
END
$paradl simulate ping.goal --topology star:hosts=3,bw=1GB/s,lat=1us
$paradl simulate ping.goal --topology star:hosts=3,bw=1GB/s,lat=1us --json | grep -c '"trace"'
for wrong in 's/500000b from/400000b from/' 's/b requires a/b requires c/' \
    's/^b requires a/&\na requires b/' 's/to 2 tag/to 3 tag/' 's/send 8b/sendto 8b/' \
    's/num_ranks 3/num_ranks 0/' 's/^rank 1/rank 0/'; do
    sed "$wrong" ping.goal >wrong.goal
    $paradl simulate wrong.goal --topology star:hosts=3
    echo "exit $?"
done
# the same as execution traces of Chakra, and a collective as one
$paradl simulate ping.goal --topology star:hosts=3,bw=1GB/s,lat=1us --chakra ping >/dev/null
$paradl simulate ping.0.et --topology star:hosts=3,bw=1GB/s,lat=1us
$paradl simulate allreduce --algorithm ring --size 1MiB --topology torus:4x4 --chakra ring | grep ^time
$paradl simulate ring.0.et --topology torus:4x4 | head -3
rm ping.2.et
$paradl simulate ping.0.et --topology star:hosts=3
echo "exit $?"
head -c 100 ring.3.et >short.0.et
$paradl simulate short.0.et --topology star:hosts=3
echo "exit $?"
$paradl simulate ping.goal --topology star:hosts=3 --comm-groups none.json
echo "exit $?"
$paradl simulate ring.0.et --topology torus:4x4 --size 1MiB
echo "exit $?"
$paradl simulate allreduce --algorithm ring --topology dragonfly:groups=4,chassis=2,routers=4,nodes=2 --size 1MiB --share rtt --exact --json | grep '"time_s"'
# groups at once: neighbours do not meet, strided ones share what joins leaves
$paradl simulate allreduce --algorithm ring --topology fat-tree:down=4x4,up=1x1 --size 1MiB --groups 4
$paradl simulate allreduce --algorithm ring --topology fat-tree:down=4x4,up=1x1 --size 1MiB --groups 4 --strided
$paradl simulate allreduce --algorithm ring --topology star:hosts=4 --size 1MiB --ranks 4
$paradl simulate allreduce --algorithm ring --topology star:hosts=8 --size 1MiB --groups 3
echo "exit $?"
# ranks where a file says, ways and cables that are not as usual
echo 0 5 10 15 >where
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --ranks 4 --mapping where
$paradl simulate allreduce --algorithm ring --topology torus:4x4 --size 1MiB --ranks 5 --mapping where
echo "exit $?"
$paradl simulate allreduce --algorithm ring --topology torus:3x3 --size 1MiB --ranks 4 --mapping where
echo "exit $?"
$paradl simulate alltoall --algorithm pairwise --topology dragonfly-direct:group=2,groups=3,paths=ugal --size 72KiB
$paradl simulate alltoall --algorithm pairwise --topology dragonfly-direct:group=2,groups=3,paths=valiant,fail=1@2 --size 72KiB
$paradl simulate allreduce --algorithm ring --topology torus:4x4,slow=h0-h1/10 --size 1MiB
# rings of the parts of a buffer leave nodes by adapters of their own, as one
# ring does where adapters are a trunk; switches that add
$paradl simulate allreduce --algorithm ring --topology rail:2,gpus=4 --size 16MiB --channels 4
$paradl simulate allreduce --algorithm ring --topology nodes:2,pes=4,bw=50GB/s --size 16MiB
$paradl simulate allreduce --algorithm in-network --topology rail:2,gpus=4 --size 16MiB
$paradl simulate allreduce --algorithm in-network --topology star:hosts=4 --size 16MiB --json | grep -E 'time_s|channels|groups'
# options that say nothing of what is asked
for wrong in "allreduce --algorithm ring --topology star:hosts=4 --channels 4" \
    "allreduce --algorithm ring --topology rail:2,gpus=4 --channels 65" \
    "allreduce --algorithm ring --topology star:hosts=4 --strided" \
    "allreduce --algorithm ring --topology star:hosts=4 --program loop" \
    "allreduce --algorithm in-network --topology torus:4x4" \
    "alltoall --algorithm in-network --topology star:hosts=4" \
    "allreduce --algorithm in-network --topology star:hosts=4 --path"; do
    $paradl simulate $wrong --size 1MiB
    echo "exit $?"
done
$paradl simulate ping.goal --topology star:hosts=3 --size 1MiB
echo "exit $?"
