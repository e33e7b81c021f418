#!/bin/bash
# Every network of the zoo (but Nemotron 3, whose recurrence the runtime has no
# kernel for, and DeepSeek-V4) trains from its description: a step with the fast
# backend on virtual ranks, serial and cut, and the same step of both in
# float64, every tensor of which must be the same; a line for each. (float32
# losses are compared loosely: batch norm over the few pixels that are left of a
# small image enlarges every rounding.) Sizes are cut down where a laptop's
# memory or the reference kernels' time asks for it: layers, features,
# vocabulary and length of language models (experts and their width of
# mixtures), images of convolutional ones. Half an hour and more: PDL_LONG=1
# only.
# Usage: PARADL [NAME..]
set -u
paradl=$1; shift
[ -n "${PDL_LONG:-}" ] || { echo "SKIPPED: the whole zoo takes long (PDL_LONG=1)"; exit 77; }
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
bad=0

lm="layers=2,vocab=512,seq=16"
thin="layers=2,hidden=512,ffn=1024,vocab=512,seq=16"
mla="layers=2,dense=1,hidden=256,heads=8,ffn=512,moe_ffn=128,experts=16,topk=4,q_lora=96,kv_lora=64,nope=32,rope=16,v_head_dim=32,vocab=512,seq=16"
# name, what is changed, a strategy that cuts it, (what it must equal: serial)
zoo="
lenet5||data=2,spatial=2
alexnet|input=64|data=2,filter=2
vgg16|input=32|channel=2
vgg19|input=32|filter=2
resnet18|input=64|data=2,spatial=2,bn=sync
resnet34|input=32|pipe=2(1f1b,m=2)|accumulate=2
resnet50|input=64|spatial=2x2
resnet101|input=32|data=2,bn=sync
resnet152|input=32|filter=2
wrn-28-10|depth=16,width=2|data=2,spatial=2,bn=sync
densenet121|input=32|data=2,filter=2,bn=sync
densenet161|input=32|data=2,bn=sync
densenet169|input=64|spatial=2
densenet201|input=32|filter=2
mobilenet-v2|input=64|spatial=2
efficientnet-b0|input=32|data=2,bn=sync
mobilenet-v3-large|input=64|spatial=2,bn=sync
mobilenet-v3-small|input=32|pipe=2(1f1b,m=2)|accumulate=2
googlenet|input=64|data=2,spatial=2,bn=sync
squeezenet1.0|input=64|filter=2
squeezenet1.1|input=64|spatial=2
regnet-x-400mf|input=64|data=2,bn=sync
regnet-x-800mf|input=32|filter=2
regnet-x-1.6gf|input=32|data=2,bn=sync
regnet-x-3.2gf|input=32|data=2,bn=sync
regnet-x-8gf|input=32|data=2,bn=sync
regnet-y-400mf|input=64|spatial=2,bn=sync
regnet-y-800mf|input=32|channel=2
regnet-y-1.6gf|input=32|pipe=2(1f1b,m=2)|accumulate=2
regnet-y-3.2gf|input=32|data=2,bn=sync
regnet-y-8gf|input=32|data=2,bn=sync
unet|input=188,base=16|spatial=2
unet3d|input=92,base=4|data=2,bn=sync
cosmoflow|size=64|spatial=2x1x1
cosmoflow-mlperf|size=64|spatial=2x2x2
deepcam|height=64,width=96|data=2,bn=sync
gpt2|$lm|tensor=2
gpt2-medium|$lm|tensor=2+seq
gpt2-large|$lm|pipe=2(1f1b,m=2)|accumulate=2
gpt2-xl|$lm|data=2,zero=1
gpt3-125m|$lm|data=2,tensor=2
gpt3-350m|$lm|tensor=2
gpt3-760m|$lm|pipe=2(gpipe,m=2)|accumulate=2
gpt3-1.3b|$thin,heads=32|tensor=2
gpt3-2.7b|$thin,heads=32|tensor=2+seq
gpt3-6.7b|$thin,heads=32|tensor=2
gpt3-13b|$thin,heads=32|tensor=2
gpt3-175b|layers=2,hidden=768,heads=96,ffn=1024,vocab=512,seq=16|tensor=4
megatron-22b|$thin,heads=64|pipe=2(1f1b,m=2),tensor=2|accumulate=2
megatron-175b|layers=2,hidden=768,heads=96,ffn=1024,vocab=512,seq=16|tensor=2+seq
megatron-530b|layers=2,hidden=512,heads=128,ffn=1024,vocab=512,seq=16|tensor=2
megatron-1t|layers=2,hidden=640,heads=160,ffn=1024,vocab=512,seq=16|tensor=2
llama2-7b|$thin|tensor=2
llama2-13b|layers=2,hidden=640,ffn=1024,vocab=512,seq=16|tensor=2+seq
llama2-70b|$thin|pipe=2(1f1b,m=2),tensor=2|accumulate=2
llama3-8b|$thin|data=2,zero=1
llama3-70b|$thin|tensor=2
llama3.1-8b|$thin|tensor=2
llama3.1-70b|$thin|pipe=2(1f1b,m=2)|accumulate=2
llama3.1-405b|$thin|tensor=2
qwen3-0.6b|$lm|tensor=2
qwen3-1.7b|$thin|data=2
qwen3-4b|$thin|tensor=2+seq
qwen3-8b|$thin|tensor=2
qwen3-14b|$thin|pipe=2(1f1b,m=2)|accumulate=2
qwen3-32b|$thin|tensor=2
mixtral-8x7b|$thin,experts=4|expert=2
mixtral-8x22b|layers=2,hidden=768,ffn=512,experts=4,vocab=512,seq=16|data=2,expert=2
qwen3-30b-a3b|layers=2,hidden=512,ffn=256,experts=8,vocab=512,seq=16|tensor=2
qwen3-235b-a22b|layers=2,hidden=512,ffn=256,experts=8,vocab=512,seq=16|pipe=2(1f1b,m=2),expert=2|accumulate=2
deepseek-v3|$mla|tensor=2
kimi-k2|$mla|data=2,expert=2
t5-small|$lm|tensor=2
t5-base|$lm,hidden=256,ffn=1024|data=2
t5-large|$lm,hidden=256,ffn=1024|tensor=2+seq
t5-3b|$lm,hidden=256,heads=8,ffn=1024|pipe=2(1f1b,m=2)|accumulate=2
t5-11b|$lm,hidden=256,heads=16,head_dim=32,ffn=1024|tensor=2
bert-base|$lm|tensor=2
bert-large|$lm|data=2
vit-b16|input=32,layers=2|tensor=2
vit-b32|input=64,layers=2|data=2
vit-l16|input=32,layers=2|pipe=2(1f1b,m=2)|accumulate=2
vit-h14|input=28,layers=2|tensor=2
deit-tiny|input=64|tensor=3
deit-small|input=64|data=2,tensor=2
"


first_loss() { # MODEL STRATEGY
    "$paradl" train "$1" --data synthetic --samples 8 --batch 4 --steps 1 --lr 1e-3 \
        --optimizer sgd --strategy "$2" --threads 1 --virtual --json 2>>"$dir/err" |
        sed -n 's/.*"final_loss": \([0-9.e+-]*\),.*/\1/p'
}
while IFS='|' read -r name change split whole; do
    [ -n "$name" ] || continue
    [ "${*:-all}" = all ] || [[ " $* " == *" $name "* ]] || continue
    model=$name${change:+:$change}
    whole=${whole:-serial}
    : >"$dir/err"
    began=$SECONDS
    a=$(first_loss "$model" "$whole")
    b=$(first_loss "$model" "$split")
    same=$("$paradl" diff-run "$whole" "$split" --model "$model" --batch 4 --steps 1 \
        --optimizer sgd --tolerance 1e-6 2>&1) || same="WRONG $same"
    echo "$a $b" | awk '{ d = ($2 - $1) / $1; exit !($1 > 0 && $2 > 0 && d * d <= 1e-6) }' &&
        [[ $same == equal* ]] && word=ok || { word=WRONG; bad=1; }
    echo "$word $model, $split: losses $a $b; $same ($((SECONDS - began)) s)" | head -4
    head -2 "$dir/err"
done <<<"$zoo"
exit $bad
