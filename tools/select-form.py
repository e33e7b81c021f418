#!/usr/bin/env python3
"""Chooses the form of the model of ABCI without the runs that test it.

    tools/select-form.py PARADL RUNS.json LAYERS.json [--update doc/accuracy-log.md]

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
import re
import statistics
import sys
import tempfile

import abci_runs
from abci_runs import (AXES, BASE, FIT, arguments, axes, by_axes, cells, finish,
                       mean, pes, read, select)

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
    "parts": "program: CuPy copies part by part; 11 us a launch",
    "bias": "program: cudnnAddTensor and a sum",
    "round-trip": "program: opens files; Lustre: 2,000 a second by one thread",
    "host": "H200, eager PyTorch: 60 us a call",
    "files": "program: opens log files in each layer and step",
    "locks": "",
    "tiles": "H200: split layers",
    "reread": "H200: kernel times of normalisation",
    "interference": "A100, H100, MI250: arXiv 2507.03114",
}


class Form:
    """A form of the model, fitted to VGG-16."""

    def __init__(self, name, tile=128, without=()):
        self.name, self.tile, self.without = name, tile, tuple(without)

    def options(self):
        return ["--without", ",".join(self.without)] if self.without else []


class Bench(abci_runs.Bench):
    def folds(self, form, doc, runs):
        """Error of each number of PEs and of each kind, left out."""
        runs_file = self.write("vgg16.json", doc, "runs", runs)
        form.system = self.path(re.sub(r"\W+", "-", form.name) + ".yaml")
        found = json.loads(self.call(
            "calibrate", "--fit", runs_file, "--base",
            f"{BASE}:pe.kernels.vector_tile={form.tile}", "-o", form.system,
            "--leave-out", "pes", "--json", *form.options()))
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
        return by_axes(self.rows(doc, runs, form.system, *form.options()))


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
    doc = read(layers)
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


def table(bench, form, rows, doc, tested):
    """Nothing is chosen any more: the test runs are opened here."""
    lines = ["| choice | VGG-16: 2 ln B | error more without, % | "
             "decided by | outcome | afterwards, the other way, ResNet-50: " +
             " | ".join(AXES) + " | mean |",
             "|---" * (len(AXES) + 6) + "|",
             f"| chosen | | | | | {cells(bench.accuracy(form, doc, tested))} |"]
    for name, figure, by, outcome, x in rows:
        lines.append(f"| {name} | {figure} | {by} | {outcome} | "
                     f"{cells(bench.accuracy(x, doc, tested))} |")
    return lines


def main():
    files, text = arguments(__doc__, 2)
    if not files:
        return 2
    doc = read(files[1])
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(files[0], folder)
        form, rows = choose(bench, doc, select(doc, "vgg16", FIT), files[2])
        print(f"chosen: tile {form.tile}, without "
              f"{', '.join(form.without) or 'nothing'}; error "
              f"{100 * mean(form.error.values()):.2f} %", file=sys.stderr)
        lines = table(bench, form, rows, doc, select(doc, "resnet50", AXES))
        with open(form.system, encoding="utf-8") as f:
            print(f.read(), file=sys.stderr)
    return finish({"form": lines}, text)


if __name__ == "__main__":
    sys.exit(main())
