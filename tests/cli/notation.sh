# the topic of the help that explains names; its examples are accepted
set +e
$paradl help notation
p="$paradl project --batch 64"
takes() {
    "$@" >out 2>err
    rc=$?
    [ $rc -le 1 ] && echo taken || cat err
}
takes $p vgg16 --system abci-v100 --strategy data=64
takes $p vgg16 --system abci-v100 --strategy data=8,filter=4
takes $p vgg16 --system abci-v100 --strategy 'conv1..pool5: data=8; fc*: filter=8'
takes $p gpt:layers=24,hidden=2048,heads=16 --system dgx-a100:nodes=48,nic=4x12.5GB/s --strategy data=4,tensor=8+seq
takes $p gpt2:layers=16 --system dgx-a100 --strategy 'pipe=4(interleaved,m=16,v=2),data=2'
takes $p gpt2 --system dgx-a100 --strategy data=16,zero=3,recompute=full,accumulate=4
takes $paradl simulate allreduce --algorithm ring-ring:k=4 --topology torus:4x4 --size 32MiB
takes $paradl topology show fat-tree:down=32x32,up=1x32
takes $paradl topology show system:dgx-a100
$paradl help notatoin; echo "rc $?"
$paradl notatoin; echo "rc $?"
