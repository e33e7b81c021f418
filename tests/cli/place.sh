# where the ranks go on the nodes the scheduler gave
set +e
cat > topology.conf <<'T'
# two leaves
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]
SwitchName=top Switches=leaf[1-2]
T
p="$paradl place gpt2 --system dgx-a100 --batch 64 --quiet"
$p --strategy tensor=4,data=8 --hosts 'n[1-4]' --rankfile r --hostfile h | sed 's/ [0-9.]* ms/ .../g'
head -3 r; tail -1 r; head -2 h; wc -l < h
$p --strategy data=8,tensor=4 --hosts 'n1,n3,n2,n4' --switches topology.conf --json | grep -v _s
echo "== refused"
$p --strategy data=8,tensor=4 --hosts 'n[1-3]'; echo "rc $?"
$p --strategy data=8,tensor=4 --hosts 'n[1-'; echo "rc $?"
$p --strategy data=8,tensor=4 --hosts 'm[1-4]' --switches topology.conf; echo "rc $?"
$p --strategy data=8,tensor=4; echo "rc $?"
