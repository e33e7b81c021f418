# a strategy for each layer
set +e
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer
$paradl plan resnet18 --system abci-v100 --pes 16 --batch 1024 --per-layer
$paradl plan vgg16 --system abci-v100 --pes 12 --batch 192 --per-layer --json |
    sed 's/"search_s": *[0-9.e-]*/"search_s": T/' | grep -A20 '"per_layer"' | head -21
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer --goal memory; echo "rc $?"
$paradl plan alexnet --system abci-v100 --pes 8 --batch 256 --per-layer --framework chainermnx; echo "rc $?"
