# what a system is, in text, JSON and as a file that reads back
set +e
$paradl system list
$paradl system show abci-v100:nodes=64
$paradl system show dgx-a100:nodes=384,nic=4x25GB/s | head -n 4
$paradl system show dgx1-v100:nodes=2 --json
$paradl system show summit --yaml >one.yaml
$paradl system show one.yaml --yaml | cmp - one.yaml && echo "reads back"
$paradl system show abci-v101; echo "rc $?"
$paradl system show dgx-a100:nodez=3; echo "rc $?"
$paradl system show nowhere.yaml; echo "rc $?"
printf 'name: x\npe: h200\nnode: {pes: 8, links: {latency: 5}}\n' >bad.yaml
$paradl system show bad.yaml; echo "rc $?"
$paradl system; echo "rc $?"
$paradl system show "$data/../../examples/mixed.yaml" | head -n 6
$paradl project lenet5 --system "$data/../../examples/mixed.yaml" --batch 64 --strategy data=16@v100+t4 | grep -A1 "note: data"
$paradl project lenet5 --system "$data/../../examples/mixed.yaml" --batch 64 --strategy data=16@v100+p4; echo "rc $?"
printf "name: x\ngroups:\n  - {system: dgx-h100}\n  - {system: aws-p3}\n" >mixed.yaml
$paradl system show mixed.yaml; echo "rc $?"
