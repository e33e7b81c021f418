# a strategy for each layer
set +e
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer
$paradl plan resnet18 --system abci-v100 --pes 16 --batch 1024 --per-layer
$paradl plan vgg16 --system abci-v100 --pes 12 --batch 192 --per-layer --json |
    sed 's/"search_s": *[0-9.e-]*/"search_s": T/' | grep -A20 '"per_layer"' | head -21
# stages, and what blocks do to save memory, are chosen too
$paradl plan vgg16 --system dgx-a100:pe.memory=1GiB --pes 8 --batch 256 --per-layer
$paradl project alexnet --system abci-v100 --strategy 'pipe=3(at=conv3),data=2' --batch 64; echo "rc $?"
$paradl project alexnet --system abci-v100 --strategy 'pipe=2(at=conv33),data=2' --batch 64; echo "rc $?"
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer --goal memory; echo "rc $?"
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer --framework chainermnx; echo "rc $?"
