# what is run today beside the best: as good, slower, too large, not exported
set +e
ask() {
    "$paradl" plan llama:layers=4,hidden=1024,heads=16,ffn=4096,vocab=2048,seq=1024 \
        --system dgx-h100:nodes=2 --pes 16 --batch 32 --top 1 --against "$@" |
        sed -n '/^against/,$p' | sed -E 's/[0-9.]+ (m|u)?s\b/T/; s/[0-9.]+ %/P/; s/[0-9.]+ [GM]iB of/B of/'
}
ask data=16,zero=1
ask tensor=16+seq,accumulate=32
ask data=16,zero=3
ask data=16,zero=1 --framework torchtitan
"$paradl" plan gpt2 --system dgx-a100 --pes 8 --batch 16 --against data=4; echo "rc $?"
