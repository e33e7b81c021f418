# a transformer from ONNX costs what the one of the zoo does, on every axis;
# sizes that are not known get no answer
set +e
pair() { # STRATEGY [ZOO FILE]
    for model in "${2:-gpt2}" "$data/onnx/${3:-gpt2_124m_seq1024.onnx}"; do
        "$paradl" project "$model" --system dgx-a100:nodes=2 --batch 64 \
            --strategy "$1" --framework megatron --json |
            sed -n 's/^ *"\(step_s\|peak_bytes\)": \([^,]*\),*$/\2/p' | head -n 2
    done | awk -v what="$1" '{ v[NR] = $1 } END {
        for (i = 1; i <= 2; i++) {
            d = v[i] - v[i + 2]; if (d < 0) d = -d
            if (!(v[i] > 0) || d > 1e-9 * v[i]) { print what, v[i], v[i + 2]; exit }
        }
        print what, "the same" }'
}
pair data=16
pair data=4,tensor=4+seq,zero=1
pair data=8,context=2
pair 'pipe=4(m=4),data=4'
for s in data=16 data=4,tensor=4+seq data=4,context=4 'pipe=2(m=4),data=8'; do
    pair "$s" llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,gated=1,vocab=48,seq=16,tied=0 llama_2_layers.onnx
    case $s in *context*) ;; *) pair "$s" bert-base bert_base_post_seq512.onnx ;; esac # its pooler reads one position
done
"$paradl" plan "$data/onnx/gpt2_124m_seq1024.onnx" --system dgx-a100 --pes 8 --batch 32 \
    --strategies pipe,tensor --top 1 | sed -n 1,2p
