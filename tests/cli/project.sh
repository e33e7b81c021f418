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
$p --strategy data=64,zero=1,compress=topk:0.01 --batch 2048; echo "rc $?"
$p --strategy dta=64 --batch 2048; echo "rc $?"
$p --batch 2048; echo "rc $?"
$p --strategy data=4 --batch 4096 | sed -n '/^It fits/,$p'; echo "rc ${PIPESTATUS[0]}"
big="$paradl project gpt3-175b --system dgx-a100 --batch 1536"
$big --strategy pipe=8,data=16,tensor=8 | sed -n '/^It fits/,$p'
$big --strategy data=16,tensor=8 | sed -n '/^It fits/,$p'
gpt="gpt:layers=2,hidden=256,heads=4,ffn=1024,vocab=512,seq=128"
"$paradl" project $gpt --system dgx-a100 --strategy data=2 --batch 4 --attention fused; echo "rc $?"
"$paradl" project $gpt --system dgx-a100 --strategy data=2 --batch 4 --dropout 2; echo "rc $?"
step() {
    "$paradl" project $gpt --system dgx-a100 --strategy data=2 --batch 64 --json "$@" |
        awk -F'[:,]' '/"step_s"/ { print $2; exit }'
}
slower() { # TEXT A B
    awk -v a="$2" -v b="$3" -v t="$1" 'BEGIN { print t, (a > b ? "is slower" : "is no slower") }'
}
flash=$(step) unfused=$(step --attention unfused)
slower "attention that stores scores" "$unfused" "$flash"
slower "dropout" "$(step --attention unfused --dropout 0.1)" "$unfused"
slower "a framework whose host is slow" "$(step --framework megatron-deepspeed --dropout 0)" "$flash"
slower "torchtitan that does not compile" "$(step --framework torchtitan)" "$(step --framework torchtitan --compile)"
images() {
    "$paradl" project vgg16 --system abci-v100 --batch 256 --json --strategy "data=64$1" |
        awk -F'[:,]' '/"step_s"/ { print $2; exit }'
}
slower "a dense exchange of VGG's gradients" "$(images)" "$(images ,compress=topk:0.001)"
# times that mean nothing
p="$paradl project gpt2 --system dgx-h100 --strategy data=8 --batch 64 --tokens 1T"
$p --mtbf -3d; echo "rc $?"
$p --mtbf 10s --checkpoint-time 300s; echo "rc $?"
$p --measured-step 0s; echo "rc $?"
# anchored to one's own runs
$paradl project resnet50 --system abci-v100 --strategy data=16 --batch 1024 --framework chainermnx \
    --evidence $data/oracle/runs.json 2>/dev/null | grep -A1 "own runs" | sed 's/takes.*/takes .../'
$paradl project resnet50 --system abci-v100 --strategy data=4 --batch 64 --evidence nosuch.json >/dev/null; echo "rc $?"
# what was assumed of a configuration: the tokens, and a kind that is not known
sed 's/"llama"/"llamb"/' $data/hf/llama-3.1-8b-instruct.json >own.json
for dim in batch=1 seq=8192 seq=262144; do
    $paradl project own.json --system dgx-h100 --strategy data=8 --batch 64 \
        --framework megatron --dim $dim | grep -A1 -E "model_type|tokens are"
done
# layers that are alike are said once
"$paradl" project moe:layers=12,hidden=256,heads=4,ffn=256,vocab=512,seq=128,experts=4 \
    --system dgx-a100 --strategy tensor=2+seq --batch 4 | grep replicated
