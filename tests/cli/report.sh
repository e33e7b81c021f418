# pages: what is in them, the same from a saved result, and bad input
$paradl plan vgg16 --system abci-v100 --pes 4 --batch 64 --report plan.html >/dev/null
$paradl collective compare allreduce --topology 'torus:2x2;torus:2x4' --size 4KiB,1MiB --algorithms 'ring;swing' --report c.html >/dev/null
$paradl collective compare allreduce --topology 'torus:2x2;torus:2x4' --size 4KiB,1MiB --algorithms 'ring;swing' --links --json >c.json
$paradl report c.json -o c2.html
$paradl simulate allreduce --algorithm ring --topology star:hosts=4 --size 1MiB --links --json | $paradl report - >sim.html
for f in plan.html c.html c2.html sim.html; do
    echo "$f: $(grep -c '<svg ' $f) charts, $(grep -c '<table>' $f) tables"
    grep -o '<section id="[^"]*"' $f
    grep -o '<pre id="command">[^<]*' $f
done
[ $(grep -c '<section' c.html) = $(grep -c '<section' c2.html) ] && echo same
$paradl report nothing.json
echo "exit $?"
echo '{"schema": "paradl.info/1"}' >info.json
$paradl report info.json -o x.html
echo "exit $?"
[ -e x.html ] || echo "nothing written"
printf '{"schema": "paradl.plan/1",\n "plans": 4}' | $paradl report -
echo "exit $?"
# the other commands with pages, and what a page says beyond the usual JSON
$paradl project vgg16 --system abci-v100 --strategy 'pipe=2(m=2),data=2' --batch 64 --report one.html >/dev/null
$paradl scale vgg16 --system abci-v100 --strategy data=p --pes 1..8 --batch 64 --report s.html >/dev/null
$paradl simulate allreduce --algorithm ring --topology star:hosts=4 --size 1MiB --report r.html >/dev/null
cp $data/oracle/kernels.json .
$paradl validate --measured kernels.json --system dgx-h200 --report v.html >/dev/null
for f in one.html s.html r.html v.html; do
    echo "$f: $(grep -c '<svg ' $f) charts, $(grep -c '<table>' $f) tables, $(grep -c '<canvas' $f) canvas"
    grep -o '<pre id="command">[^<]*' $f
done
$paradl project vgg16 --system abci-v100 --strategy 'pipe=2(m=2),data=2' --batch 64 --details --json |
    python3 -c 'import json,sys; d = json.load(sys.stdin); print(len(d["stages"]), d["schedule"]["rows"], d["schedule"]["total"], d["network"]["topology"].split(",")[0], len(d["network"]["link_bytes"]))'
