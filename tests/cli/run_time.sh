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
# simulated, with what expected times leave out
l="$paradl project llama-3-8b --system dgx-h100 --strategy data=256,tensor=4,accumulate=4 --batch 2048 --tokens 3T --mtbf 600d --checkpoint-time 20s --restart-time 10min"
$l --spares 1 --repair-time 2d --manual 0.1 --manual-time 2h --slow-mtbf 4000d --slow-by 1.3 --slow-found 6h | sed -n '/^The whole/,/saved/p' | sed -E 's/ +[0-9.]+ (d|h|s|ms)( |$)/ T /g; s/[0-9.]+ (failures|slow|%)/N \1/g; s/ +/ /g; s/ $//'
$l --checkpoint-interval 1h --json | grep -c -E '"(waiting_s|manual_s|slow_nodes)"'
$l --spares 4; echo "rc $?"
$l --manual 0.5; echo "rc $?"
$l --slow-by 1.3; echo "rc $?"
$l --slow-mtbf 100d --slow-by 0.3 --slow-found 1h; echo "rc $?"
$p --samples 1M --repair-time 1d; echo "rc $?"
