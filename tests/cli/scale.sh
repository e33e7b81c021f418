# one strategy on more and more PEs, and what is refused
set +e
$paradl scale resnet50 --system abci-v100 --strategy data=p --pes 1..64 --weak --batch 32
$paradl scale vgg16 --system abci-v100 --strategy data=p,filter=4 --pes 2..64 --batch 64
$paradl scale resnet50 --system abci-v100 --strategy filter=p --pes 32..128 --strong --batch 32
$paradl scale lenet5 --system abci-v100 --strategy data=p,exchange=paper --pes 1..8 --weak --batch 4 --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["schema"], d["scaling"])
for p in d["points"]:
    print(p["pes"], p["strategy"], p["batch"], p["feasible"], p["step_s"] > 0)'
s="$paradl scale lenet5 --system abci-v100 --batch 8"
$s --strategy data=4 --pes 1..8; echo "rc $?"
$s --strategy data=p,filter=p --pes 1..8; echo "rc $?"
$s --strategy data=p --pes 8..1; echo "rc $?"
$s --strategy data=p --pes 1..x; echo "rc $?"
$s --strategy data=p,filter=3 --pes 1..8; echo "rc $?"
$s --strategy data=p --pes 1..8 --weak --strong; echo "rc $?"
$s --strategy data=p; echo "rc $?"
# the best plan of each size
$paradl scale gpt3-125m --system dgx-h100 --replan --pes 4..16 --batch 64
$paradl scale lenet5 --system dgx-h100 --replan --pes 1..4 --weak --batch 8 --json | python3 -c '
import json, sys
for p in json.load(sys.stdin)["points"]:
    print(p["pes"], p["strategy"], p["batch"], p["feasible"])'
$paradl scale gpt3-125m --system dgx-h100 --replan --pes 4,5,6 --batch 60 -q
for list in 4,x 8,4 4, , 4,4; do
    $s --replan --pes "$list"; echo "rc $?"
done
$s --strategy data=p --pes 4,8; echo "rc $?"
$paradl scale gpt3-175b --system dgx-h100 --replan --pes 2..3 --batch 8; echo "rc $?"
$s --replan --strategy data=p --pes 1..8; echo "rc $?"
