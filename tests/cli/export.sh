# a plan handed over to other programs, and what they cannot express
set +e
p="$paradl project gpt2 --system dgx-a100 --strategy data=16 --batch 64 --quiet"
for f in megatron deepspeed torchtitan torchtitan-toml accelerate paradl sbatch; do
    echo "== $f"
    $p --export $f -o out.$f >/dev/null; echo "rc $?"
    sed "s/projected: .*/projected: .../" out.$f # prices have their own cases
done
bash -n out.megatron && bash -n out.sbatch && bash -n out.paradl; echo "scripts parse: $?"
python3 -c 'import ast; ast.parse(open("out.torchtitan").read())'; echo "recipe parses: $?"
$paradl project --from paradl out.paradl --system dgx-a100 --json | grep -E '"(strategy|batch|pes)"' | head -n 3
echo "== refused"
$paradl project resnet50 --system dgx-a100 --strategy data=8 --batch 64 --export megatron -o x >/dev/null; echo "rc $?"
$p --export megatrn -o x >/dev/null; echo "rc $?"
$p --export megatron >/dev/null; echo "rc $?"
$p -o x >/dev/null; echo "rc $?"
test -e x; echo "nothing written: $?"
$paradl plan gpt2 --system dgx-a100 --pes 8 --batch 64 --strategies data --export sbatch -o best >/dev/null; echo "rc $?"
grep -c torchrun best
echo "== stages of unequal layers, as the plan cuts them"
u="$paradl project llama3-8b:seq=2048 --system dgx-h100 --strategy pipe=4(m=8),data=4,zero=3 --batch 32 --quiet"
$u --export torchtitan-toml -o u.toml >/dev/null; sed -n '/^\[parallelism/,/^    \]/p' u.toml
u=${u/,zero=3/}
$u --export megatron -o u.sh >/dev/null; grep layout u.sh
$paradl project --from megatron-args u.sh --system dgx-h100 | grep -o "at=[^)]*"
$u --json --details | grep -A2 '"stage":'
echo "== networks with parts that launchers are not told of"
$paradl project nemotron-3-nano:seq=512 --system dgx-h100 --strategy data=8 --batch 8 --quiet --export megatron -o y >/dev/null; echo "rc $?"
$paradl project deepseekv4-flash:layers=2,seq=512 --system dgx-h100 --strategy data=8 --batch 8 --quiet --export torchtitan-toml -o y >/dev/null; echo "rc $?"
$paradl plan $data/hf/gpt-oss-20b.json --system dgx-h100 --pes 8 --batch 8 --export megatron -o y; echo "rc $?"
test -e y; echo "nothing written: $?"
for m in bert-base $data/hf/gemma-4-31b-it.json gpt2; do
    $paradl plan $m --system dgx-h200 --pes 8 --batch 64 --top 1 | sed -n '1,/)/p'
done
$paradl project bert-base --system dgx-h200 --strategy data=8 --batch 64 --framework megatron | grep -A1 "no job"
echo "== a job of one program with the figures of another"
for w in plan project; do
    s="--strategy data=8"; [ $w = plan ] && s="--pes 8 --top 1"
    for f in composer none; do
        $paradl $w gpt2 --system dgx-h100 --batch 64 $s --framework $f --export megatron -o z >/dev/null; echo "rc $?"
    done
done
test -e z; echo "nothing written: $?"
$paradl project gpt2 --system dgx-h100 --batch 64 --strategy data=8,zero=3 --framework transformers --export accelerate -o z >/dev/null; echo "rc $?"
echo "== PEs that a framework does not run on"
for s in tpu-v5p frontier fugaku; do
    for m in gpt2 resnet50; do
        $paradl plan $m --system $s --pes 8 --batch 64 --top 1 | sed -n '1,/)/p'
    done
done
$paradl plan gpt2 --system tpu-v5p --pes 8 --batch 64 --export megatron -o z >/dev/null; echo "rc $?"
$paradl project gpt2 --system tpu-v5p --strategy data=8 --batch 64 --export megatron -o z >/dev/null; echo "rc $?"
test -e z; echo "nothing written: $?"
$paradl project gpt2 --system tpu-v5p --strategy data=8 --batch 64 --framework megatron | grep -A1 "does not run"
echo "== racks are many machines, a part of one is none"
r="$paradl project gpt2 --system dgx-gb200 --batch 144"
$r --strategy data=144 --framework megatron --export megatron -o z >/dev/null; grep -E "nproc|nnodes" z
$r --strategy data=144 --framework megatron --export sbatch -o z >/dev/null; grep -E "gpus-per-node|nodes=" z
$r --strategy data=6 --framework megatron --export megatron -o x >/dev/null; echo "rc $?"
$paradl plan gpt2 --system dgx-a100 --pes 12 --batch 24 --top 1 | grep -A1 "no job"
echo "== what it computes in"
b="$paradl project llama3-8b:seq=2048 --system dgx-b200 --batch 64 --quiet"
for p in tf32 fp8 mxfp8 nvfp4; do
    $b --strategy data=16,zero=1 --framework megatron --precision $p --export megatron -o v >/dev/null; grep -E -- "--(bf16|fp8|fp4)|TF32" v
    $paradl project --from megatron-args v --system dgx-b200 --json | grep '"precision"'
done
$b --strategy data=16,zero=3 --framework torchtitan --precision fp8 --export torchtitan -o v >/dev/null; echo "rc $?"
for f in deepspeed accelerate torchtitan; do
    $b --strategy data=16,zero=3 --precision fp4 --export $f -o w >/dev/null; echo "rc $?"
done
test -e w; echo "nothing written: $?"
for f in torchtitan paradl; do
    $paradl plan gpt2 --system aws-g4dn --pes 4 --batch 64 --top 1 --export $f -o v | head -n 1; echo "rc $?"
done
$paradl plan llama3-8b --system dgx-h100 --pes 8 --batch 8 --precision fp8 --export nanotron -o w; echo "rc $?"
$paradl plan llama3-8b --system dgx-h100 --pes 8 --batch 8 --optimizer sgd --export nanotron -o w; echo "rc $?"
