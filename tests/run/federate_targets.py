#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients may train besides classes, tokens and numbers to meet: one step
of all of them is one step of `paradl train` with the same samples (1e-6). And
what a client's step is projected to take."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

paradl = os.path.abspath(sys.argv[1])
REG = """format: paradl-model/1
name: plane
kind: cnn
inputs:
  - {name: input, shape: [3]}
layers:
  - {op: linear, name: fc1, features: 8}
  - {op: tanh, name: tanh}
  - {op: linear, name: fc2, features: 1}
"""
GPT = "gpt2:layers=1,hidden=32,heads=2,vocab=300,seq=16"


def run(*args, fails=0):
    start = time.monotonic()
    r = subprocess.run([paradl, *map(str, args)], capture_output=True,
                       text=True, timeout=300,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
    if r.returncode != fails:
        sys.exit(f"federate_targets: {args}: {r.returncode} {r.stderr}")
    return r, time.monotonic() - start


def weights(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    at = json.loads(data[8:8 + n])
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f",
                             data[8 + n + v["data_offsets"][0]:
                                  8 + n + v["data_offsets"][1]])
            for k, v in at.items() if k != "__metadata__"}


def apart(a, b):
    if a.keys() != b.keys():
        sys.exit("federate_targets: other tensors")
    return max(abs(x - y) for k in a for x, y in zip(a[k], b[k]))


def same_step(name, model, data, samples, more):
    """All samples in a step of one trainer, or of the mean of four clients."""
    common = ["--data", *data, "--lr", 0.1, "--steps", 1, "--quiet"]
    run("train", model, *common, "--batch", samples, "--optimizer",
        "sgd:momentum=0", "--save", "train.safetensors", *more)
    run("federate", model, *common, "--clients", 4, "--batch", samples // 4,
        "--rounds", 1, "--save", "fed.safetensors")
    run("federate", model, "--data", *data, "--clients", 4, "--rounds", 0,
        "--no-test", "--quiet", "--save", "first.safetensors")
    trained = weights("train.safetensors")
    moved = apart(trained, weights("first.safetensors"))
    off = apart(trained, weights("fed.safetensors"))
    if not off < 1e-6 < 1e-3 < moved:
        sys.exit(f"federate_targets: {name}: {off} of {moved}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    draw = random.Random(1)
    with open("plane.csv", "w", encoding="ascii") as f:
        f.write("a,b,c,y\n")
        for _ in range(400): # a fifth of them are to test with
            a, b, c = (draw.random() for _ in range(3))
            f.write(f"{a},{b},{c},{a - 2 * b + c / 2}\n")
    with open("plane.yaml", "w", encoding="ascii") as f:
        f.write(REG)
    same_step("numbers", "plane.yaml", ["plane.csv"], 320, ["--mse"])
    same_step("tokens", GPT, ["synthetic", "--samples", 32], 32, [])
    lines = [json.loads(x) for x in run(
        "federate", "plane.yaml", "--data", "plane.csv", "--rounds", 5,
        "--clients", 8, "--json", "--report", "page.html")[0].stdout.splitlines()]
    if not lines[4]["test_loss"] < lines[0]["test_loss"] or \
            "accuracy" in lines[0] or lines[5]["accuracy"] is not None:
        sys.exit(f"federate_targets: {lines}")
    with open("page.html", encoding="utf-8") as f:
        page = f.read()
    if "loss-chart" not in page or "accuracy-chart" in page:
        sys.exit("federate_targets: the page has another chart")
    with open("text.txt", "w", encoding="ascii") as f:
        f.write("to be or not to be, that is the question; " * 100)
    last = json.loads(run(
        "federate", GPT, "--data", "text.txt", "--clients", 3, "--rounds", 2,
        "--algorithm", "scaffold", "-n", 2, "--json", "--save",
        "text.safetensors")[0].stdout.splitlines()[-1])
    seen = json.loads(run("evaluate", GPT, "--data", "text.txt", "--weights",
                          "text.safetensors", "--json")[0].stdout)
    if abs(last["accuracy"] - seen["accuracy"]) > 1e-9 or \
            abs(last["test_loss"] - seen["loss"]) > 1e-5 or \
            last["accuracy"] == 0:
        sys.exit(f"federate_targets: {last}, evaluated {seen}")


def priced(strategy):
    """A client's step is what `paradl project` says: 50 of them a round."""
    of = ["--system", "aws-g4dn", "--strategy", strategy]
    step = json.loads(run("project", "resnet9", *of, "--batch", 10, "--json",
                          "--precision", "fp32", "--framework",
                          "own")[0].stdout)["step_s"]
    mean = json.loads(run(
        "federate", "resnet9", "--data", "synthetic", "--samples", 9, *of,
        "--clients", 9, "--client-samples", 500, "--batch", 10, "--rounds", 2,
        "--project", "--json")[0].stdout)["round_mean_s"]
    if not abs(mean / (50 * step) - 1) < 1e-9:
        sys.exit(f"federate_targets: {strategy}: {mean} s, not {50 * step} s")


priced("serial")
priced("data=2")
print("federate_targets: tokens and numbers train as elsewhere")
