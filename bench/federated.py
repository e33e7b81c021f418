#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A table of doc/federated.md: algorithms beside their baselines, over seeds.

  bench/federated.py build/paradl --algorithms fedavg,fedavg@10,sem --seeds 10 \\
      -- examples/digits.yaml --data digits --clients 100 --select 10 ...

What follows -- is for `paradl federate`. An algorithm may have epochs of its own
(NAME@EPOCHS). Gains are over the first one, of the same seeds, with the 95 %
interval of their mean (Student's t). `central` and `local` are always there.
With --target X runs stop there, and the table has rounds and device time until
that accuracy, of the seeds that reach it.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

# 97.5 % quantiles of Student's t, by degrees of freedom from 1
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
     2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093]


def one(paradl, options, algorithm, seed):
    name, _, epochs = algorithm.partition("@")
    more = ["--epochs", epochs] if epochs else []
    out = subprocess.run(
        [paradl, "federate", *options, *more, "--algorithm", name, "--seed",
         str(seed), "--json"], check=True, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
    return json.loads(out.splitlines()[-1])


def spread(values):
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ({statistics.stdev(values):.1f})"


def gain(values, base):
    """Paired, with its interval; one seed has none."""
    d = [x - y for x, y in zip(values, base)]
    if len(d) < 2:
        return f"{d[0]:+.1f}"
    t = T[min(len(d) - 2, len(T) - 1)]
    half = t * statistics.stdev(d) / len(d) ** 0.5
    return f"{statistics.mean(d):+.1f} +- {half:.1f}"


def reached(runs):
    there = [r for r in runs if r.get("reached")]
    if not there:
        return "never"
    rounds = spread([r["rounds"] for r in there])
    seconds = spread([r["device_seconds"] for r in there])
    return f"{rounds} rounds, {seconds} s ({len(there)}/{len(runs)})"


def main():
    if "--" not in sys.argv:
        sys.exit(__doc__)
    cut = sys.argv.index("--")
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("paradl")
    p.add_argument("--algorithms", default="fedavg,cadis")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--target", type=float, default=0)
    o = p.parse_args(sys.argv[1:cut])
    options = sys.argv[cut + 1:]
    if o.target > 0:
        options += ["--target", str(o.target)]
    names = o.algorithms.split(",")
    names += [b for b in ("central", "local") if b not in names]
    base = None
    print(f"| algorithm | accuracy | {'target' if o.target > 0 else 'gain'} |"
          "\n|---|--:|--:|")
    for name in names:
        runs = [one(o.paradl, options, name, s) for s in range(o.seeds)]
        right = [100 * r["accuracy"] for r in runs]
        base = base or right
        last = reached(runs) if o.target > 0 else \
            "" if base is right else gain(right, base)
        print(f"| `{name}` | {spread(right)} | {last} |", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU time")


main()
