# config.json of Hugging Face and safetensors files, right and wrong
set +e
say() { "$@"; echo "rc $?"; }
cat >config.json <<'END'
{
 "model_type": "mixtral",
 "architectures": ["MixtralForCausalLM"],
 "hidden_size": 64, "num_hidden_layers": 3,
 "num_attention_heads": 8, "num_key_value_heads": 2,
 "intermediate_size": 96, "vocab_size": 100,
 "num_local_experts": 4, "num_experts_per_tok": 2,
 "sliding_window": null, "tie_word_embeddings": false
}
END
say $paradl model show config.json
say $paradl model show config.json --dim seq=16 --layers
say $paradl model show config.json:seq=16
say $paradl model show config.json --dim seq=16 --json
sed 's/"num_attention_heads": 8/"num_attention_heads": 7/' config.json >a.json
say $paradl model show a.json
sed '/hidden_size/d' config.json >b.json
say $paradl model show b.json
sed 's/"mixtral"/"mixtrel"/' config.json >c.json
say $paradl model show c.json --json
printf '{"model_type": "swin", "embed_dim": 96}' >d.json
say $paradl model show d.json
printf '{"metadata": {}, "weight_map": {"a": "b"}}' >e.json
say $paradl model show e.json
header='{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
{ printf '\071\0\0\0\0\0\0\0%s' "$header"; head -c 24 /dev/zero; } >w.safetensors
say $paradl model show w.safetensors
head -c 70 w.safetensors >short.safetensors
say $paradl model show short.safetensors
printf '\377\377\377\377\377\377\377\377{}' >long.safetensors
say $paradl model show long.safetensors
# a name with bytes that a terminal obeys, or that are no UTF-8
odd=$(printf 'n\xff\033[31m.json')
cp "$data/hf/gpt2.json" "$odd"
$paradl project "$odd" --system dgx-a100 --strategy data=1 --batch 1 --emit odd.plan | head -n 1
head -n 2 odd.plan
$paradl plan show odd.plan | head -n 1
