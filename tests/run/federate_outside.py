#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that is not ours: clients of examples/flower_client.py, whose models
it averages itself, must end with the bits of `paradl federate`."""
import array
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
sys.path.insert(0, os.path.join(root, "examples"))
import flower_client  # noqa: E402

flower_client.numpy = None  # lists of plain arrays: nothing to install
paradl = os.path.abspath(sys.argv[1])
os.chdir(root)
CLIENTS, ROUNDS = 3, 2
MODEL, DATA = "examples/digits.yaml", "digits"
WITH = ["--partition", "dirichlet:alpha=0.5", "--backend", "ref", "--batch",
        "20", "--steps", "3", "--seed", "5"]


def mean(results):
    """Weighed by samples, in double precision, the order that of the plan."""
    total = sum(n for _, n in results)
    out = []
    for t in range(len(results[0][0])):
        sums = [0.0] * len(results[0][0][t])
        for arrays, n in results:
            sums = [s + n * w for s, w in zip(sums, arrays[t])]
        out.append(array.array("f", (s / total for s in sums)))
    return out


def order(run):
    """Whom the plan of each round asks, one after the other."""
    lines = subprocess.run([*run, "--emit"], check=True,
                           capture_output=True, text=True).stdout
    return [[t["clients"][0] for t in flower_client.json.loads(x)["tasks"]]
            for x in lines.splitlines()]


with tempfile.TemporaryDirectory() as folder:
    whole = os.path.join(folder, "whole.safetensors")
    run = [paradl, "federate", MODEL, "--data", DATA, "--clients",
           str(CLIENTS), "--rounds", str(ROUNDS), *WITH]
    subprocess.run([*run, "--no-test", "--quiet", "--save", whole],
                   check=True, stdout=subprocess.DEVNULL)
    clients = [flower_client.Client(k, MODEL, DATA, CLIENTS, *WITH,
                                    paradl=paradl) for k in range(CLIENTS)]
    model = clients[0].get_parameters({})
    for number, asked in enumerate(order(run)):
        back = [clients[k].fit(model, {"round": number}) for k in asked]
        model = mean([(w, n) for w, n, _ in back])
    table, want = flower_client.read(whole)
    bad = [n for (n, _), x, y in zip(table, want, model) if x != y]
    if bad or len(want) != len(model):
        sys.exit(f"federate_outside: other bits in {bad}")
    # what a server could send that is no model of ours
    for what, change in (("not there", lambda t, w: t.pop()),
                         ("shape", lambda t, w: t.__setitem__(
                             0, (t[0][0], [1] + t[0][1]))),
                         ("no number", lambda t, w: w[0].__setitem__(
                             0, float("nan")))):
        t, w = flower_client.read(whole)
        change(t, w)
        flower_client.write(whole + "x.safetensors", t, w)
        r = subprocess.run([*run, "--load", whole + "x.safetensors"],
                           capture_output=True, text=True)
        if r.returncode != 3 or what not in r.stderr:
            sys.exit(f"federate_outside: {what}: {r.returncode} {r.stderr}")
print(f"federate_outside: {CLIENTS} clients, {ROUNDS} rounds: the same bits")
