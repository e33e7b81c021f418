#!/usr/bin/env python3
"""Chooses the form of the model of ABCI without the runs that test it.

    tools/select-form.py PARADL RUNS.json LAYERS.json [--update doc/accuracy.md]

Only three kinds of evidence decide: VGG-16's clean runs (serial, data and
data+filter), each number of PEs and each kind of strategy left out of the fit
once; what is read in the measured program; and what other machines show
(LAYERS.json: 32-bit convolutions of VGG-16 on one H200). ResNet-50's runs are
opened when all is decided and written down.

Two forms are told apart by VGG-16 when the posteriors of their fits differ by
2 ln B > 6 (strong evidence, Kass and Raftery 1995): the fit is one to the runs
and to what is known of its parameters without them, so that a form which needs
an unlikely parameter loses, though it may match the runs. (Both have as many
parameters; how sharp the maxima are is left out.) The error of runs left out is
shown beside it: the mean over folds of |projected / measured - 1|, and the mean
of the differences by fold with its standard error.

  - The tile: the likelier one; where VGG-16 cannot tell, the one that fits the
    other machine better, each layer left out once.
  - Effects, one at a time taken out of that form: in when the form without is
    less likely. Where VGG-16 cannot tell, or says the contrary, in when the
    program or another machine shows it, else out. (What a program does, it
    does; a better match without it means that something else is missing.)
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

FIT = ("serial", "data", "data+filter")
AXES = ("serial", "data", "filter", "channel", "data+filter", "data+spatial")
BASE = "abci-v100"
# What shows an effect besides VGG-16's runs; nothing: VGG-16 alone decides.
SHOWN = {
    "sharing": "program: one ring for each of 4 ranks of a node; 2 adapters",
    "one-channel": "",
    "latency": "report: 40 us from node to node",
    "sync": "program: synchronises around every collective",
    "staging": "program: halos by blocking MPI through the host",
    "volumes": "program: leaders, stack and sum before the allreduce",
    "copies": "program: concat, stack and sum of what collectives give",
    "tensors": "program: a copy in, a copy out and an update each",
    "host": "H200, eager PyTorch: 60 us a call",
    "files": "program: opens log files in each layer and step",
    "locks": "",
    "tiles": "H200: split layers",
    "reread": "H200: kernel times of normalisation",
    "interference": "A100, H100, MI250: arXiv 2507.03114",
}


def axes(run):
    terms = [t.split("=") for t in run["strategy"].split(",")]
    return "+".join(k for k, v in terms if v != "1") or "serial"


def pes(run):
    n = 1
    for t in run["strategy"].split(","):
        n *= int(t.split("=")[1])
    return n


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


class Form:
    """A form of the model, fitted to VGG-16."""

    def __init__(self, name, tile=128, without=()):
        self.name, self.tile, self.without = name, tile, tuple(without)

    def options(self):
        out = [e for e in self.without if e != "tensors"]
        return ["--without", ",".join(out)] if out else []

    def runs(self, runs):
        """With or without the calls for each tensor: two frameworks."""
        name = "chainermnx" if "tensors" in self.without else "chainermnx-each"
        return [{**r, "options": {**r["options"], "framework": name}}
                for r in runs]


class Bench:
    def __init__(self, paradl, folder):
        self.paradl, self.folder = os.path.abspath(paradl), folder

    def call(self, *args):
        return subprocess.run([self.paradl, *args], capture_output=True,
                              text=True, check=True).stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, doc, key, rows):
        with open(self.path(name), "w", encoding="utf-8") as f:
            json.dump({**doc, key: rows}, f)
        return self.path(name)

    def base(self, form):
        return f"{BASE}:pe.kernels.vector_tile={form.tile}"

    def folds(self, form, doc, runs):
        """Error of each number of PEs and of each kind, left out."""
        runs_file = self.write("vgg16.json", doc, "runs", form.runs(runs))
        form.system = self.path(re.sub(r"\W+", "-", form.name) + ".yaml")
        found = json.loads(self.call(
            "calibrate", "--fit", runs_file, "--base", self.base(form),
            "-o", form.system, "--leave-out", "pes", "--json", "--posterior",
            "--start", "pe.memory_efficiency=.855", *form.options()))
        form.fit = found
        by = {}
        for run, r in zip(runs, found["residuals"]):
            assert run["id"] == r["id"]
            by.setdefault(("pes", pes(run)), []).append(abs(r["left_out"]))
            by.setdefault(("kind", axes(run)), []).append(
                abs(r["kind_left_out"]))
        form.error = {k: mean(v) for k, v in by.items()}
        print(f"{form.name}: {100 * mean(form.error.values()):.2f} %",
              file=sys.stderr, flush=True)
        return form

    def accuracy(self, form, doc, runs):
        """Of each kind of strategy, and their mean."""
        runs_file = self.write("test.json", doc, "runs", form.runs(runs))
        found = json.loads(self.call("validate", "--measured", runs_file,
                                     "--system", form.system, "--json",
                                     *form.options()))
        by = {r["id"]: axes(r) for r in runs}
        of = {k: mean(100 * r["accuracy"] for r in found["rows"]
                      if by[r["id"]] == k) for k in AXES}
        return [of[k] for k in AXES] + [mean(of[k] for k in AXES)]


def compare(a, b):
    """Mean and standard error, over folds, of by how much b's error is more."""
    d = [b[k] - a[k] for k in a]
    return mean(d), statistics.stdev(d) / len(d) ** .5


STRONG = 6


def told(a, b):
    """1: form a is likelier; -1: form b; 0: they cannot be told apart."""
    d = b.fit["misfit"] - a.fit["misfit"]
    return 0 if abs(d) <= STRONG else 1 if d > 0 else -1


def figures(a, b):
    """By how much b is worse, likelihood and errors."""
    d, se = compare(a.error, b.error)
    return (f"{b.fit['misfit'] - a.fit['misfit']:.1f} | "
            f"{percent(d)} ± {percent(se)}")


def tile_of_layers(bench, layers):
    """Each layer of VGG-16 left out of a fit to the others: errors by tile."""
    with open(layers, encoding="utf-8") as f:
        doc = json.load(f)
    names = sorted({r["layer"] for r in doc["records"]})
    found = {}
    for tile in (64, 128):
        found[tile] = {}
        for name in names:
            fit = bench.write("fit.json", doc, "records", [
                r for r in doc["records"] if r["layer"] != name])
            test = bench.write("test.json", doc, "records", [
                r for r in doc["records"] if r["layer"] == name])
            system = bench.path("layers.yaml")
            bench.call("calibrate", "--fit", fit, "--base",
                       f"dgx-h200:pe.kernels.vector_tile={tile}", "-o", system)
            x = json.loads(bench.call("validate", "--measured", test,
                                      "--system", system, "--json"))
            found[tile][name] = mean(abs(r["projected_s"] / r["measured_s"] - 1)
                                     for r in x["rows"])
    return found


def percent(x):
    return f"{100 * x:.2f}"


def choose(bench, doc, runs, layers):
    """The form, and the rows of the table that say why."""
    rows = []
    start = bench.folds(Form("tiles of 128"), doc, runs)
    other = bench.folds(Form("tiles of 64", tile=64), doc, runs)
    h200 = tile_of_layers(bench, layers)
    hd, hse = compare(h200[64], h200[128])
    print(f"H200, 128 for 64: {percent(hd)} ± {percent(hse)}", file=sys.stderr)
    verdict = told(start, other) or (-1 if hd > 0 else 1)
    form, loser = (start, other) if verdict > 0 else (other, start)
    rows.append([f"tile of {form.tile}, not {loser.tile}",
                 figures(form, loser),
                 "VGG-16" if told(start, other) else
                 f"H200: {percent(abs(hd))} ± {percent(hse)}",
                 str(form.tile), loser])
    out = []
    for effect, shown in sorted(SHOWN.items(), key=lambda x: bool(x[1])):
        x = bench.folds(Form("without " + effect, form.tile, (effect,)),
                        doc, runs)
        inside = told(form, x) > 0 or bool(shown)
        if not inside:
            out.append(effect)
        rows.append([effect, figures(form, x),
                     "VGG-16" if told(form, x) > 0 else shown or "VGG-16",
                     "in" if inside else "out", x])
        print("  ", *rows[-1][1:4], file=sys.stderr, flush=True)
    if out:
        form = bench.folds(Form("chosen", form.tile, out), doc, runs)
    return form, rows


def main():
    if len(sys.argv) not in (4, 6) or (len(sys.argv) == 6 and
                                       sys.argv[4] != "--update"):
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    with open(sys.argv[2], encoding="utf-8") as f:
        doc = json.load(f)
    fitted = [r for r in doc["runs"]
              if r["model"].startswith("vgg16") and axes(r) in FIT]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sys.argv[1], folder)
        form, rows = choose(bench, doc, fitted, sys.argv[3])
        print(f"chosen: tile {form.tile}, without {', '.join(form.without) or 'nothing'}; error "
              f"{100 * mean(form.error.values()):.2f} %", file=sys.stderr)
        # nothing is chosen any more
        tested = [r for r in doc["runs"]
                  if r["model"].startswith("resnet50") and axes(r) in AXES]
        own = bench.accuracy(form, doc, tested)
        lines = ["| choice | VGG-16: 2 ln B | error more without, % | "
                 "decided by | outcome | afterwards, the other way, ResNet-50: " +
                 " | ".join(AXES) + " | mean |",
                 "|---" * (len(AXES) + 6) + "|",
                 "| chosen | | | | | " + " | ".join(f"{v:.1f}" for v in own) +
                 " |"]
        for name, figure, by, outcome, x in rows:
            lines.append(f"| {name} | {figure} | {by} | {outcome} | " +
                         " | ".join(f"{v:.1f}" for v in
                                    bench.accuracy(x, doc, tested)) + " |")
        with open(form.system, encoding="utf-8") as f:
            system = f.read()
    if len(sys.argv) == 4:
        print("\n".join(lines))
        print(system, file=sys.stderr)
        return 0
    with open(sys.argv[5], encoding="utf-8") as f:
        text = f.read()
    text, n = re.subn(r"(<!-- table form -->\n).*?(<!-- end -->)",
                      lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text,
                      flags=re.S)
    if n != 1:
        print(f"{sys.argv[5]}: no table form", file=sys.stderr)
        return 1
    with open(sys.argv[5], "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
