"""What select-form.py and accuracy-tables.py share: ABCI's runs, calls of the
program, tables of a text."""
import json
import os
import re
import subprocess
import sys

FIT = ("serial", "data", "data+filter")
AXES = ("serial", "data", "filter", "channel", "data+filter", "data+spatial")
BASE = "abci-v100"


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


def select(doc, model, kinds):
    return [r for r in doc["runs"]
            if r["model"].startswith(model) and axes(r) in kinds]


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Bench:
    """Calls of the program, with files in a folder."""

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

    def rows(self, doc, runs, system, *options):
        """Each run with what is projected for it."""
        found = json.loads(self.call(
            "validate", "--measured", self.write("test.json", doc, "runs", runs),
            "--system", system, "--json", *options))
        by = {r["id"]: r for r in runs}
        return [(by[r["id"]], r) for r in found["rows"]]


def by_axes(rows):
    """Accuracy of each kind of strategy, and their mean, in %."""
    of = {k: mean(100 * r["accuracy"] for run, r in rows if axes(run) == k)
          for k in AXES}
    return [of[k] for k in AXES] + [mean(of[k] for k in AXES)]


def cells(values):
    return " | ".join(f"{v:.1f}" for v in values)


def update(path, tables):
    """Replaces what is between <!-- table NAME --> and <!-- end -->."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for name, lines in tables.items():
        text, n = re.subn(rf"(<!-- table {name} -->\n).*?(<!-- end -->)",
                          lambda m, x=lines: m[1] + "\n".join(x) + "\n" + m[2],
                          text, flags=re.S)
        if n != 1:
            print(f"{path}: no table {name}", file=sys.stderr)
            return 1
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return 0


def finish(tables, path):
    """Prints the tables, or puts them into the text."""
    if path:
        return update(path, tables)
    print("\n\n".join("\n".join(t) for t in tables.values()))
    return 0


def arguments(doc, files):
    """PARADL FILE ... [--update TEXT]; None after a usage line."""
    a = sys.argv[1:]
    if len(a) == files + 3 and a[-2] == "--update":
        return a[:-2], a[-1]
    if len(a) == files + 1:
        return a, None
    print(doc.split("\n\n")[1].strip(), file=sys.stderr)
    return None, None
