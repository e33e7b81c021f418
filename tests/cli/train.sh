# what train and diff-run say; the numbers of a run are tested elsewhere
set +e
cd "$data/../.."
$paradl train
$paradl train lenet5
$paradl train lenet5 --data synthetic --strategy data=3 -n 2
$paradl train lenet5 --data synthetic --strategy spatial=99
$paradl train nosuch --data synthetic
$paradl train examples/digits.yaml --data nosuch.csv
$paradl train lenet5 --data digits
$paradl train examples/digits.yaml --data digits --optimizer sdg
$paradl train examples/digits.yaml --data digits --optimizer sgd:momentun=1
$paradl train examples/digits.yaml --data digits --backend gpu
$paradl train examples/digits.yaml --data digits --batch 5000
$paradl train tests/data/hf/ipextest-jamba.json --data synthetic --batch 2 --virtual
$paradl train examples/digits.yaml --data digits --loss-scale big --virtual
$paradl train examples/digits.yaml --data digits --strategy data=2,compress=topk:0.1 --precision fp64 --virtual
$paradl train examples/digits.yaml --data digits --steps 3 --batch 16 --backend ref | grep -o "  loss [0-9.]*  test loss [0-9.]*  accuracy [0-9.]*"
$paradl train examples/digits.yaml --data digits --steps 3 --batch 16 --backend ref --virtual --strategy data=2,filter=2 --json | sed 's/,"lr.*//;s/"samples_per_s.*//' | sed -n 1,3p
# the order of samples costs nothing: neither time nor memory grows with them
$paradl train lenet5 --data synthetic --samples 9223372036854775807 --epochs 9223372036854775807 --steps 1 --batch 4 --test-samples 4 --backend ref | grep -o "  loss [0-9.]*  test loss [0-9.]*  accuracy [0-9.]*"
$paradl train examples/digits.yaml --data digits --steps 1 --no-test --backend ref | grep -c accuracy
$paradl diff-run serial filter=2 --model examples/digits.yaml
$paradl diff-run serial accumulate=2 --model examples/digits.yaml
$paradl validate lenet5
