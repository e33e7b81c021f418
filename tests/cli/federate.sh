# what federate says; the numbers of a run are tested elsewhere
set +e
cd "$data/../.."
digits=examples/digits.yaml
$paradl federate
$paradl federate lenet5
$paradl federate nosuch --data synthetic
$paradl federate lenet5 --data digits
$paradl federate $digits --data nosuch.csv
$paradl federate $digits --data digits --clients 0
$paradl federate $digits --data digits --clients 5 --select 6
$paradl federate $digits --data digits --drop 1
$paradl federate $digits --data digits --resume
$paradl federate $digits --data digits --partition dirichlett
$paradl federate $digits --data digits --partition dirichlet:alpha=-1
$paradl federate $digits --data digits --clients 900 --partition pathological
$paradl federate $digits --data digits --algorithm cadiz
$paradl federate $digits --data digits --algorithm cadis:thr=2
$paradl federate $digits --data digits --clients 5 --partition pathological:classes=2 --show-partition
$paradl federate $digits --data digits --clients 8 --partition cluster:groups=2,main=0.6 --show-partition --json | head -8
$paradl federate $digits --data digits --clients 6 --select 3 --rounds 2 --algorithm safa --emit
$paradl federate $digits --data digits --clients 6 --rounds 2 --algorithm fedbuff:buffer=2 --emit
$paradl federate $digits --data digits --clients 6 --rounds 2 --steps 3 --backend ref --partition cluster:groups=3 | grep -o "^round.*models [0-9]*\|^2 rounds, .* numbers"
# what a page is drawn from, clusters and similarities of the end included
work=$(mktemp -d)
$paradl federate $digits --data digits --clients 6 --rounds 2 --steps 3 --backend ref --partition cluster:groups=2 \
    --algorithm cadis --quiet --result "$work/r.json" --report "$work/r.html" | grep -c "^2 rounds"
grep -o '"clusters"\|"cluster": \[\|"similarity"' "$work/r.json"
grep -c "</html>" "$work/r.html"
rm -rf "$work"
# threads or MPI ranks, however many: the same bits
work=$(mktemp -d)
run() { # name, options
    name=$1
    shift
    $paradl federate $digits --data digits --clients 12 --select 9 --rounds 2 --steps 5 \
        --partition dirichlet:alpha=0.3 --algorithm scaffold --no-test \
        --backend ref --quiet --save "$work/$name.safetensors" "$@" 2>&1 |
        grep -v "^2 rounds\|^traffic\|^a client"
}
run one --virtual -n 1
for n in 2 3 4 7; do
    run "$n" -n $n
    cmp "$work/one.safetensors" "$work/$n.safetensors" && echo "$n ranks: the same bits"
done
# ... also where the ranks are the devices of a cluster
parts() { # name, options
    name=$1
    shift
    $paradl federate resnet9:width=4,input=8,channels=1 --data digits --clients 9 --rounds 2 --steps 3 \
        --algorithm feddct --no-test --quiet --save "$work/$name.safetensors" "$@" 2>&1 |
        grep -v "^2 rounds\|^traffic\|^a client"
}
parts one --virtual -n 1
for n in 2 3 4 7; do
    parts "$n" -n $n
    cmp "$work/one.safetensors" "$work/$n.safetensors" && echo "$n ranks of devices: the same bits"
done
rm -rf "$work"
# a client of several devices
$paradl federate $digits --data digits --clients 4 --rounds 1 --steps 2 --strategy dataa=2
$paradl federate $digits --data digits --clients 4 --rounds 1 --steps 2 --strategy data=2,compress=int8 -n 1 --quiet --no-test | grep -o "^1 rounds, [0-9]* models"
$paradl federate $digits --data digits --clients 4 --rounds 1 --steps 2 --strategy data=2 -n 1 --quiet | grep -o "^1 rounds, [0-9]* models"
# devices, targets, one client for a server elsewhere
$paradl federate $digits --data digits --devices fone
$paradl federate $digits --data digits --away 1
$paradl federate $digits --data digits --target 80
$paradl federate $digits --data digits --clients 3 --only 3
$paradl federate $digits --data digits --clients 3 --only 0 --algorithm scaffold
$paradl federate $digits --data digits --load nosuch.safetensors
$paradl federate $digits --data digits --clients 10000000 --client-samples 300 --select 100 --project --rounds 20 --devices phone | grep -v memory
# what does not go together, or has nobody for it
$paradl federate $digits --data digits --deadline=-1s
$paradl federate $digits --data digits --epochs 9000000000000000000
$paradl federate $digits --data digits --target 0.5 --no-test
$paradl federate $digits --data digits --emit --project
$paradl federate $digits --data digits --partition cluster:groups=2.5
$paradl federate $digits --data digits --clients 1400 --partition cluster:groups=5
$paradl federate $digits --data digits --algorithm feddct
$paradl federate resnet9:width=8,input=8,channels=1 --data digits --clients 3 --algorithm feddct --project
$paradl federate $digits --data digits --clients 2000 --rounds 0 --quiet --no-test | head -1
$paradl federate $digits --data digits --system nosuch --project
$paradl federate $digits --data digits --system aws-g4dn --speed 10 --project
$paradl federate resnet9 --data synthetic --system aws-g4dn --algorithm feddct --project
# any model may be trained, but for what an algorithm needs of its classes
small=gpt2:layers=1,hidden=32,heads=2,vocab=300,seq=16
$paradl federate $small --data synthetic --samples 32 --clients 4 --rounds 1 --steps 1 --quiet | grep -o "^1 rounds, .* numbers"
$paradl federate $small --data synthetic --samples 32 --clients 4 --algorithm cadis
$paradl federate $small --data synthetic --samples 32 --clients 4 --partition dirichlet
# encoders fill in masked tokens, whoever tests them the same ones
bert=bert:layers=1,hidden=32,heads=2,vocab=300,seq=16,head=1
work=$(mktemp -d)
for n in 1 3; do
    $paradl federate $bert --data README.md --clients 4 --rounds 2 --lr 0.3 --epochs 2 --algorithm fedprox --json --quiet \
        --virtual -n $n --save "$work/$n.safetensors" | tail -1 | grep -o '"accuracy": [0-9.]*' >"$work/$n"
done
cmp "$work/1.safetensors" "$work/3.safetensors" && echo "masked tokens: the same bits"
$paradl evaluate $bert --data README.md --weights "$work/1.safetensors" --json 2>/dev/null | grep -o '"accuracy": [0-9.]*' |
    cmp "$work/3" && echo "masked tokens: the same accuracy"
$paradl federate $bert --data README.md --clients 4 --algorithm cadis --quiet
rm -rf "$work"
# no more workers than there are processors for their threads, unless asked for
for how in "" "-n 2" "-n 2 --virtual" "--strategy data=2"; do
    $paradl federate $digits --data digits --clients 2 --rounds 0 --no-test --quiet --threads 512 $how 2>&1 >/dev/null | sed 's/on [0-9]* processors*/on N processors/' >&2
done
$paradl federate $digits --data digits --threads 1025
# parts and devices are threads: how many the machine has changes no bit
work=$(mktemp -d)
for n in 1 3; do
    for how in "feddct:parts=2,stems=keep" "fedavg --strategy data=2"; do
        OMP_NUM_THREADS=$n $paradl federate resnet9:width=4,input=8,channels=1 --data digits --clients 4 --rounds 1 \
            --steps 2 --algorithm $how --no-test --quiet --virtual -n 1 --save "$work/$n${how%%[: ]*}.safetensors" >/dev/null
    done
done
for how in feddct fedavg; do
    cmp "$work/1$how.safetensors" "$work/3$how.safetensors" && echo "$how: the same bits"
done
rm -rf "$work"
# a run that teaches nobody anything says so; one that is over is told again
$paradl federate $digits --data digits --clients 4 --rounds 2 --lr 1e30 --quiet >/dev/null
echo "nothing came back: $?"
work=$(mktemp -d)
for n in 1 2; do
    $paradl federate $digits --data digits --clients 6 --rounds 2 --steps 3 --backend ref --partition cluster:groups=2 \
        --algorithm cadis --quiet --checkpoint "$work/ck" --result "$work/$n.json" --resume 2>/dev/null | head -1
done
cmp "$work/1.json" "$work/2.json" && echo "the same result, of a run that was over"
$paradl federate $digits --data digits --clients 6 --select 5 --rounds 2 --steps 3 --backend ref \
    --partition cluster:groups=2 --algorithm cadis --checkpoint "$work/ck" --resume 2>&1 | sed 's/.*: is of/is of/'
rm -rf "$work"
