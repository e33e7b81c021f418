#!/bin/bash
# Weights keep every bit from one family of names to another, however they are
# cut: saved under names of others, loaded by other strategies, saved under
# ours, loaded again; and what does not fit is one line that says why.
set -u
paradl=$1
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
bad=0
fail() { echo "$*"; bad=1; }
none="--no-test --steps 1 --batch 4 --samples 8"
train() { # MODEL FLAGS...
    "$paradl" train "$@" --data synthetic $none --freeze '*' --threads 1 --virtual --quiet \
        >"$dir/out" 2>"$dir/err" || { fail "$*: $(cat "$dir/err")"; return 1; }
}
# the tensors of a file, and its numbers whatever their order
keys() { tail -c +9 "$1" | head -c "$(od -An -tu8 -N8 "$1" | tr -d ' ')" | tr '{' '\n' | grep -o '^.*' | grep -c dtype; }

trip() { # NAMES KEY MODEL STRATEGY...
    local names=$1 key=$2 model=$3 s
    shift 3
    train "$model" --seed 1 --names "$names" --save "$dir/a.safetensors" || return
    grep -qa "\"$key\"" "$dir/a.safetensors" || fail "$model as $names: no $key"
    train "$model" --seed 1 --names paradl --save "$dir/b.safetensors" || return
    for s in "$@"; do
        train "$model" --seed 2 --strategy "$s" --load "$dir/a.safetensors" --names paradl \
            --save "$dir/c.safetensors" &&
            cmp -s "$dir/b.safetensors" "$dir/c.safetensors" ||
            fail "$model: $names loaded by $s are other weights $(cat "$dir/err")"
    done
    # back again: names follow the file that was loaded
    train "$model" --seed 3 --load "$dir/a.safetensors" --save "$dir/c.safetensors" &&
        cmp -s "$dir/a.safetensors" "$dir/c.safetensors" ||
        fail "$model: $names do not come back"
    echo "$model: $(keys "$dir/a.safetensors") tensors as $names"
}
llama=layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=40,seq=8
trip hf model.layers.1.self_attn.k_proj.weight "llama:$llama" serial data=2 filter=2 pipe=2
trip meta layers.1.attention.wk.weight "llama:$llama" serial filter=2
trip hf model.layers.1.block_sparse_moe.experts.3.w2.weight \
    "moe:layers=2,hidden=16,heads=4,ffn=12,vocab=40,seq=8,experts=4,topk=2" serial expert=2
trip hf transformer.h.1.attn.c_attn.weight \
    "gpt:layers=2,hidden=16,heads=4,vocab=40,seq=8" serial filter=2 channel=2 pipe=2 data=2,zero=3
bert=layers=2,hidden=16,heads=4,vocab=40,seq=8,positions=8
trip hf cls.predictions.decoder.bias "bert:$bert,head=1" serial filter=2
trip hf bert.pooler.dense.weight "bert:$bert,classes=3" serial pipe=2
trip hf decoder.block.1.layer.1.EncDecAttention.k.weight \
    "t5:layers=2,hidden=16,heads=2,ffn=24,vocab=40,seq=8" serial filter=2
vit=layers=2,hidden=16,heads=4,input=8,patch=4,classes=5
trip hf vit.encoder.layer.1.attention.attention.key.bias "vit:$vit" serial filter=2
trip timm blocks.1.attn.qkv.weight "vit:$vit" serial filter=2
trip torchvision encoder.layers.encoder_layer_1.self_attention.in_proj_bias "vit:$vit" serial filter=2
config() { # NAME KEYS: a configuration of Hugging Face
    mkdir -p "$dir/$1"
    echo "{\"model_type\": \"$1\", \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,
        \"intermediate_size\": 24, \"vocab_size\": 40, \"max_position_embeddings\": 10$2}" >"$dir/$1/config.json"
    echo "$dir/$1/config.json"
}
trip hf gpt_neox.layers.1.attention.query_key_value.bias \
    "$(config gpt_neox ', "rotary_pct": 0.5')" serial filter=2 pipe=2
trip hf transformer.h.1.ln_mlp.bias \
    "$(config falcon ', "num_kv_heads": 2, "new_decoder_architecture": true')" serial filter=2
trip hf transformer.h.1.self_attention.query_key_value.weight "$(config falcon '')" serial data=2
trip hf roberta.embeddings.position_embeddings.weight "$(config roberta '')" serial filter=2
train resnet18:input=32,classes=4 --names torchvision --save "$dir/a.safetensors"
grep -qa '"layer4.1.bn2.num_batches_tracked"' "$dir/a.safetensors" || fail "torch's counters are missing"

# ---- what does not fit -------------------------------------------------------
refused() { # TEXT FLAGS...
    local want=$1
    shift
    "$paradl" train "$@" --data synthetic $none --virtual >"$dir/out" 2>"$dir/err"
    [ $? = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] && grep -q -e "$want" "$dir/err" ||
        fail "$*: wanted '$want', was: $(cat "$dir/err")"
}
train "llama:$llama" --names hf --save "$dir/a.safetensors"
a=$dir/a.safetensors
refused "none of the weights of lenet5" lenet5 --load "$a"
refused "model.embed_tokens.weight is 40x16, .* wants 41x16 (hint: train --partial" \
    "llama:${llama/vocab=40/vocab=41}" --load "$a"
refused "model.layers.2.input_layernorm.weight is not there" "llama:${llama/layers=2/layers=3}" --load "$a"
refused "freeze: no weight is called 'layer.0" "llama:$llama" --freeze 'layer.0.*'
refused "names timm: no table has all weights" "llama:$llama" --names timm --save "$dir/c.safetensors"
refused "has neither model.safetensors nor" "llama:$llama" --load "$dir"
python3 - "$a" "$dir/nan.safetensors" <<'E'
import json, struct, sys
x = bytearray(open(sys.argv[1], "rb").read())
n = struct.unpack("<Q", x[:8])[0]
at = json.loads(x[8:8 + n])["model.norm.weight"]["data_offsets"][1] - 4
x[8 + n + at:8 + n + at + 4] = struct.pack("<f", float("nan"))
open(sys.argv[2], "wb").write(x)
E
refused "nan.safetensors: model.norm.weight holds a NaN" "llama:$llama" --load "$dir/nan.safetensors"
train "llama:${llama/layers=2/layers=3}" --load "$a" --partial || bad=1
exit $bad
