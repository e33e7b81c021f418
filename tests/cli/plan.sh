# strategies ranked
set +e
$paradl plan vgg16 --system abci-v100 --pes 8 --batch 256 --top 5
$paradl plan resnet50 --system abci-v100 --pes 16 --batch 512 --strategies data,filter --space
$paradl plan resnet50 --system abci-v100 --pes 16; echo "rc $?"
