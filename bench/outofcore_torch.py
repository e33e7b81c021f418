#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps that do not fit in memory, by PyTorch's own means, on one GPU.

  outofcore_torch.py NETWORK METHOD BATCH [--memory GIB] [--steps N]

NETWORK: resnet50, unet:INPUT (one channel, two classes, padded convolutions),
llama2-7b:LENGTH, llama2-13b:LENGTH. METHOD: core (nothing), checkpoint (every
block made again), save_on_cpu (torch.autograd.graph), and for transformers
checkpoint-host (blocks made again; AdamW with float32 masters on the host's
memory, foreach, as ZeRO-Offload has it). bfloat16 (autocast; transformers in
bfloat16 outright), channels last, SGD or AdamW, samples on the GPU already.

Prints one JSON line: the median step, samples or tokens a second, the peak.
Each call measures one case: what one left behind would slow the next."""
import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

LLAMA = {"llama2-7b": (32, 4096, 32, 11008), "llama2-13b": (40, 5120, 40, 13824)}


# ---- networks ---------------------------------------------------------------
class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        out = 4 * width
        self.f = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = nn.Identity() if inside == out and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu_(self.f(x) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                                  nn.ReLU(True), nn.MaxPool2d(3, 2, 1))
        blocks, inside = [], 64
        for k, (width, n) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            for i in range(n):
                blocks.append(Bottleneck(inside, width, 2 if k and not i else 1))
                inside = 4 * width
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x, run):
        x = self.stem(x)
        for b in self.blocks:
            x = run(b, x)
        return self.fc(x.mean((2, 3)))


class Twice(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(True),
                         nn.Conv2d(b, b, 3, padding=1), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, base=64):
        super().__init__()
        f = [base << i for i in range(5)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([1] + f, f))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in f[:4])
        self.join = nn.ModuleList(Twice(2 * c, c) for c in f[:4])
        self.out = nn.Conv2d(base, 2, 1)

    def forward(self, x, run):
        skips = []
        for i, d in enumerate(self.down):
            x = run(d, F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in (3, 2, 1, 0):
            x = run(self.join[i], torch.cat([skips[i], self.up[i](x)], 1))
        return self.out(x)


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, ffn):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
        self.gate, self.upward = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
        self.downward = nn.Linear(ffn, hidden, bias=False)

    def turn(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x, cos, sin):
        n, t, h = x.shape
        y = self.n1(x)
        q, k, v = (f(y).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(self.turn(q, cos, sin), self.turn(k, cos, sin), v,
                                           is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(n, t, h))
        y = self.n2(x)
        return x + self.downward(F.silu(self.gate(y)) * self.upward(y))


class Llama(nn.Module):
    def __init__(self, layers, hidden, heads, ffn, vocab=32000):
        super().__init__()
        self.size = hidden // heads
        self.tokens = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, ffn) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids, run):
        at = torch.arange(ids.shape[1], device=ids.device)[:, None]
        angle = at * 10000.0 ** -(torch.arange(0, self.size, 2, device=ids.device) / self.size)
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        x = self.tokens(ids)
        for b in self.blocks:
            x = run(b, x, cos, sin)
        return self.head(self.norm(x))


# ---- steps --------------------------------------------------------------------
class HostAdamW:
    """float32 masters and moments in the host's memory; AdamW of PyTorch there."""

    def __init__(self, params):
        self.params = list(params)
        self.master = [p.detach().float().cpu() for p in self.params]
        self.optim = torch.optim.AdamW(self.master, lr=1e-4, fused=True)

    def step(self):
        for m, p in zip(self.master, self.params):
            m.grad = p.grad.to("cpu").float()
            p.grad = None
        self.optim.step()
        for m, p in zip(self.master, self.params):
            m.grad = None
            p.data.copy_(m.bfloat16(), non_blocking=True)


def case(args):
    """The network, a batch, the loss of it, units of a batch."""
    name, _, size = args.network.partition(":")
    if name in LLAMA:
        with torch.device("cuda"):
            torch.set_default_dtype(torch.bfloat16)
            net = Llama(*LLAMA[name])
            torch.set_default_dtype(torch.float32)
        ids = torch.randint(0, 32000, (args.batch, int(size) + 1), device="cuda")

        def loss(run):
            y = net(ids[:, :-1], run)
            return F.cross_entropy(y.flatten(0, 1).float(), ids[:, 1:].flatten())
        return net, loss, args.batch * int(size)
    net = (ResNet50() if name == "resnet50" else UNet()).cuda().to(memory_format=torch.channels_last)
    n = int(size or 224)
    x = torch.randn(args.batch, 3 if name == "resnet50" else 1, n, n, device="cuda")
    x = x.to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (args.batch,), device="cuda") if name == "resnet50" \
        else torch.randint(0, 2, (args.batch, n, n), device="cuda")

    def loss(run):
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(net(x, run).float(), y)
    return net, loss, args.batch


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("network")
    ap.add_argument("method", choices=["core", "checkpoint", "save_on_cpu", "checkpoint-host"])
    ap.add_argument("batch", type=int)
    ap.add_argument("--memory", type=float)
    ap.add_argument("--steps", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    if args.memory:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.memory * 2**30 / whole)
    torch.cuda.init()
    net, loss, units = case(args)
    again = args.method.startswith("checkpoint")
    words = args.network.startswith("llama")

    def run(block, *x):
        return checkpoint(block, *x, use_reentrant=False) if again else block(*x)

    if args.method == "checkpoint-host":
        optim = HostAdamW(net.parameters())
    elif words:
        optim = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    else:
        optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=True)
    hooks = torch.autograd.graph.save_on_cpu(pin_memory=True) if args.method == "save_on_cpu" \
        else contextlib.nullcontext()
    times = []
    out = {"network": args.network, "method": args.method, "batch": args.batch}
    try:
        for _ in range(args.steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            with hooks:
                x = loss(run)
            x.backward()
            optim.step()
            if args.method != "checkpoint-host":
                optim.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    except torch.OutOfMemoryError as e:
        out["error"] = "out of memory: " + str(e)[:120]
    if len(times) > 1:
        out["step_s"] = statistics.median(times[1:])
        out["per_s"] = units / out["step_s"]
    out["peak_bytes"] = torch.cuda.max_memory_reserved()
    print(json.dumps(out))


main()
