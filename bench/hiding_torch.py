#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hiding samples under DistributedDataParallel beside paradl train: accuracy of
both on two ranks, from the same first weights, in the same order. What is apart
by chance alone is seen beside it: paradl train on one rank, which differs from
two by rounding only.

    PYTHONPATH=python PARADL_LIBRARY=build/libparadl.so.0 /usr/bin/python3 \\
        bench/hiding_torch.py build/paradl MNIST --samples 15000 --seeds 3
"""
import argparse
import gzip
import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import paradl.torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "peers"))
from python_torch import load  # noqa: E402


class Net(nn.Module):
    """examples/mnist.yaml, as wide as its weights are."""

    def __init__(self, weights):
        super().__init__()
        a, b, c = (len(weights[f"{n}.bias"]) for n in
                   ("conv1", "conv2", "fc1"))
        self.conv1, self.conv2 = nn.Conv2d(1, a, 5), nn.Conv2d(a, b, 5)
        self.fc1, self.fc2 = nn.Linear(16 * b, c), nn.Linear(c, 10)
        self.load_state_dict(weights)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


def raw(folder, name, header):
    path = os.path.join(folder, name)
    opened = open(path, "rb") if os.path.exists(path) else \
        gzip.open(path + ".gz", "rb")
    with opened as f:
        return f.read()[header:]


def shorter(a, folder):
    """The first samples, as files that both read."""
    for part, n in (("train", a.samples), ("t10k", 10000)):
        images = raw(a.data, f"{part}-images-idx3-ubyte", 16)[:784 * n]
        labels = raw(a.data, f"{part}-labels-idx1-ubyte", 8)[:n]
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, n, 28, 28) + images)
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, n) + labels)
        yield (torch.frombuffer(bytearray(images), dtype=torch.uint8)
               .view(n, 1, 28, 28) / 255,
               torch.frombuffer(bytearray(labels), dtype=torch.uint8).long())


def describe(a, folder):
    """The network of the examples, narrower where --width says so."""
    with open(os.path.join(ROOT, "examples", "mnist.yaml")) as f:
        text = f.read()
    for name, n in (("conv1", 20), ("conv2", 50), ("fc1", 500)):
        text = re.sub(rf"(name: {name}, features:) {n}\b",
                      rf"\1 {max(1, round(n * a.width))}", text)
    with open(f"{folder}/mnist.yaml", "w") as f:
        f.write(text)


def program(a, folder, seed, ranks, *more):
    """Accuracy, and how many samples each epoch hid."""
    done = subprocess.run(
        [a.paradl, "train", f"{folder}/mnist.yaml", "--data", folder,
         "--batch", str(a.batch), "--epochs",
         str(a.epochs), "--lr", str(a.lr), "--seed", str(seed),
         "--optimizer", "sgd:momentum=0.9", "--raw", "--json", "--threads",
         "1", "--virtual", "--strategy", f"data={ranks}", "--schedule",
         a.schedule, *more],
        stdout=subprocess.PIPE, check=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return 100 * rows[-1]["accuracy"], \
        [r.get("hidden", 0) for r in rows if r.get("epoch_ended")]


def rate(a, sampler, batch):
    """The learning rate of a batch: by the part of all epochs that is over, in
    steps of a whole one, as paradl train has it."""
    full, n = a.samples // a.batch, sampler.order.batches
    at = sampler.epoch * full + -(-(batch + 1) * full // n) - 1
    part = at / (a.epochs * full)
    base = a.lr if a.schedule == "constant" else \
        a.lr * .5 * (1 + math.cos(math.pi * part))
    return base * sampler.rate


def train(rank, a, folder, seed, hide):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/init",
                            rank=rank, world_size=2)
    (x, y), (test_x, test_y) = torch.load(f"{folder}/data")
    data, size = TensorDataset(x, y), a.batch // 2
    net = Net(load(f"{folder}/first.safetensors"))
    wrapped = nn.parallel.DistributedDataParallel(net)
    sampler = paradl.torch.Sampler(data, batch_size=size, hide=hide,
                                   seed=seed, epochs=a.epochs)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr, momentum=.9)
    hidden = []
    for _ in range(a.epochs):
        loader = DataLoader(data, batch_size=size, sampler=sampler)
        for batch, (inputs, labels) in enumerate(loader):
            opt.param_groups[0]["lr"] = rate(a, sampler, batch)
            out = wrapped(inputs)
            each = F.cross_entropy(out, labels, reduction="none")
            loss = sampler.loss(each, out.argmax(1) == labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
        hidden.append(len(sampler.order.hidden))
        with torch.no_grad():
            for indices in sampler.refresh():
                inputs, labels = data[indices]
                out = net(inputs)
                sampler.saw(indices, F.cross_entropy(out, labels,
                                                     reduction="none"),
                            out.argmax(1) == labels)
    if rank == 0:
        with torch.no_grad():
            right = (net(test_x).argmax(1) == test_y).float().mean().item()
        torch.save((100 * right, hidden), f"{folder}/out")
    dist.destroy_process_group()


def all_of(a, seed):
    """Two ranks, torch on two ranks, one rank."""
    with tempfile.TemporaryDirectory() as folder:
        describe(a, folder)
        torch.save(list(shorter(a, folder)), f"{folder}/data")
        program(a, folder, seed, 2, "--steps", "1", "--lr", "1e-38", "--save",
                f"{folder}/first.safetensors")
        two = program(a, folder, seed, 2, "--hide", a.hide)
        mp.spawn(train, (a, folder, seed, a.hide), 2)
        one = program(a, folder, seed, 1, "--hide", a.hide)
        return two, torch.load(f"{folder}/out"), one


# Student's t, 97.5 %, by degrees of freedom
T975 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20,
        2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09]


def say(name, apart):
    n = len(apart)
    if n < 2:
        return
    sd = statistics.stdev(apart)
    half = T975[min(n - 2, len(T975) - 1)] * sd / math.sqrt(n)
    print(f"{name}: {statistics.mean(apart):+.3f} +- {half:.3f} points (95 % of "
          f"{n} seeds), one seed {sd:.3f}, largest "
          f"{max(apart, key=abs):+.2f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("paradl", type=os.path.abspath)
    p.add_argument("data")
    p.add_argument("--samples", type=int, default=60000)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=.02)
    p.add_argument("--width", type=float, default=1.,
                   help="of examples/mnist.yaml's layers")
    p.add_argument("--schedule", choices=("constant", "cosine"),
                   default="cosine")
    p.add_argument("--first", type=int, default=0, help="seed")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--hide", default="kakurenbo:f=0.3")
    a = p.parse_args()
    torchs, chance = [], []
    for seed in range(a.first, a.first + a.seeds):
        two, other, one = all_of(a, seed)
        torchs.append(other[0] - two[0])
        chance.append(one[0] - two[0])
        print(f"seed {seed}: paradl train {two[0]:.2f}, torch {other[0]:.2f} "
              f"({torchs[-1]:+.2f}), one rank {one[0]:.2f} "
              f"({chance[-1]:+.2f}); hidden {two[1]}, {other[1]}, {one[1]}",
              flush=True)
    say("torch - paradl train", torchs)
    say("one rank - two", chance)


if __name__ == "__main__":
    main()
