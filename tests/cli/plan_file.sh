# plan files: written, shown, checked, priced; tampered ones refused
set +e
$paradl project lenet5 --system abci-v100 --strategy data=2,spatial=2 --batch 8 --emit l.plan >/dev/null
head -n 12 l.plan
$paradl plan show l.plan
$paradl plan show l.plan --json
$paradl plan show l.plan --text | cmp - l.plan && echo same
$paradl plan check l.plan --prove
$paradl plan check l.plan --json
$paradl project lenet5 --system abci-v100 --strategy data=2,spatial=2 --batch 8 --json |
    grep -vE '^  "(command|model|system|parameters|strategy|tokens)"' >a
$paradl plan cost l.plan --json | cmp - a && echo same
$paradl plan lenet5 --system abci-v100 --pes 4 --batch 16 --emit best.plan >/dev/null
$paradl plan check best.plan
grep -v '^5 ' l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/^mesh a0=2/mesh a0=3/' l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/\[N:8\/a0/[N:9\/a0/' l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/ a0\*a1 t/ a0 t/' l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/^t7 /t8 /' l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/^t7 /t777777777777777777777 /' l.plan >bad; $paradl plan check bad; echo "rc $?"
head -c 3000 l.plan >bad; $paradl plan check bad; echo "rc $?"
sed 's/^model lenet5/model lenet6/' l.plan >bad; $paradl plan check bad; echo "rc $?"
# the first free left out, ids renumbered: well formed, wrong
awk '/^[0-9]/ {sub(/^[0-9]+/, ""); if ($1 == "free" && !gone) {gone = 1; next}
     print n++ $0; next} {print}' l.plan >bad; $paradl plan check bad; echo "rc $?"
: >empty; $paradl plan check empty; echo "rc $?"
$paradl plan check nothere.plan; echo "rc $?"
$paradl plan check; echo "rc $?"
