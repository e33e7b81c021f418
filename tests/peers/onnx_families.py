#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""onnx_families.py PARADL: Llama and BERT, written as their authors' modules
are (norms by hand, rotated halves, repeated keys, masks that are added) and
exported by PyTorch, are the families that they are: every strategy costs what it
costs of the zoo's network, to 1e-9."""
import json
import logging
import math
import subprocess
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
T = 16


class Rms(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(h))

    def forward(self, x):
        x = x.to(torch.float32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5))


def attend(q, k, v, mask):
    w = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask
    y = F.softmax(w, -1, dtype=torch.float32) @ v
    return y.transpose(1, 2).reshape(1, T, -1)


def heads(x, n):
    return x.view(1, T, n, -1).transpose(1, 2)


def turn(x, cos, sin):
    a, b = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return x * cos + torch.cat((-b, a), -1) * sin


def repeat(x, n):
    if n == 1:
        return x
    b, k, t, d = x.shape
    return x[:, :, None].expand(b, k, n, t, d).reshape(b, k * n, t, d)


class LlamaBlock(nn.Module):
    def __init__(self, h, n, k, f):
        super().__init__()
        self.n, self.k = n, k
        self.first, self.second = Rms(h), Rms(h)
        linear = lambda x, y: nn.Linear(x, y, bias=False)
        self.q, self.o = linear(h, h), linear(h, h)
        self.key, self.v = linear(h, h // n * k), linear(h, h // n * k)
        self.gate, self.up, self.down = linear(h, f), linear(h, f), linear(f, h)

    def forward(self, x, cos, sin, mask):
        y = self.first(x)
        q = turn(heads(self.q(y), self.n), cos, sin)
        k = repeat(turn(heads(self.key(y), self.k), cos, sin), self.n // self.k)
        v = repeat(heads(self.v(y), self.k), self.n // self.k)
        x = x + self.o(attend(q, k, v, mask))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, h, n, k, f, vocab, stored_mask):
        super().__init__()
        self.embed = nn.Embedding(vocab, h)
        self.blocks = nn.ModuleList(LlamaBlock(h, n, k, f)
                                    for _ in range(layers))
        self.norm, self.head = Rms(h), nn.Linear(h, vocab, bias=False)
        d = h // n
        self.register_buffer("rate", 1e4 ** -(torch.arange(0, d, 2) / d))
        self.register_buffer("mask", torch.full((1, 1, T, T), -1e9).triu(1)
                             if stored_mask else None)

    def forward(self, ids):
        at = torch.arange(T).float()[:, None] * self.rate[None]
        at = torch.cat((at, at), -1)
        mask = self.mask
        if mask is None:
            mask = torch.full((T, T), -1e9).triu(1)[None, None]
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x, at.cos(), at.sin(), mask)
        return self.head(self.norm(x))


class BertBlock(nn.Module):
    def __init__(self, h, n, f):
        super().__init__()
        self.n = n
        self.q, self.k, self.v, self.o = (nn.Linear(h, h) for _ in range(4))
        self.up, self.down = nn.Linear(h, f), nn.Linear(f, h)
        self.first, self.second = nn.LayerNorm(h), nn.LayerNorm(h)

    def forward(self, x, mask):
        y = attend(heads(self.q(x), self.n), heads(self.k(x), self.n),
                   heads(self.v(x), self.n), mask)
        x = self.first(self.o(y) + x)
        return self.second(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self, layers, h, n, f, vocab, rows, end):
        super().__init__()
        self.words, self.types = nn.Embedding(vocab, h), nn.Embedding(2, h)
        self.places, self.norm = nn.Embedding(rows, h), nn.LayerNorm(h)
        self.blocks = nn.ModuleList(BertBlock(h, n, f) for _ in range(layers))
        self.end, self.pool = end, nn.Linear(h, h)
        if end == "head":
            self.last, self.out = nn.LayerNorm(h), nn.Linear(h, vocab)
        elif end == "classes":
            self.out = nn.Linear(h, 3)

    def forward(self, ids, seen, types):
        mask = (1 - seen[:, None, None].float()) * -1e9
        x = self.norm(self.words(ids) + self.types(types) +
                      self.places(torch.arange(T)[None]))
        for b in self.blocks:
            x = b(x, mask)
        if self.end == "head":
            return self.out(self.last(F.gelu(self.pool(x))))
        x = torch.tanh(self.pool(x[:, 0]))
        return self.out(x) if self.end == "classes" else x


def nets():
    """name, module, number of inputs, the same of the zoo, opsets"""
    for k in 2, 4:
        zoo = (f"llama:layers=2,hidden=64,heads=4,kv_heads={k},ffn=128,gated=1,"
               f"vocab=96,seq={T},tied=0")
        yield f"llama {k}", Llama(2, 64, 4, k, 128, 96, False), 1, zoo, (14, 16)
        yield f"llama {k}", Llama(2, 64, 4, k, 128, 96, True), 1, zoo, (11,)
    for end, more in (("", ""), ("head", ",head=1,tied=0"),
                      ("classes", ",classes=3")):
        yield ("bert " + end, Bert(2, 64, 4, 256, 96, 32, end), 3,
               f"bert:layers=2,hidden=64,heads=4,ffn=256,vocab=96,seq={T},"
               f"positions=32,types=2{more}", (11, 14, 16))


def cost(paradl, model, strategy):
    done = subprocess.run(
        [paradl, "project", model, "--system", "dgx-a100", "--batch", "16",
         "--strategy", strategy, "--framework", "megatron", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode > 1:
        return done.stderr.decode()
    x = json.loads(done.stdout)
    return x["step_s"], x["memory"]["peak_bytes"]


def main():
    paradl, bad, files = sys.argv[1], 0, 0
    ids = torch.zeros(1, T, dtype=torch.long)
    with tempfile.TemporaryDirectory() as tmp:
        for name, m, inputs, zoo, opsets in nets():
            torch.manual_seed(0)  # equal tensors would be merged
            for p in m.parameters():
                nn.init.normal_(p)
            for opset in opsets:
                file = f"{tmp}/{name.replace(' ', '_')}_{opset}.onnx"
                torch.onnx.export(
                    m.eval(), (ids, torch.ones_like(ids), ids)[:inputs], file,
                    opset_version=opset, do_constant_folding=opset != 16)
                files += 1
                for s in ("data=2,tensor=2+seq,zero=1", "tensor=4",
                          "data=2,context=2", "pipe=2(m=4),data=2"):
                    want, got = cost(paradl, zoo, s), cost(paradl, file, s)
                    if isinstance(want, str) or isinstance(got, str):
                        same = want == got
                    else:
                        same = all(abs(a / b - 1) < 1e-9
                                   for a, b in zip(got, want))
                    if not same:
                        print(f"{name}, opset {opset}, {s}: {got}, not {want}")
                        bad += 1
    print(f"onnx_families: {files} files")
    return 1 if bad or files < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
