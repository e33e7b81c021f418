# our own format, out and in again
set +e
$paradl model convert lenet
$paradl model convert deepcam -o d.yaml && $paradl model convert d.yaml -o e.yaml && cmp d.yaml e.yaml && echo same
$paradl model show d.yaml
$paradl model convert lenet | $paradl model show - --json
cp d.yaml d; $paradl model show d | head -1
$paradl model convert lenet -o none/such.yaml; echo "rc $?"
