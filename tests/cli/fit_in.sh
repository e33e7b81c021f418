# the questions the other way round
set +e
f="$paradl fit-in resnet50 --system abci-v100:pe.price_per_hour=2 --pes 8 --batch 256"
$f | sed 's/:.*a step.*/: .../'; echo "rc ${PIPESTATUS[0]}"
$f --train 1281167 --deadline 10min --budget 1 --json | grep -o '"[a-z_]*": {"fits": [a-z]*'
$paradl fit-in vgg16 --system abci-v100 --pes 1 --batch 4096 | sed -n 3p; echo "rc ${PIPESTATUS[0]}"
$f --tokens 1G --deadline 1h; echo "rc $?"
$paradl fit-in gpt2 --system dgx-a100 --pes 2 --batch 4 --tokens 1G --deadline 9d | grep -A2 'in time' | sed 's/:.*a step.*/: .../;s/in [0-9.]* [hd]/in .../'
$f --deadline 1h; echo "rc $?"
$paradl fit-in resnet50 --pes 8; echo "rc $?"
$paradl fit-in nothere --system abci-v100 --pes 8; echo "rc $?"
$paradl fit-in gpt2 --system dgx-a100 --pes 1 --batch 4 | sed 's/:.*a step.*/: .../' | grep -A1 -E 'longest|layers'
# a config.json has sequences of any length, too
cat >config.json <<J
{"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
 "intermediate_size": 4096, "vocab_size": 32000, "max_position_embeddings": 65536}
J
$paradl fit-in config.json --system dgx-a100 --pes 1 --batch 1 | grep longest
# with blocks that are made again or wait on the host
g="$paradl fit-in resnet50 --system abci-v100 --pes 1 --batch 64 --offload"
$g none | grep -A1 'largest batch' | sed 's/:.*a step.*/: .../'
$g auto | grep -A1 'largest batch' | sed 's/:.*a step.*/: .../'
