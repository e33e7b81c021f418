# A step as execution traces of Chakra: played on the system's network it takes
# what it is projected to, within so many per cent; what traces have no form for
step() { # model, system, strategy, batch, per cent
    rm -f s.*
    want=$($paradl project "$1" --system "$2" --strategy "$3" --batch "$4" --parameters ideal \
        --chakra s --json | sed -n 's/.*"step_s": \([0-9.e-]*\).*/\1/p' | head -1)
    got=$($paradl simulate s.0.et -t "system:$2" --comm-groups s.groups.json -a ring --json |
        sed -n 's/.*"time_s": \([0-9.e-]*\).*/\1/p')
    ls s.*.et | wc -l
    awk -v w="$want" -v g="$got" -v p="$5" -v n="$1 $3" 'BEGIN {
        off = 100 * (g / w - 1)
        print n ": " (w > 0 && off <= p && off >= -p ? "within " p " %" : off " % off") }'
}
step gpt2 dgx-a100:nodes=1 tensor=8 8 1
step gpt2 dgx-a100:nodes=2 data=16,zero=3 32 1
step gpt2 dgx-a100:nodes=1 'pipe=4(1f1b,m=4),data=2' 32 1
step gpt2 dgx-a100:nodes=1 'pipe=4(zb-h1,m=8),data=2' 32 1
step gpt2 dgx-a100:nodes=2 'pipe=2(interleaved,m=4,v=2),data=2,tensor=4' 32 15
step resnet50 abci-v100:nodes=4 data=16 512 1
cat s.groups.json
for algorithm in rign ring:k; do
    $paradl simulate s.0.et -t star:hosts=16 --comm-groups s.groups.json -a $algorithm
    echo "exit $?"
done
echo '{"a": [0, 99]}' >wrong.json
$paradl simulate s.0.et -t star:hosts=16 --comm-groups wrong.json
echo "exit $?"
$paradl simulate s.0.et -t star:hosts=16
echo "exit $?"
for wrong in data=2,compress=int8 'context=2(ring)'; do
    $paradl project gpt2 --system dgx-a100 --strategy "$wrong" --batch 4 --chakra s >/dev/null
    echo "exit $?"
done
