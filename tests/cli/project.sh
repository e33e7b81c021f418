# what one strategy costs, and what is refused with a reason
set +e
p="$paradl project resnet50 --system abci-v100"
$p --strategy data=64 --batch 2048
$p --strategy data=16,filter=4 --batch 512 --parameters ideal --json | grep -c '_s"'
$p --strategy filter=128 --batch 512; echo "rc $?"
$p --strategy data=64 --batch 32; echo "rc $?"
$p --strategy data=64 --batch 2048 --pes 32; echo "rc $?"
$p --strategy "conv9: data=4" --batch 32; echo "rc $?"
$p --strategy "fc: spatial=4" --batch 32; echo "rc $?"
$p --strategy data=64,compress=topk:0.01 --batch 2048; echo "rc $?"
$p --strategy dta=64 --batch 2048; echo "rc $?"
$p --batch 2048; echo "rc $?"
$p --strategy data=4 --batch 4096 | sed -n '/^It fits/,$p'; echo "rc ${PIPESTATUS[0]}"
