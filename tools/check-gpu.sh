#!/bin/bash
# check-gpu.sh BUILD [-o REPORT] [--work DIR] [PART ...]: what only a machine
# with a GPU can say, in a dated report (doc/gpu-report.md): every kernel
# against the reference, ten losses against the cpu backend, ranks that share
# the GPU under every strategy, faults, compute-sanitizer, the projection, the
# speed.
# Parts that are run one by one meet in one report if DIR is kept.
# Exit 1: something is wrong, 77: there is no GPU.
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "${1:-$here/build}")
report=$here/doc/gpu-report.md
every="kernels losses faults killed sanitizer projection speed"
work= parts=
shift
while [ $# -gt 0 ]; do
    case " $every " in
    *" $1 "*) parts="$parts $1" ;;
    *)
        case $1 in
        -o) report=$2; shift ;;
        --work) work=$(realpath "$2"); shift ;;
        *) echo "check-gpu.sh: $1? the parts: $every" >&2; exit 2 ;;
        esac ;;
    esac
    shift
done
export PATH=$build:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if ! nvidia-smi >/dev/null 2>&1; then
    echo "SKIPPED: no GPU here"
    exit 77
fi
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work" && cd "$work" || exit 5
wrong=0

say() { # WHAT HOW FIGURE
    printf '| %s | %s | %s |\n' "$1" "$2" "$3" | tee -a "lines-$part"
    [ "$2" = ok ] || [ "$2" = "not here" ] || wrong=1
}
verdict() { # STATUS WHAT FIGURE
    if [ "$1" = 0 ]; then say "$2" ok "$3"; else say "$2" WRONG "$3"; fi
}

# ---- numbers ---------------------------------------------------------------

kernels() {
    timeout 300 test_train_cuda >kernels 2>&1
    rc=$?
    verdict $rc "every kernel against ref, float32 to 1e-5 of an array, bfloat16 to 4 units in the last place; strategies on 2 and 4 ranks of the one GPU against serial" \
        "$(grep -c ' f32 ' kernels) and $(grep -c ' bf16 ' kernels) forms, $(grep -c 'by the host' kernels) by the host; $(grep -c 'parts equal' kernels) strategies equal$(grep -aE 'differs|, serial ' kernels | head -3 | sed 's/^/; /' | tr -d '\n')"
}

losses() {
    as_cpu lenet5 0.01 32 lenet5
    as_cpu resnet18 1e-4 8 resnet18:input=64,classes=10
    as_cpu mobilenet 1e-4 8 mobilenet-v3-small:input=64,classes=10
    as_cpu densenet 1e-4 8 densenet121:input=64,classes=10
    as_cpu gpt 0.01 8 gpt:layers=4,hidden=256,heads=8,vocab=512,seq=128 --optimizer adamw --clip 1
}

as_cpu() { # NAME RATE BATCH MODEL OPTIONS
    local name=$1 lr=$2 batch=$3
    shift 3
    for d in cuda cpu; do
        timeout 120 paradl train "$@" --data synthetic --samples 256 --batch "$batch" --steps 10 \
            --no-test --lr "$lr" --device $d --virtual --json >"$name-$d" 2>"$name-$d.err" || cat "$name-$d.err"
    done
    paradl diff-run "$name-cuda" "$name-cpu" --tolerance 1e-4 >diff 2>&1
    verdict $? "ten losses of $name against cpu within 1e-4" "$(python3 - "$name" <<'END'
import json, sys
def losses(d):
    rows = [json.loads(l) for l in open(f"{sys.argv[1]}-{d}")]
    return [r["loss"] for r in rows if "loss" in r]
a, b = losses("cuda"), losses("cpu")
print("largest difference %.1e" % max(abs(x / y - 1) for x, y in zip(a, b)) if a else "none")
END
)"
}

# ---- faults ----------------------------------------------------------------

one_line() { # WHAT FILE STATUS: refused, in a line and a hint
    local lines
    lines=$(wc -l <"$2")
    if [ "$3" -ne 0 ] && [ "$3" -lt 100 ] && [ "$lines" -ge 1 ] && [ "$lines" -le 2 ]; then
        say "$1" ok "$(head -1 "$2")"
    else
        say "$1" WRONG "exit $3, $lines lines: $(head -1 "$2")"
    fi
}

faults() {
    timeout 100 paradl train gpt2-xl --data synthetic --samples 64 --batch 64 --steps 1 --no-test \
        --precision fp32 --device cuda --virtual --quiet >/dev/null 2>oom
    one_line "out of memory is foreseen" oom $?
    CUDA_VISIBLE_DEVICES='' timeout 20 paradl train lenet5 --data synthetic --steps 1 \
        --device cuda --virtual --quiet >/dev/null 2>none
    one_line "no GPU" none $?
    mkdir -p broken
    : >broken/libcudnn.so.9
    : >broken/libcudnn.so
    LD_LIBRARY_PATH=$work/broken:$LD_LIBRARY_PATH timeout 20 paradl train lenet5 --data synthetic \
        --steps 1 --device cuda --virtual --quiet >/dev/null 2>missing
    one_line "a library that cannot be loaded" missing $?
}

killed() {
    local args=(lenet5 --data synthetic --samples 2048 --batch 32 --epochs 40000 --no-test --device cuda
        --virtual --checkpoint ckpt --every 20 --quiet) i
    for i in 1 2 3; do
        timeout 60 paradl train "${args[@]}" --resume >/dev/null 2>&1 &
        sleep $((3 + i))
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
    done
    timeout 60 paradl evaluate lenet5 --data synthetic --checkpoint ckpt --device cpu >evaluated 2>&1
    verdict $? "killed three times (kill -9), the newest checkpoint is taken up by the cpu backend" \
        "$(find ckpt -maxdepth 1 -name 'step-*' | sed 's/.*step-//' | sort -n | tail -1) steps done"
}

sanitizer() {
    local tool
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
    if [ -z "$tool" ]; then
        say compute-sanitizer "not here" ""
        return
    fi
    for m in lenet5 resnet20 gpt:layers=2,hidden=128,heads=2,vocab=512,seq=128; do
        timeout 200 "$tool" --tool memcheck --target-processes all --error-exitcode 9 \
            paradl train "$m" --data synthetic --samples 32 --batch 8 --steps 2 --no-test \
            --precision bf16 --device cuda --virtual >san 2>&1
        verdict $? "memcheck of ${m%%:*}, two steps in bfloat16" "$(grep -a 'ERROR SUMMARY' san | sed 's/=* *//')"
    done
}

# ---- figures ---------------------------------------------------------------

projection() {
    paradl calibrate --device cuda -o gpu.yaml >calibrated 2>&1
    verdict $? "paradl calibrate --device cuda" "$(sed -n '2,$p' calibrated | tr -s ' ' | tr '\n' ';')"
    python3 "$here/tests/run/held_out.py" "$build/paradl" --device cuda --system gpu.yaml >held 2>&1
    verdict $? "projection of networks that nothing was fitted to" "$(tail -3 held | tr '\n' ';')"
}

speed() {
    if ! python3 -c 'import torch' 2>/dev/null || [ ! -f "$here/bench/gpu_vs_torch.py" ]; then
        say "speed beside torch.compile" "not here" "no PyTorch"
        return
    fi
    python3 "$here/bench/gpu_vs_torch.py" "$build/paradl" >speed 2>&1
    verdict $? "speed beside torch.compile" "below"
}

for part in ${parts:-$every}; do
    rm -f "lines-$part"
    $part
done
{
    echo "# What a machine with a GPU says"
    echo
    echo "Written by \`tools/check-gpu.sh\` on $(date -u +%Y-%m-%d), $(paradl --version 2>/dev/null | head -1)," \
        "on $(nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader | head -1)."
    echo
    echo "| what | how | figure |"
    echo "|---|---|---|"
    for part in $every; do
        cat "lines-$part" 2>/dev/null || echo "| $part | not run | |"
    done
    for f in held speed; do
        [ -s $f ] && printf '\n```\n%s\n```\n' "$(cat $f)"
    done
} >"$report"
echo "$report"
exit $wrong
