# an epoch by where its samples come from
set +e
job="resnet50 --system abci-v100 --strategy data=512 --batch 16384"
$paradl project $job --dataset "$data/oracle/imagenet-pls.yaml" --shuffle all | sed -n '/^An epoch/,$p'
$paradl project $job --dataset imagenet --shuffle pair:q=0.5 --hidden 0.2 | sed -n '/^An epoch/,$p'
$paradl project $job --dataset imagenett
$paradl project $job --dataset 0
$paradl project $job --shuffle all
$paradl project $job --dataset imagenet --shuffle none
$paradl project $job --dataset imagenet --shuffle partial:q=2
$paradl project $job --dataset imagenet --hidden 0.2
$paradl project $job --dataset nosuch.yaml
$paradl plan resnet50 --system abci-v100 --pes 64 --batch 2048 --top 1 --dataset imagenet --shuffle all | sed -n '/^An epoch/,$p'
$paradl plan resnet50 --system abci-v100 --pes 64 --batch 2048 --shuffle all
