# pipelines without bubbles, offload, and the schedule for torch
set +e
p="$paradl project gpt2 --system dgx-a100 --batch 16 --quiet"
for s in 1f1b gpipe interleaved zb-h1 zb-h2 zb-v; do
    echo "== $s"
    $p --strategy "pipe=2($s,m=4)" --export pipeline-csv -o out >/dev/null; echo "rc $?"
    cat out
done
$p --strategy 'pipe=4(zb-h1,m=8)' --emit zb.plan >/dev/null
$paradl plan check zb.plan; echo "rc $?"
grep -c '^item' zb.plan
$p --strategy 'data=2,offload=optimizer,offload=activations' --emit off.plan >/dev/null
$paradl plan check off.plan; echo "rc $?"
grep -c ' host$' off.plan; grep -c ' copy-out ' off.plan
echo "== refused"
$p --strategy 'data=2' --export pipeline-csv -o x >/dev/null; echo "rc $?"
$p --strategy 'pipe=1(zb-h1,m=4),data=2'; echo "rc $?"
$paradl project gpt2 --system dgx-b200 --batch 16 --strategy offload=optimizer --quiet; echo "rc $?"
$p --strategy 'data=2,offload=weights'; echo "rc $?"
