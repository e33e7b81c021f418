# how long a whole run takes on a machine that fails
set +e
p="$paradl project gpt2 --system dgx-a100 --strategy data=16,accumulate=4 --batch 256"
$p --tokens 300G --mtbf 2000d --checkpoint-time 20s --restart-time 10min --straggler 1.02 --ramp-up 64,64,6M | sed -n '/^The whole/,$p'
$p --samples 1M --json | grep -A3 '"run"'
$p --tokens 300G --mtbf 2000d; echo "rc $?"
$p --mtbf 2000d --checkpoint-time 20s; echo "rc $?"
$p --tokens 300G --samples 1M; echo "rc $?"
$p --samples -5; echo "rc $?"
$p --samples 1M --straggler 0.5; echo "rc $?"
$p --tokens 300G --ramp-up 64,64; echo "rc $?"
$p --tokens 300G --ramp-up 60,60,1M; echo "rc $?"
$p --tokens 300G --ramp-up 1,1,1M; echo "rc $?"
"$paradl" project resnet50 --system abci-v100 --strategy data=64 --batch 2048 --tokens 3; echo "rc $?"
