#!/bin/bash
# paradl calibrate writes a system that the other commands take: calibrate.sh
# PARADL
set -e
paradl=$(realpath "$1")
schemas=$(realpath "$(dirname "$0")/../../doc/formats/json")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
"$paradl" calibrate -n 2 --max-ranks 3 --rounds 1 --seconds 1ms --name mine -o my.yaml \
    --json --quiet >my.json
python3 - "$schemas/calibrate-machine.schema.json" <<'END'
import json
import sys
d = json.load(open("my.json"))
schema = json.load(open(sys.argv[1]))
assert set(d) == set(schema["properties"]) == set(schema["required"]), set(d)
assert d["schema"] == schema["title"], d["schema"]
s = d["system"]
assert s["name"] == "mine", s["name"]
assert 0 < d["error_after"] <= d["error_before"] or d["rows"] == 0
facts = {f["name"]: f["value"] for f in s["measured"]}
assert facts["triad_1"] > 1e8 and facts["copy_all"] > 1e8, facts
assert 1e8 < facts["peak_fp32"] < 1e15, facts
fits = [(c["op"], c["pes"]) for c in s["collectives"]]
assert ("p2p", 2) in fits and ("allreduce", 2) in fits, fits
others = ["reduce-scatter", "allgather", "alltoall", "broadcast"]
for op in others:
    assert (op, 2) in fits, fits
for c in s["collectives"]:
    assert len(c["times"]) > 3, c
    # what a rank waits for and works on is counted with the time
    if c["op"] != "p2p":
        assert all(len(t) == 4 and min(t) > 0 for t in c["times"]), c
import os
if os.cpu_count() < 3: # three ranks share processors: a signal has a price
    for op in ["allreduce"] + others:
        assert 1e-8 < facts["crowded_signal_" + op] < 1, facts
END
"$paradl" system show my.yaml >show.txt
grep -q mine show.txt
"$paradl" project lenet5 --system my.yaml --strategy data=2 --batch 64 >step.txt
grep -q '^  step ' step.txt
"$paradl" validate lenet5 --system my.yaml --strategy data=2 --batch 64 \
    --steps 2 >step.txt
grep -q '^80 % of steps between [0-9.]* [mu]*s and [0-9.]* [mu]*s$' step.txt
"$paradl" validate --collective allreduce -n 2 --system my.yaml \
    --size 1536B..96KiB --seconds 1ms >validate.txt
grep -q 'median error' validate.txt
"$paradl" validate --collective allgather -n 2 --system my.yaml \
    --size 1536B..96KiB --seconds 1ms >validate.txt
grep -q 'median error' validate.txt
grep -q 'noise of the measurement' validate.txt
# collectives are measured as training runs them
mkdir bin
cp "$paradl" bin/paradl
cat >bin/paradl-run <<END
#!/bin/sh
echo "\$*" >>"$tmp/bin/log"
exec "$(dirname "$paradl")/paradl-run" "\$@"
END
chmod +x bin/paradl-run
bin/paradl calibrate -n 2 --max-ranks 2 --rounds 1 --seconds 1ms -q -o my.yaml >show.txt
grep -q '^bench allreduce .*--in-place --fixed-order' bin/log
grep -q '^bench alltoall .*--fixed-order' bin/log
if grep '^bench alltoall .*--in-place' bin/log; then exit 1; fi
bin/paradl validate --collective allreduce -n 2 --system my.yaml \
    --size 1536B..3KiB --seconds 1ms >validate.txt
tail -n1 bin/log | grep -q -- --in-place
rm -r bin
# nothing is left half-written, and mistakes are one line
if "$paradl" calibrate --collective barrier 2>err.txt; then exit 1; fi
[ "$(wc -l <err.txt)" = 1 ]
if "$paradl" calibrate --rounds 10 2>err.txt; then exit 1; fi
[ "$(wc -l <err.txt)" = 1 ]
if "$paradl" calibrate -n 0x 2>err.txt; then exit 1; fi
[ "$(wc -l <err.txt)" = 1 ]
if "$paradl" calibrate -n 9999 2>err.txt; then exit 1; fi
[ "$(wc -l <err.txt)" = 1 ]
[ "$(ls)" = "$(printf 'err.txt\nmy.json\nmy.yaml\nshow.txt\nstep.txt\nvalidate.txt')" ]
