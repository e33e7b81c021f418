#!/usr/bin/env python3
"""Every config.json as a job: exported and read back to the same figures, or
refused with what the program is not told of.

Usage: configs.py PARADL. Configurations are those of tests/data/hf and of the
fuzz corpus. A file that is
written must have the step and memory of the projection; where a vocabulary is
padded, to a multiple of 128, the projection is of the padded network.
PDL_LONG=1: all of them in every format, not Megatron's alone."""
import collections
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.join(HERE, "..", "..")
READER = {"megatron": "megatron-args", "nanotron": "nanotron",
          "torchtitan": "torchtitan", "torchtitan-toml": "torchtitan",
          "deepspeed": "deepspeed", "accelerate": "accelerate",
          "paradl": "paradl"}
FRAMEWORK = {"megatron": "megatron", "nanotron": "nanotron",
             "torchtitan": "torchtitan", "torchtitan-toml": "torchtitan",
             "deepspeed": "megatron-deepspeed", "accelerate": "pytorch",
             "paradl": "own"}
NAMES_MODEL = ("megatron", "nanotron", "paradl")
SYSTEM = ["--system", "dgx-h100"]
STRATEGY = {"nanotron": "data=8", "torchtitan": "data=8,zero=3",
            "torchtitan-toml": "data=8,zero=3", "accelerate": "data=8,zero=3"}


def files():
    found = glob.glob(os.path.join(TREE, "tests/fuzz/corpus/hf/*.json"))
    return sorted(found + glob.glob(os.path.join(TREE, "tests/data/hf/*.json")))


def run(paradl, *args):
    return subprocess.run([paradl, *args], capture_output=True, text=True,
                          check=False)


def figures(done):
    x = json.loads(done.stdout)
    return x["step_s"], x["memory"]["peak_bytes"]


def padded(path):
    """A launch script says what the vocabulary is padded to."""
    with open(path, encoding="utf-8") as f:
        return re.search(r"pads it to (\d+)", f.read())


def back(paradl, export, path, config, strategy):
    ask = ["project", "--from", READER[export], path]
    if export not in NAMES_MODEL:
        ask.append(config)
    if export in ("accelerate", "deepspeed"):
        ask += ["--strategy", strategy, "--batch", "8"]
    return run(paradl, *ask, *SYSTEM, "--pes", "8", "--framework",
               FRAMEWORK[export], "--json")


def check(paradl, config, export, where):
    """What became of it: "written", "refused", or what is wrong."""
    path = os.path.join(where, "job")
    strategy = STRATEGY.get(export, "data=8,zero=1")
    if export == "paradl":
        strategy = "data=8"
    if os.path.exists(path):
        os.unlink(path)
    done = run(paradl, "project", config, *SYSTEM, "--strategy", strategy,
               "--batch", "8", "--framework", FRAMEWORK[export], "--export",
               export, "-o", path, "--json")
    if not os.path.exists(path):
        reason = done.stderr.strip()
        fine = done.returncode == 3 and reason and "\n\n" not in reason
        return "refused" if fine else f"exit {done.returncode}: {reason!r}"
    first = figures(done)
    again = back(paradl, export, path, config, strategy)
    if again.returncode not in (0, 1):
        return f"does not read back: {again.stderr.strip()}"
    second = figures(again)
    # the zoo has rotary positions with RMSNorm alone, which is said
    near = 1e-3 if "both are taken" in again.stdout else 1e-6
    close = .05 if padded(path) else near
    if not all(math.isclose(a, b, rel_tol=close)
               for a, b in zip(first, second)):
        return f"{first} reads back as {second}"
    return "written"


def main():
    paradl, bad = os.path.abspath(sys.argv[1]), 0
    few = not os.environ.get("PDL_LONG")
    for export in READER:
        count = collections.Counter()
        every = 4 if few and export != "megatron" else 1
        with tempfile.TemporaryDirectory() as where:
            for config in files()[::every]:
                what = check(paradl, config, export, where)
                known = what in ("written", "refused")
                count[what if known else "wrong"] += 1
                if not known:
                    print(f"{os.path.basename(config)} {export}: {what}")
        print(f"{export:16}", dict(count))
        bad += count["wrong"] + (count["written"] == 0)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
