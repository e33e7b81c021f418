# a transformer from ONNX costs what the one of the zoo does, on every axis; sizes
# that are not known get no answer
set +e
pair() { # STRATEGY
    for model in gpt2 "$data/onnx/gpt2_124m_seq1024.onnx"; do
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
"$paradl" plan "$data/onnx/gpt2_124m_seq1024.onnx" --system dgx-a100 --pes 8 --batch 32 \
    --strategies pipe,tensor --top 1 | sed -n 1,2p
