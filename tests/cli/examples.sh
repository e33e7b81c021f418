# the example in every command's help is a command line that runs as it is
PATH=$(dirname "$paradl"):$PATH
cp "$data/system/nccl_tests/new_format_excerpt.txt" log.txt # what importers read
cp "$data/oracle/runs.json" . # what validate reads
$paradl project lenet5 --system abci-v100 --strategy data=2 --batch 8 --emit lenet5.plan >out
$paradl help --list | while read -r cmd; do
    example=$($paradl help $cmd | sed -n '/^Example:/{n;s/^  //p}')
    rm -f system.yaml lenet.yaml
    [ "$cmd" = calibrate ] && continue # measures for minutes
    leaks=1
    [ "$cmd" = bench ] && leaks=0 # those of MPI are not ours
    ASAN_OPTIONS=detect_leaks=$leaks timeout 60 bash -c "$example" >out 2>err </dev/null
    rc=$?
    [ $rc = 4 ] && continue # a build without MPI
    [ $rc = 0 ] || echo "$cmd: '$example' exits with $rc: $(head -n1 err)"
    [ -s out ] || [ -s system.yaml ] || [ -s lenet.yaml ] || echo "$cmd: '$example' prints nothing"
done
echo done
