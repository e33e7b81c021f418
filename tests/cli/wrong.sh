# one clear line for every wrong input, the right exit code, and nothing written
set +e
: >empty.json
head -c 4000 /dev/zero | tr '\0' '\377' >binary.yaml
printf 'name: caf\351\n' >latin.yaml
mkdir dir
cp "$data/oracle/runs.json" .
printf 'N=4\n--num-layers $N' >run.sh
try() { # words of a command; exit code and messages stand in wrong.err
    "$paradl" "$@" >out 2>err </dev/null
    local rc=$?
    printf '%s [%s] %s\n' "$rc" "$(wc -l <err)" "$*"
    cat err >&2
}
job="lenet5 --system abci-v100 --strategy data=2 --batch 8"
llm="mixtral-8x7b --system dgx-h100 --batch 16 --strategy"
while read -r line; do
    eval "try $line"
done <<'END'
project $job --pes 0
project $job --pes -1
project $job --pes nan
project $job --dataset 0
project lenet5 --system abci-v100 --strategy data=2 --batch 0
project lenet5 --system abci-v100 --strategy data=2 --batch 99999999999999999999
project lenet5 --system abci-v100 --strategy data=0 --batch 8
project lenet5 --system abci-v100 --strategy '' --batch 8
project lenet5 --system dir --strategy data=2 --batch 8
project lenet5 --system binary.yaml --strategy data=2 --batch 8
project lenet5 --system latin.yaml --strategy data=2 --batch 8
project empty.json --system abci-v100 --strategy data=2 --batch 8
project $job --framework megatrn
project $job --kineto dir
project $job --kineto empty.json
project $job --from megatron-args
project --from megatron-args dir --system dgx-a100
project --from megatron-args run.sh --system dgx-a100
project --from deepspeed empty.json gpt2 --system dgx-a100 --pes 8
project --from torchtitan run.sh --system dgx-a100 --pes 8
project $llm 'data=2,expert=8(imbalance=0.5)'
project $llm 'data=2,expert=8(imbalance=nan)'
project $llm 'data=2,expert=8(imbalance=)'
project $llm 'pipe=2(m=2,at=0),data=8'
project $llm 'pipe=2(m=2,at=nowhere),data=8'
project $llm 'pipe=2(m=2,at=),data=8'
project $llm data=16,swap=maybe
project $llm data=16,swap=
fit-in lenet5 --system abci-v100 --pes 2 --batch -1
fit-in lenet5 --system abci-v100 --pes 2 --train 0
fit-in lenet5 --system abci-v100 --pes 2 --train 8 --budget 0
fit-in lenet5 --system abci-v100 --pes 2 --train 8 --deadline -1s
scale lenet5 --system abci-v100 --strategy data=p --pes 4..1 --batch 8
simulate allreduce --topology torus:4x4 --size 1MiB --ranks 0
simulate allreduce --topology torus:4x4 --size 1MiB --density -1
simulate allreduce --topology torus:4x4 --size -1
simulate allreduce --topology dragonfly-gpu:switches=0 --size 1MiB
topology show dragonfly-gpu:switches=1
topology show torus:99999x99999
collective show ring --ranks 0
collective compare allreduce --topology '' --size 1MiB
collective compare allreduce --topology torus:2x2 --size 1MiB --algorithms 'ring;rign'
collective compare allreduce --topology torus:2x2 --size 1MiB --density 7
validate --measured runs.json --strategy data=2
validate --measured runs.json --system nothere
validate lenet5 --select set=x
validate --collective allreduce --steps 3
calibrate --rounds 0
calibrate --collective nothing
bench allreduce --table dir
compare empty.json empty.json
report empty.json
report dir
END
$paradl project $job --json >job.json
for to in dir nodir/x /dev/full; do
    try project $job --report $to
    try project $job --trace $to
    try project $job --emit $to
    try place lenet5 --system abci-v100 --strategy data=8 --batch 8 --hosts a,b --rankfile $to
    try report job.json -o $to
done
ls
echo "== what holds nothing, or more than there is"
for o in "--measured-step 1e300s" "--measured-step 0" "--seconds=-1s"; do
    $paradl plan gpt2 --system dgx-h100 --pes 8 --batch 8 --against data=8 $o; echo "rc $?"
done
$paradl project gpt2 --system dgx-h100 --strategy data=8 --batch 8 --measured-step 1e10s; echo "rc $?"
$paradl plan gpt2 --system dgx-h100 --pes 8 --batch 8 --tokens -5; echo "rc $?"
$paradl plan gpt2 --system dgx-h100 --pes 8 --batch 8 --memory 0; echo "rc $?"
$paradl plan megatron-1t --system dgx-a100 --pes 8 --batch 8 --top 1 | tail -n 3
