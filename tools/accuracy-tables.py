#!/usr/bin/env python3
"""The table of doc/accuracy.md that says what hangs on which runs were fitted.

    tools/accuracy-tables.py PARADL RUNS.json [--update doc/accuracy.md]

Halves of VGG-16's clean runs are left out, and both the other half and ResNet-50
are projected. With --update the text between the lines "<!-- table hold-out -->"
and "<!-- end -->" is replaced. What each effect is worth: select-form.py.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

FIT = ("serial", "data", "data+filter")
AXES = ("serial", "data", "filter", "channel", "data+filter", "data+spatial")


def axes(run):
    terms = [t.split("=") for t in run["strategy"].split(",")]
    return "+".join(k for k, v in terms if v != "1") or "serial"


class Fitter:
    def __init__(self, paradl, runs, folder):
        self.paradl, self.folder = os.path.abspath(paradl), folder
        with open(runs, encoding="utf-8") as f:
            self.doc = json.load(f)

    def select(self, model, kinds):
        return [r for r in self.doc["runs"]
                if r["model"].startswith(model) and axes(r) in kinds]

    def write(self, name, runs):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**self.doc, "runs": runs}, f)
        return path

    def call(self, *args):
        return subprocess.run([self.paradl, *args], capture_output=True,
                              text=True, check=True).stdout

    def project(self, fitted, tested):
        """Accuracy of each tested run by a fit to others."""
        system = os.path.join(self.folder, "fit.yaml")
        self.call("calibrate", "--fit", self.write("fit.json", fitted),
                  "--base", "abci-v100", "-o", system)
        found = json.loads(self.call(
            "validate", "--measured", self.write("test.json", tested),
            "--system", system, "--json"))
        by = {r["id"]: axes(r) for r in tested}
        return [(by[r["id"]], 100 * r["accuracy"]) for r in found["rows"]]


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def by_axes(rows):
    of = {k: mean(a for x, a in rows if x == k) for k in AXES}
    return [of[k] for k in AXES] + [mean(of[k] for k in AXES)]


def halves(runs):
    """Every second run; small numbers of PEs; one of the two campaigns."""
    def pes(r):
        n = 1
        for t in r["strategy"].split(","):
            n *= int(t.split("=")[1])
        return n
    yield "every second run", runs[::2], runs[1::2]
    yield "the other ones", runs[1::2], runs[::2]
    few = [r for r in runs if pes(r) <= 64]
    yield "up to 64 PEs", few, [r for r in runs if r not in few]
    one = [r for r in runs if axes(r) != "data" or r["set"] == "abci_fig2"]
    yield "one campaign", one, [r for r in runs if r not in one]


def hold_out(f):
    runs, tested = f.select("vgg16", FIT), f.select("resnet50", AXES)
    lines = ["| fitted to | runs | VGG-16, the rest | ResNet-50: " +
             " | ".join(AXES) + " | mean |", "|---" * (len(AXES) + 4) + "|"]
    for name, fitted, rest in [("all", runs, [])] + list(halves(runs)):
        other = mean(a for _, a in f.project(fitted, rest)) if rest else None
        row = by_axes(f.project(fitted, tested))
        lines.append(f"| {name} | {len(fitted)} | " +
                     (f"{other:.1f}" if rest else "") + " | " +
                     " | ".join(f"{v:.1f}" for v in row) + " |")
        print(lines[-1], file=sys.stderr)
    return lines


def main():
    if len(sys.argv) not in (3, 5) or (len(sys.argv) == 5 and
                                       sys.argv[3] != "--update"):
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        f = Fitter(sys.argv[1], sys.argv[2], folder)
        tables = {"hold-out": hold_out(f)}
    if len(sys.argv) == 3:
        print("\n\n".join("\n".join(t) for t in tables.values()))
        return 0
    with open(sys.argv[4], encoding="utf-8") as f:
        text = f.read()
    for name, lines in tables.items():
        text, n = re.subn(rf"(<!-- table {name} -->\n).*?(<!-- end -->)",
                          lambda m, x=lines: m[1] + "\n".join(x) + "\n" + m[2],
                          text, flags=re.S)
        if n != 1:
            print(f"{sys.argv[4]}: no table {name}", file=sys.stderr)
            return 1
    with open(sys.argv[4], "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
