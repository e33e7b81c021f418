#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that comes upon a damaged image ends the run: one line that names it,
exit code 3, and nobody waits for the time-out: neither another worker, nor
another device of the client or of the cluster."""
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time

paradl = os.path.abspath(sys.argv[1])
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
seeds = os.path.join(root, "tests", "fuzz", "corpus", "io_jpeg")
CLIENTS, BAD, TIMEOUT_S = 8, "train/dog/5.jpg", 120


HOW = {"one device": ["lenet5:input=32,channels=3,classes=2"],
       "a pipeline": ["lenet5:input=32,channels=3,classes=2", "--strategy",
                      "pipe=2"],
       "a cluster": ["resnet9:width=4,input=32,channels=3,classes=2",
                     "--algorithm", "feddct:parts=2"]}


def federate(*more, how="one device"):
    start = time.monotonic()
    r = subprocess.run(
        [paradl, "federate", *HOW[how], "--data", "data", "--clients", str(CLIENTS), "--rounds", "3", "--batch", "2",
         "--raw", "--timeout", str(TIMEOUT_S), "--quiet", *more],
        capture_output=True, text=True, check=False)
    return r, time.monotonic() - start


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for split in "train", "test":
        for kind in "cat", "dog":
            os.makedirs(f"data/{split}/{kind}")
            for i in range(16):
                shutil.copy(os.path.join(seeds, "rgb"),
                            f"data/{split}/{kind}/{i}.jpg")
    r, _ = federate("--no-test")
    if r.returncode == 4 or "libjpeg" in r.stderr:
        sys.exit(77)
    if r.returncode != 0:
        sys.exit(f"federate_ends: {r.returncode} {r.stderr}")
    for bad in BAD, BAD.replace("train", "test"):
        shutil.copy(os.path.join(seeds, "cut"), f"data/{bad}")
        for ranks, how, where in itertools.product((2, 4), HOW,
                                                   ([], ["--virtual"])):
            r, took = federate("-n", str(ranks), *where, how=how)
            lines = r.stderr.splitlines()
            if r.returncode != 3 or len(lines) != 1 or \
                    bad not in lines[0] or took > TIMEOUT_S / 2:
                sys.exit(f"federate_ends: {ranks} {how} {where}: {took:.1f} "
                         f"s, {r.returncode} {r.stderr}")
        shutil.copy(os.path.join(seeds, "rgb"), f"data/{bad}")
print("federate_ends: 2 and 4 ranks end with one line")
