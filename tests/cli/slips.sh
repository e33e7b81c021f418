# slips of the hand: one line, and what was probably meant
set +e
try() { $paradl "$@" >/dev/null; echo "rc $?"; }
plan="plan resnet50 --system abci-v100 --pes 16 --batch 512"
try plan resnet5 --system abci-v100 --pes 16 --batch 512
try $plan --strategies data,filtr
try plan resnet50 --system abci-v100 --pes 0 --batch 512
try plan shw lenet5.plan
try project resnet50 --system abci-v100 --strategy data --batch 64
try project resnet50 --system abci-v100 --strategy data=64 filter=2 --batch 64
try project --from megatron run.sh --system dgx-a100
echo 'name: x' >x.yaml
try model show x.yaml
try system list extra
try topology list toru
try topology show torus:4xx4
try topology show torus:4x4,torus:2x2
try collective verify --algorithm ring --ranks 64..1
try collective show ring --ranks 4 --rank 9
try collective compare allreduce --topology torus:2x2
try collective compare allreduce --topology torus:2x2 --size 1MiB..4KiB
try collective compare allreduce --topology torus:2x2 --size 4KiB..16KiB --algorithms ring
