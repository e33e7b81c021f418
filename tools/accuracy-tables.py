#!/usr/bin/env python3
"""The table of doc/accuracy-log.md that says what hangs on which runs were fitted.

    tools/accuracy-tables.py PARADL RUNS.json [--update doc/accuracy-log.md]

Halves of VGG-16's clean runs are left out, and both the other half and ResNet-50
are projected. With --update the text between the lines "<!-- table hold-out -->"
and "<!-- end -->" is replaced. What each effect is worth: select-form.py.
"""
import sys
import tempfile

from abci_runs import (AXES, BASE, FIT, Bench, arguments, axes, by_axes, cells,
                       finish, mean, pes, read, select)


def project(bench, doc, fitted, tested):
    """Tested runs by a fit to others."""
    system = bench.path("fit.yaml")
    bench.call("calibrate", "--fit", bench.write("fit.json", doc, "runs", fitted),
               "--base", BASE, "-o", system)
    return bench.rows(doc, tested, system)


def halves(runs):
    """Every second run; small numbers of PEs; one of the two campaigns."""
    yield "every second run", runs[::2], runs[1::2]
    yield "the other ones", runs[1::2], runs[::2]
    few = [r for r in runs if pes(r) <= 64]
    yield "up to 64 PEs", few, [r for r in runs if r not in few]
    one = [r for r in runs if axes(r) != "data" or r["set"] == "abci_fig2"]
    yield "one campaign", one, [r for r in runs if r not in one]


def hold_out(bench, doc):
    runs, tested = select(doc, "vgg16", FIT), select(doc, "resnet50", AXES)
    lines = ["| fitted to | runs | VGG-16, the rest | ResNet-50: " +
             " | ".join(AXES) + " | mean |", "|---" * (len(AXES) + 4) + "|"]
    for name, fitted, rest in [("all", runs, [])] + list(halves(runs)):
        other = ""
        if rest:
            other = cells([mean(100 * r["accuracy"] for _, r in
                                project(bench, doc, fitted, rest))])
        row = by_axes(project(bench, doc, fitted, tested))
        lines.append(f"| {name} | {len(fitted)} | {other} | {cells(row)} |")
        print(lines[-1], file=sys.stderr)
    return lines


def main():
    files, text = arguments(__doc__, 1)
    if not files:
        return 2
    with tempfile.TemporaryDirectory() as folder:
        tables = {"hold-out": hold_out(Bench(files[0], folder), read(files[1]))}
    return finish(tables, text)


if __name__ == "__main__":
    sys.exit(main())
