# the smallest projected step never rises with --max-pes, and it is that of the
# best of the sizes one by one
never_rises() {
    awk -v m="$1" '{if (last && $2 > last) bad = 1; if (last && $2 < last) falls++; last = $2; n++}
        END {print m ": " n " limits, " (falls ? "falls" : "does not fall") (bad ? ", RISES" : ", never rises")}'
}
step() { grep -oE '"smallest_step_s": [0-9.e-]*' | cut -d ' ' -f 2; }
for m in lenet5 gpt:layers=2,hidden=512,heads=8,ffn=2048,vocab=2048,seq=512; do
    ask="$paradl plan $m --system dgx-a100 --batch 24 --top 1 --json -q"
    for n in 1 2 3 4 6 8 12 16; do
        echo "$n $($ask --max-pes $n | step)"
    done >limits
    for n in 1 2 3 4 6 8 12 16; do $ask --pes $n | step; done | sort -g | head -n 1 >least
    never_rises ${m%%:*} <limits
    tail -n 1 limits | cut -d ' ' -f 2 | cmp - least && echo the least of all sizes
done
