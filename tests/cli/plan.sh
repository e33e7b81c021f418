# strategies ranked
set +e
$paradl plan vgg16 --system abci-v100 --pes 8 --batch 256 --top 5
$paradl plan resnet50 --system abci-v100 --pes 16 --batch 512 --strategies data,filter --space
$paradl plan resnet50 --system abci-v100 --pes 16; echo "rc $?"
# what is ranked by has a column, and must be known
p="$paradl plan gpt2 --pes 8 --batch 64 --top 2 --strategies data,tensor -q"
$p --system dgx-h100 --goal cost; echo "rc $?"
$p --system dgx-h100:pe.price_per_hour=2.5 --goal cost | grep STRATEGY
$p --system dgx-h100 --goal energy | grep STRATEGY
