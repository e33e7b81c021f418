#!/usr/bin/env python3
"""Training runs of other machines, against the oracle.

Runs `paradl validate --measured FILE --json` on steps measured with PyTorch
(tests/data/oracle/torch_h200*.json; layers of layers_more.json and
layers_families.json), on published runs collected later (published.json, in
halves: SEEN says which) and on the files of published runs beside the sources
(../shared/data/runs), and holds the mean error of each set, of step times and of
memory, to what was reached (doc/accuracy.md), rounded up; the bars that were
wanted are no lower. Intervals are campaigns.py's. Where the files beside the sources are not there, it says so
and is skipped after the others.
"""
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = os.path.join(HERE, "..", "data", "oracle")
LATER = os.path.join(OWN, "published.json")
DATA = os.environ.get("PDL_RUNS") or os.path.join(
    HERE, "..", "..", "..", "shared", "data", "runs")

# set: largest mean error of step times, in %
STEPS = {
    "megatron_sc21_table1": 6, "megatron_sc21_table2": 5,
    "korthikanti_table5": 3, "vtrain_multi": 8, "vtrain_single": 10,
    "bloom_topology_sweep": 7, "simumax_b200": 4,
    "torchtitan_llama31_h100": 9, "dle_resnet50": 7, "torch": 8,
    "torch-even": 7, "torch-odd": 11, "families-even": 8, "families-odd": 9,
    "families-later": 12,
}
# the same of memory
MEMORY = {
    "simumax_b200": 3, "bloom_topology_sweep": 9,
    "torchtitan_llama31_h100": 9.1, "megatron_golden": 5, "torch": 6,
    "torch-even": 7, "torch-odd": 7, "families-even": 6, "families-odd": 6,
    "families-later": 6, "simumax_b200_rest": 2,
}
# layers timed alone: largest median error and bias of a network's, in %
LAYERS = {"layers_more.json": {
    "mobilenet-v2": (10, 5), "efficientnet": (12, 5), "convnext": (14, 5),
    "resnext50": (13, 13), "unet3d": (10, 10), "cosmoflow": (13, 13),
    "r3d": (15, 6), "googlenet": (22, 22), "regnet": (28, 17),
}, "layers_families.json": {
    "grouped-even": (25, 5), "grouped-odd": (30, 5), "volume-even": (15, 6),
    "volume-odd": (10, 5),
}}
SPEARMAN, REGRET = 0.8, 0.03
# ResNet-50 on ABCI, which the profile was not fitted to: least mean accuracy of
# a kind of strategies, of their mean, of the pairs in order.
ABCI = {"data, up to 64": 94, "data": 88, "data+filter": 85, "channel": 80,
        "data+spatial": 75, "filter": 70, "mean": 83, "pairs": 90}
# Published runs collected later: largest mean error of the half that causes
# were looked for in, and of the half that was read once, at the end.
# (NeMo's and torchtitan's of 2025 were 1 lower while collectives in pieces were
# priced as their first piece, NeMo's on GB200 4 while its FSDP was taken for
# DeepSpeed's of 2021, which hides nothing, its kept half 8 while 126 layers were
# dealt to stages whatever the head takes: doc/accuracy-log.md)
SEEN = (1, 2)  # number of a run modulo 4
HALVES = {
    "mpt_h100": (4, 4), "mpt_h100_fp8": (3, 4), "mpt_a100_80": (5, 6),
    "mpt_a100_40": (7, 5), "nemo_h100": (5, 7), "nemo_b200": (8, 4),
    "nemo_gb200": (9, 10), "torchtitan_a100": (11, 13),
    "torchtitan_h100_2025": (8, 11), "torchtitan_h200": (14, None),
    "fms_fsdp": (6, 6), "jax_a100": (36, 11), "tpu_maxtext": (11, 6),
    "simumax_b200_rest": (5, 5), "vtrain_multi_rest": (9, 6),
    "vtrain_single_rest": (9, 9), "dle_bert_tf": (9, 11),
    "dle_cnn_pytorch": (17, 11), "dle_cnn_tf": (23, 27),
    "dle_unet_tf": (36, 26),
}


def validate(paradl, path, *more):
    """Networks that are files lie beside the runs."""
    done = subprocess.run([os.path.abspath(paradl), "validate", "--json",
                           "--measured", os.path.abspath(path), *more],
                          cwd=os.path.dirname(path), capture_output=True,
                          text=True, check=True)
    refused = [x for x in done.stderr.splitlines() if "not projected" in x]
    return json.loads(done.stdout), refused


def ranks(x):
    """Ties share the mean of their places."""
    order = sorted(x)
    last = {v: i for i, v in enumerate(order)}
    first = {v: i for i, v in reversed(list(enumerate(order)))}
    return [(first[v] + last[v]) / 2 for v in x]


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    cov = sum((p - ma) * (q - mb) for p, q in zip(a, b))
    return cov / (sum((p - ma) ** 2 for p in a) *
                  sum((q - mb) ** 2 for q in b)) ** .5


def errors(rows, projected, measured):
    out = {}
    for r in rows:
        if r.get(measured) and r.get(projected):
            out.setdefault(r["set"], []).append(
                100 * abs(r[projected] / r[measured] - 1))
    return {k: sum(v) / len(v) for k, v in out.items()}


def hold(what, found, bars):
    bad = 0
    for name, bar in bars.items():
        if name not in found:
            continue
        miss = found[name] > bar
        bad += miss
        print(f"{what:7} {name:26} {found[name]:5.1f} % of {bar} %"
              f"{'  MISSED' if miss else ''}")
    return bad


def hold_halves(paradl):
    """Seen and kept halves apart; a set of two has no kept half."""
    found, refused = validate(paradl, LATER)
    halves = {}
    for r in found["rows"]:
        seen = int(r["id"].rsplit("-", 1)[1]) % 4 in SEEN
        halves.setdefault("seen" if seen else "kept", []).append(r)
    bad = len(refused)
    for line in refused:
        print(line)
    for i, half in enumerate(("seen", "kept")):
        bars = {k: v[i] for k, v in HALVES.items() if v[i]}
        error = errors(halves[half], "projected_s", "measured_s")
        bad += hold(half, error, bars)
        if set(error) != set(bars):
            print(f"{half}: sets without a bar: {set(error) ^ set(bars)}")
            bad += 1
    bad += hold("memory", errors(found["rows"], "projected_bytes",
                                 "measured_bytes"), MEMORY)
    return bad


def order_of_bloom(rows):
    """Within equal hidden size."""
    by, bad = {}, 0
    for r in rows:
        if r["set"] == "bloom_topology_sweep":
            by.setdefault(re.search(r"hidden=(\d+)", r["model"])[1],
                          []).append(r)
    for hidden, group in by.items():
        s = spearman([r["projected_s"] for r in group],
                     [r["measured_s"] for r in group])
        print(f"BLOOM   hidden {hidden}: Spearman {s:.2f}")
        bad += s < SPEARMAN
    return bad


def hold_file(paradl, path):
    found, refused = validate(paradl, path)
    for line in refused:
        print(line)
    bad = len(refused)
    bad += hold("step", errors(found["rows"], "projected_s", "measured_s"),
                STEPS)
    bad += hold("memory", errors(found["rows"], "projected_bytes",
                                 "measured_bytes"), MEMORY)
    return bad, found


def hold_layers(paradl, path):
    by, bad = {}, 0
    for r in validate(paradl, path)[0]["rows"]:
        by.setdefault(r["model"], []).append(
            100 * (r["projected_s"] / r["measured_s"] - 1))
    for name, (error, bias) in LAYERS[os.path.basename(path)].items():
        found = (statistics.median(abs(x) for x in by[name]),
                 statistics.median(by[name]))
        miss = found[0] > error or abs(found[1]) > bias
        bad += miss
        print(f"layers  {name:26} {found[0]:5.1f} %, bias {found[1]:+.1f} %"
              f"{'  MISSED' if miss else ''}")
    return bad


def abci_kinds(rows):
    """Accuracy in % of each kind of strategies; serial is no bar."""
    by = {}
    for r in rows:
        terms = [t.split("=") for t in r["strategy"].split(",")]
        kind = "+".join(k for k, v in terms if v != "1")
        by.setdefault(kind, []).append(100 * r["accuracy"])
        if kind == "data" and int(terms[0][1]) <= 64:
            by.setdefault("data, up to 64", []).append(100 * r["accuracy"])
    return {k: sum(v) / len(v) for k, v in by.items() if k}


def pairs_in_order(paradl, path):
    """Of strategies on as many PEs that differ by more than 10 %, in %."""
    text = subprocess.run([os.path.abspath(paradl), "validate", "--measured",
                           path, "--select", "model=resnet50*"],
                          capture_output=True, text=True, check=True).stdout
    right, pairs = re.search(r"(\d+) of (\d+) pairs", text).groups()
    return 100 * int(right) / int(pairs)


def hold_abci(paradl, path):
    found, refused = validate(paradl, path, "--select", "model=resnet50*")
    kinds = abci_kinds(found["rows"])
    kinds["mean"] = statistics.mean(v for k, v in kinds.items()
                                    if "," not in k)
    kinds["pairs"] = pairs_in_order(paradl, path)
    bad = len(refused)
    for name, bar in ABCI.items():
        miss = kinds[name] < bar
        bad += miss
        print(f"ABCI    {name:26} {kinds[name]:5.1f} %, wanted {bar} %"
              f"{'  MISSED' if miss else ''}")
    print(f"ABCI    intervals hold {found['coverage']:.2f}, width "
          f"{found['median_width']:.2f}")
    bad += not .7 <= found["coverage"] <= .9
    bad += found["median_width"] > .3
    return bad


def main():
    bad = 0
    for name in ("torch_h200.json", "torch_h200_more.json",
                 "torch_h200_families.json"):
        bad += hold_file(sys.argv[1], os.path.join(OWN, name))[0]
    for name in LAYERS:
        bad += hold_layers(sys.argv[1], os.path.join(OWN, name))
    bad += hold_halves(sys.argv[1])
    if not os.path.exists(os.path.join(DATA, "llm.json")):
        print("SKIPPED: no published runs beside the sources:", DATA)
        return 1 if bad else 77
    bad += hold_abci(sys.argv[1], os.path.join(DATA, "abci.json"))
    bad += hold_file(sys.argv[1], os.path.join(DATA, "cnn.json"))[0]
    more, found = hold_file(sys.argv[1], os.path.join(DATA, "llm.json"))
    bad += more + order_of_bloom(found["rows"])
    print(f"regret  {found['regret']:.3f}")
    bad += found["regret"] > REGRET
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
