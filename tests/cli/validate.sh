# projected against measured: bars, and what is refused with a reason
set +e
cp "$data"/oracle/*.json .
d=.
least() { # KEY AXES PERCENT: the group reaches it
    awk -v a="$2" -v p="$3" -v k="$1" \
        '/ rows  *accuracy / { kind = $0; sub(/ *rows.*/, "", kind) }
        kind == k && $1 == a { print a, ($3 + 0 >= p ? "reaches" : "misses"), p, "%" }'
}
runs=$("$paradl" validate --measured "$d/runs.json" --select "model=resnet50*,strategy=data=16|data=32|data=64")
echo "$runs" | least axes data 94
runs=$("$paradl" validate --measured "$d/runs.json" --select "model=resnet50*")
for bar in data:88 filter:70 channel:80 data+filter:85 data+spatial:75; do
    echo "$runs" | least axes "${bar%:*}" "${bar#*:}"
done
echo "$runs" | least model resnet50 83
echo "$runs" | awk '/are in order$/ { print "ranking", ($1 >= .9 * $3 ? "reaches" : "misses"), "90 %" }
    /^80 % intervals/ { print "intervals hold", ($5 >= 70 && $5 <= 90 ? "70 to 90 %" : "something else"), ($12 <= 30 ? "within 30 %" : "too wide") }'
"$paradl" validate --measured "$d/runs.json" --select "model=resnet50*,axes=data+filter" --ablate |
    awk '/^nothing/ { all = $2 } /^files/ { print "without files:", ($2 < all - 10 ? "worse" : "no worse") }'
"$paradl" validate --measured "$d/runs.json" --without file; echo "rc $?"
"$paradl" validate --measured "$d/runs.json" --congestion 2..1; echo "rc $?"
"$paradl" validate --measured "$d/layers.json" --select model=resnet50 |
    awk '/ rows  *accuracy / { kind = $1 }
        kind == "model" && $1 == "resnet50" { print "layers", ($5 + 0 <= 15 ? "reach" : "miss"), "15 %" }'
"$paradl" validate; echo "rc $?"
"$paradl" validate lenet5 --system abci-v100 --strategy data=1 --steps 1; echo "rc $?"
"$paradl" validate lenet5 --system abci-v100 --strategy data=1 --device nosuch; echo "rc $?"
"$paradl" validate --measured nofile.json; echo "rc $?"
"$paradl" validate --measured "$d/runs.json" --select modle=x; echo "rc $?"
"$paradl" validate --measured "$d/runs.json" --select model=none; echo "rc $?"
echo '{"schema":"paradl.plan/1"}' >other.json
"$paradl" validate --measured other.json; echo "rc $?"
echo '{"schema":"paradl.runs/1","runs":[{"id":"a"}]}' >bad.json
"$paradl" validate --measured bad.json; echo "rc $?"
"$paradl" calibrate --fit runs.json; echo "rc $?"
"$paradl" calibrate --fit other.json --base abci-v100; echo "rc $?"
"$paradl" calibrate --fit "$d/layers.json" --base nosuch; echo "rc $?"
"$paradl" project resnet50 --system abci-v100 --strategy data=4 --batch 64 --framework chainermx; echo "rc $?"
