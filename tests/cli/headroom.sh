# memory that is filled further than projections are sure, and room to spare
set +e
p="$paradl project resnet50 --system abci-v100 --strategy data=8 --batch 1024"
peak() { sed -n 's/.*"peak_bytes": \([0-9]*\),.*/\1/p'; }
# room for 2 % more, then for a fifth more
bytes=$($p --json | peak)
for more in 102 120; do
    s=abci-v100:pe.memory=$((bytes * more / 100))B
    q="$paradl project resnet50 --system $s --strategy data=8 --batch 1024"
    $q | grep -A1 '^note' | sed 's/full, .* of [0-9.]* GiB/full, .../'
    $q --json | grep -o '"headroom": 0.[0-9][0-9]\|"note": "[^"]*"' | sed 's/full, .* of [0-9.]* GiB/full, .../'
done
s=abci-v100:pe.memory=$((bytes * 102 / 100))B
$paradl project resnet50 --system $s --strategy data=8 --batch 1024 --headroom 5% | grep -o '^DOES NOT FIT'
for wrong in 100 -1 x 5%%; do $p --headroom $wrong; echo "rc $?"; done
