# a step as a Chrome trace: it parses, and nothing overlaps on a thread
set +e
for s in data=4 data=2,spatial=2 "pipe=2(gpipe,m=2),data=2"; do
    $paradl project resnet50 --system abci-v100 --strategy "$s" --batch 16 --trace t.json >out
    python3 - "$s" <<'PY'
import json, sys
d = json.load(open("t.json"))
threads = {}
for e in d["traceEvents"]:
    if e["ph"] == "M":
        continue
    assert e["ph"] == "X" and e["dur"] > 0 and e["ts"] > -1e-6, e
    threads.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
for spans in threads.values():
    spans.sort()
    for (_, end), (start, _) in zip(spans, spans[1:]):
        assert start >= end - 1e-6, (start, end)
names = sorted({(e["pid"], e["args"]["name"]) for e in d["traceEvents"] if e["ph"] == "M"})
print(sys.argv[1], names)
PY
done
$paradl project lenet5 --system abci-v100 --strategy data=2 --batch 8 --trace nodir/t.json >out; echo "rc $?"
