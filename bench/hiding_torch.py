#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hiding samples under DistributedDataParallel beside paradl train: accuracy of
both on two ranks, from the same first weights, in the same order.

    PYTHONPATH=python PARADL_LIBRARY=build/libparadl.so.0 /usr/bin/python3 \\
        bench/hiding_torch.py build/paradl MNIST --samples 15000 --seeds 3
"""
import argparse
import gzip
import json
import os
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
    """examples/mnist.yaml."""

    def __init__(self, weights):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)
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


def program(a, folder, seed, *more):
    done = subprocess.run(
        [a.paradl, "train", os.path.join(ROOT, "examples", "mnist.yaml"),
         "--data", folder, "--batch", str(a.batch), "--epochs",
         str(a.epochs), "--lr", str(a.lr), "--seed", str(seed),
         "--optimizer", "sgd:momentum=0.9", "--raw", "--json", "--threads",
         "1", "--virtual", "--strategy", "data=2", *more],
        stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["accuracy"]


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
    for _ in range(a.epochs):
        for inputs, labels in DataLoader(data, batch_size=size,
                                         sampler=sampler):
            opt.param_groups[0]["lr"] = a.lr * sampler.rate
            out = wrapped(inputs)
            each = F.cross_entropy(out, labels, reduction="none")
            loss = sampler.loss(each, out.argmax(1) == labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
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
        torch.save(right, f"{folder}/out")
    dist.destroy_process_group()


def both(a, seed, hide):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(list(shorter(a, folder)), f"{folder}/data")
        program(a, folder, seed, "--steps", "1", "--lr", "1e-38", "--save",
                f"{folder}/first.safetensors")
        ours = program(a, folder, seed, "--hide", hide)
        mp.spawn(train, (a, folder, seed, hide), 2)
        return 100 * ours, 100 * torch.load(f"{folder}/out")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("paradl", type=os.path.abspath)
    p.add_argument("data")
    p.add_argument("--samples", type=int, default=60000)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=.02)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--hide", default="kakurenbo:f=0.3")
    a = p.parse_args()
    apart = []
    for seed in range(a.seeds):
        ours, torchs = both(a, seed, a.hide)
        apart.append(torchs - ours)
        print(f"seed {seed}: paradl train {ours:.2f}, torch {torchs:.2f}, "
              f"{apart[-1]:+.2f}", flush=True)
    print(f"{a.hide}: {sum(apart) / len(apart):+.2f} on the mean")


if __name__ == "__main__":
    main()
