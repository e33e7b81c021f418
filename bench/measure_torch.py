#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times layers and whole training steps with PyTorch on one GPU.

What it writes is read by 'paradl validate --measured': layers (paradl.layers/1)
and steps (paradl.runs/1). The shapes are of networks that no parameter of a
system was fitted to, so that the error it shows is one to expect.

    python3 bench/measure_torch.py layers layers.json
    python3 bench/measure_torch.py steps steps.json [--system NAME]

A layer is timed by events around one call, as a framework issues it (median of
7); a step by events around forward, backward and update (median of 15).
"""
import argparse
import json
import statistics
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

GPU = torch.device("cuda")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def timed(call, repeat=7, warm=4):
    for _ in range(warm):
        call()
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        a, b = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e-3)
    return statistics.median(times)


# ---- layers ----------------------------------------------------------------
# network, batch, channels, filters, height, width, kernel, stride, pad
CONVOLUTIONS = [
    ("wrn-28-10", 128, 16, 160, 32, 32, 3, 1, 1),
    ("wrn-28-10", 128, 160, 160, 32, 32, 3, 1, 1),
    ("wrn-28-10", 128, 160, 320, 32, 32, 3, 2, 1),
    ("wrn-28-10", 128, 320, 320, 16, 16, 3, 1, 1),
    ("wrn-28-10", 128, 640, 640, 8, 8, 3, 1, 1),
    ("wrn-28-10", 128, 320, 640, 16, 16, 1, 2, 0),
    ("resnet34", 64, 64, 64, 56, 56, 3, 1, 1),
    ("resnet34", 64, 128, 128, 28, 28, 3, 1, 1),
    ("resnet34", 64, 128, 256, 28, 28, 3, 2, 1),
    ("resnet34", 64, 512, 512, 7, 7, 3, 1, 1),
    ("densenet121", 48, 256, 128, 28, 28, 1, 1, 0),
    ("densenet121", 48, 128, 32, 28, 28, 3, 1, 1),
    ("densenet121", 48, 512, 256, 28, 28, 1, 1, 0),
    ("densenet121", 48, 640, 128, 14, 14, 1, 1, 0),
    ("densenet121", 48, 128, 32, 14, 14, 3, 1, 1),
    ("densenet121", 48, 992, 128, 7, 7, 1, 1, 0),
    ("unet", 4, 64, 64, 568, 568, 3, 1, 0),
    ("unet", 4, 128, 128, 280, 280, 3, 1, 0),
    ("unet", 4, 256, 512, 66, 66, 3, 1, 0),
    ("unet", 4, 1024, 512, 56, 56, 3, 1, 0),
    ("alexnet", 128, 3, 64, 224, 224, 11, 4, 2),
    ("alexnet", 128, 64, 192, 27, 27, 5, 1, 2),
    ("alexnet", 128, 384, 256, 13, 13, 3, 1, 1),
    ("deepcam", 2, 256, 256, 192, 288, 3, 1, 1),
    ("deepcam", 2, 728, 728, 48, 72, 1, 1, 0),
]


def split_shapes(shape):
    """The whole layer, and its parts by two and eight, halo rows included."""
    name, n, c, f, h, w, k, s, p = shape
    yield "none", 1, (n, c, f, h, w)
    for parts in (2, 8):
        if n % parts == 0:
            yield "data", parts, (n // parts, c, f, h, w)
        if f % parts == 0:
            yield "filter", parts, (n, c, f // parts, h, w)
        if c % parts == 0:
            yield "channel", parts, (n, c // parts, f, h, w)
        if h % parts == 0 and h // parts >= k:
            yield "spatial", parts, (n, c, f, h // parts + 2 * (k // 2), w)


def measure_conv(n, c, f, h, w, k, s, p, dtype):
    t = dict(device=GPU, dtype=dtype)
    cl = torch.channels_last
    x = torch.randn(n, c, h, w, **t).to(memory_format=cl)
    wt = torch.randn(f, c, k, k, **t).to(memory_format=cl)
    y = F.conv2d(x, wt, None, s, p)
    g = torch.randn_like(y)

    def back(mask):
        return torch.ops.aten.convolution_backward(
            g, x, wt, None, [s, s], [p, p], [1, 1], False, [0, 0], 1, mask)

    return {"forward_s": timed(lambda: F.conv2d(x, wt, None, s, p)),
            "backward_data_s": timed(lambda: back([True, False, False])),
            "backward_weights_s": timed(lambda: back([False, True, False]))}


def measure_module(module, x):
    y = module(x)
    g = torch.randn_like(y)
    x.requires_grad_(True)
    forward = timed(lambda: module(x))
    y = module(x)
    back = timed(lambda: torch.autograd.grad(y, x, g, retain_graph=True))
    return {"forward_s": forward, "backward_data_s": back}


def rows_conv():
    seen = set()
    for shape in CONVOLUTIONS:
        name, _, _, _, _, _, k, s, p = shape
        for split, parts, (n, c, f, h, w) in split_shapes(shape):
            for dtype, torch_dtype in DTYPES.items():
                key = (n, c, f, h, w, k, s, p, dtype)
                if key in seen:
                    continue
                seen.add(key)
                row = dict(model=name, op="conv", n=n, c=c, f=f, h=h, w=w, k=k,
                           stride=s, pad=p, dtype=dtype, split=split,
                           parts=parts)
                row.update(measure_conv(n, c, f, h, w, k, s, p, torch_dtype))
                yield row


def rows_norms():
    for n, c, h in ((64, 96, 56), (48, 256, 28), (128, 160, 32), (64, 512, 14)):
        for dtype, t in DTYPES.items():
            x = torch.randn(n, c, h, h, device=GPU, dtype=t).to(
                memory_format=torch.channels_last)
            size = dict(n=n, c=c, h=h, dtype=dtype)
            norm = nn.BatchNorm2d(c).to(GPU)
            yield dict(op="batch_norm", **size, **measure_module(norm, x))
            x = x.detach()
            yield dict(op="relu", **size, **measure_module(F.relu, x))
            x = x.detach()
            z = torch.randn_like(x)
            yield dict(op="add", **size, forward_s=timed(lambda: x + z))
    for rows, e in ((4096, 1280), (16384, 1600), (8192, 3072), (2048, 5120)):
        for dtype, t in DTYPES.items():
            size = dict(rows=rows, e=e, dtype=dtype)
            x = torch.randn(rows, e, device=GPU, dtype=t)
            norm = nn.LayerNorm(e).to(GPU, t)
            yield dict(op="layer_norm", **size, **measure_module(norm, x))
            yield dict(op="gelu", **size, **measure_module(F.gelu, x.detach()))


def rows_products():
    t = dict(device=GPU, dtype=torch.bfloat16)
    for rows in (1024, 4096, 16384):
        for e in (1280, 2048, 5120):
            for out, inner in ((3 * e, e), (e, e), (4 * e, e), (e, 4 * e),
                               (4 * e // 8, e), (e, 4 * e // 8)):
                a = torch.randn(rows, inner, **t)
                b = torch.randn(out, inner, **t)
                yield dict(op="gemm", m=rows, n=out, k=inner, dtype="bfloat16",
                           forward_s=timed(lambda: a @ b.T))
    for b, heads, n, d in ((4, 20, 1024, 64), (2, 16, 2048, 128),
                           (1, 40, 4096, 128), (16, 12, 512, 64),
                           (1, 8, 8192, 128), (8, 25, 1024, 64)):
        q = torch.randn(3, b, heads, n, d, **t)

        def attend(x):
            return F.scaled_dot_product_attention(x[0], x[1], x[2],
                                                  is_causal=True)

        q3 = [x.detach().requires_grad_(True) for x in q]
        forward = timed(lambda: attend(q3))
        y = attend(q3)
        g = torch.randn_like(y)
        back = timed(lambda: torch.autograd.grad(y, q3, g, retain_graph=True))
        yield dict(op="sdpa", b=b, heads=heads, t=n, d=d, causal=True,
                   dtype="bfloat16", forward_s=forward, backward_data_s=back)


def layers():
    with torch.no_grad():
        rows = list(rows_conv())
    rows += list(rows_norms())
    rows += list(rows_products())
    return {"schema": "paradl.layers/1",
            "title": f"Layer times on one {torch.cuda.get_device_name()} "
                     f"(PyTorch {torch.__version__}, channels_last, "
                     "cudnn.benchmark, median of 7)",
            "units": "seconds", "records": rows}


# ---- steps -----------------------------------------------------------------
class Bottleneck(nn.Module):
    def __init__(self, c, width, stride, wide):
        super().__init__()
        f = width * (4 if wide else 1)
        sizes = ([(c, width, 1, 1), (width, width, 3, stride), (width, f, 1, 1)]
                 if wide else [(c, width, 3, stride), (width, f, 3, 1)])
        body = []
        for i, (a, b, k, s) in enumerate(sizes):
            body += [nn.Conv2d(a, b, k, s, k // 2, bias=False),
                     nn.BatchNorm2d(b)]
            if i + 1 < len(sizes):
                body.append(nn.ReLU(inplace=True))
        self.body = nn.Sequential(*body)
        self.short = None
        if c != f or stride != 1:
            self.short = nn.Sequential(nn.Conv2d(c, f, 1, stride, bias=False),
                                       nn.BatchNorm2d(f))

    def forward(self, x):
        y = self.body(x)
        return F.relu(y + (x if self.short is None else self.short(x)),
                      inplace=True)


def resnet(blocks, wide):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for i, count in enumerate(blocks):
        for j in range(count):
            layers.append(Bottleneck(c, 64 << i, 2 if i and not j else 1, wide))
            c = (64 << i) * (4 if wide else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(c, 1000))


def vgg16():
    layers, c = [], 3
    for f in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0,
              512, 512, 512, 0):
        if f:
            layers += [nn.Conv2d(c, f, 3, 1, 1), nn.ReLU(inplace=True)]
            c = f
        else:
            layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 49, 4096),
                         nn.ReLU(inplace=True), nn.Dropout(),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True),
                         nn.Dropout(), nn.Linear(4096, 1000))


def alexnet():
    def conv(*a):
        return [nn.Conv2d(*a), nn.ReLU(inplace=True)]
    pool = nn.MaxPool2d(3, 2)
    return nn.Sequential(*conv(3, 64, 11, 4, 2), pool, *conv(64, 192, 5, 1, 2),
                         pool, *conv(192, 384, 3, 1, 1),
                         *conv(384, 256, 3, 1, 1), *conv(256, 256, 3, 1, 1),
                         pool, nn.Flatten(), nn.Dropout(),
                         nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True),
                         nn.Dropout(), nn.Linear(4096, 4096),
                         nn.ReLU(inplace=True), nn.Linear(4096, 1000))


class Dense(nn.Module):
    def __init__(self, c, growth):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(c), nn.ReLU(inplace=True),
            nn.Conv2d(c, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat((x, self.body(x)), 1)


def densenet121(growth=32):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for i, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            layers.append(Dense(c, growth))
            c += growth
        if i < 3:
            layers += [nn.BatchNorm2d(c), nn.ReLU(inplace=True),
                       nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)]
            c //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(c), nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(c, 1000))


class Inverted(nn.Module):
    def __init__(self, c, f, stride, expand):
        super().__init__()
        e = c * expand

        def conv(a, b, k, s=1, groups=1):
            return [nn.Conv2d(a, b, k, s, k // 2, groups=groups, bias=False),
                    nn.BatchNorm2d(b)]
        relu = nn.ReLU6(inplace=True)
        self.same = stride == 1 and c == f
        self.body = nn.Sequential(
            *(conv(c, e, 1) + [relu] if expand > 1 else []),
            *conv(e, e, 3, stride, e), relu, *conv(e, f, 1))

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v2():
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32),
              nn.ReLU6(inplace=True)]
    c = 32
    for t, f, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                       (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):
        for i in range(n):
            layers.append(Inverted(c, f, s if i == 0 else 1, t))
            c = f
    return nn.Sequential(*layers, nn.Conv2d(c, 1280, 1, bias=False),
                         nn.BatchNorm2d(1280), nn.ReLU6(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(),
                         nn.Linear(1280, 1000))


def cosmoflow():
    layers, c = [], 4
    for f in (32, 64, 128, 256, 512):
        layers += [nn.ConstantPad3d((0, 1, 0, 1, 0, 1), 0), nn.Conv3d(c, f, 2),
                   nn.LeakyReLU(), nn.MaxPool3d(2)]
        c = f
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32768, 128),
                         nn.LeakyReLU(), nn.Dropout(), nn.Linear(128, 64),
                         nn.LeakyReLU(), nn.Dropout(), nn.Linear(64, 4),
                         nn.Tanh())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def pair(c, f):
            return nn.Sequential(nn.Conv2d(c, f, 3), nn.ReLU(inplace=True),
                                 nn.Conv2d(f, f, 3), nn.ReLU(inplace=True))
        sizes = (1, 64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(pair(*x) for x in zip(sizes, sizes[1:]))
        self.turn = nn.ModuleList(nn.ConvTranspose2d(2 * f, f, 2, 2)
                                  for f in (512, 256, 128, 64))
        self.up = nn.ModuleList(pair(2 * f, f) for f in (512, 256, 128, 64))
        self.head = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        kept = []
        for i, d in enumerate(self.down):
            x = d(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i, (t, u) in enumerate(zip(self.turn, self.up)):
            x = t(x)
            y = kept[3 - i]
            cut = (y.shape[2] - x.shape[2]) // 2
            x = u(torch.cat((y[:, :, cut:cut + x.shape[2],
                               cut:cut + x.shape[3]], x), 1))
        return self.head(x)


class Encoder(nn.Module):
    """BERT (tokens, norm after the sum) and ViT (patches, norm before)."""

    def __init__(self, layers, e, heads, vocab=0, seq=0, patch=0):
        super().__init__()
        self.patch = nn.Conv2d(3, e, patch, patch) if patch else None
        if patch:
            seq = (224 // patch) ** 2 + 1
            self.token = nn.Parameter(torch.zeros(1, 1, e))
        else:
            self.embed, self.kind = nn.Embedding(vocab, e), nn.Embedding(2, e)
            self.norm0 = nn.LayerNorm(e)
        self.pos = nn.Parameter(torch.zeros(1, seq, e))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(
            e, heads, 4 * e, 0.0, "gelu", batch_first=True,
            norm_first=bool(patch)) for _ in range(layers))
        self.norm = nn.LayerNorm(e) if patch else None
        self.head = nn.Linear(e, 1000 if patch else e)

    def forward(self, x):
        if self.patch:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.pos
        else:
            x = self.norm0(self.embed(x) + self.kind(torch.zeros_like(x))
                           + self.pos)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)[:, 0] if self.patch else x[:, 0]
        return self.head(x) if self.patch else self.head(x).tanh()


class Block(nn.Module):
    def __init__(self, e, heads, ffn, llama):
        super().__init__()
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.heads, self.llama = heads, llama
        self.n1, self.n2 = norm(e), norm(e)
        self.qkv = nn.Linear(e, 3 * e, bias=not llama)
        self.out = nn.Linear(e, e, bias=not llama)
        self.up = nn.Linear(e, ffn, bias=not llama)
        self.gate = nn.Linear(e, ffn, bias=False) if llama else None
        self.down = nn.Linear(ffn, e, bias=not llama)

    def forward(self, x, rotary):
        b, t, e = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(
            2, 0, 3, 1, 4)
        if rotary is not None:
            cos, sin = rotary

            def turn(z):
                a, c = z.chunk(2, -1)
                return z * cos + torch.cat((-c, a), -1) * sin
            q, k = turn(q), turn(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, e))
        h = self.n2(x)
        h = F.silu(self.gate(h)) * self.up(h) if self.llama else F.gelu(
            self.up(h))
        return x + self.down(h)


class Decoder(nn.Module):
    def __init__(self, layers, e, heads, ffn, vocab, seq, llama):
        super().__init__()
        self.embed = nn.Embedding(vocab, e)
        self.pos = None if llama else nn.Embedding(seq, e)
        self.blocks = nn.ModuleList(Block(e, heads, ffn, llama)
                                    for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(e)
        self.head = nn.Linear(e, vocab, bias=False)
        if not llama:
            self.head.weight = self.embed.weight
        self.dim = e // heads

    def rotary(self, t, dtype):
        f = 1e4 ** (-torch.arange(0, self.dim, 2, device=GPU) / self.dim)
        a = torch.outer(torch.arange(t, device=GPU), f).repeat(1, 2)
        return a.cos().to(dtype), a.sin().to(dtype)

    def forward(self, x):
        t = x.shape[1]
        h = self.embed(x)
        rotary = None
        if self.pos is None:
            rotary = self.rotary(t, torch.bfloat16)
        else:
            h = h + self.pos(torch.arange(t, device=GPU))
        for block in self.blocks:
            h = block(h, rotary)
        return self.head(self.norm(h))


CNNS = {
    "resnet18": lambda: resnet((2, 2, 2, 2), False),
    "resnet34": lambda: resnet((3, 4, 6, 3), False),
    "resnet50": lambda: resnet((3, 4, 6, 3), True),
    "resnet101": lambda: resnet((3, 4, 23, 3), True),
    "resnet152": lambda: resnet((3, 8, 36, 3), True),
    "vgg16": vgg16,
    "alexnet": alexnet,
}
# layers, width, heads, ffn, vocabulary, sequence, llama, batch
DECODERS = [
    (12, 768, 12, 3072, 50304, 1024, False, 16),
    (12, 768, 12, 3072, 50304, 1024, False, 4),
    (24, 1024, 16, 4096, 50304, 1024, False, 8),
    (36, 1280, 20, 5120, 50304, 1024, False, 8),
    (48, 1600, 25, 6400, 50304, 1024, False, 8),
    (24, 2048, 16, 8192, 51200, 2048, False, 4),
    (16, 2048, 16, 8192, 32000, 2048, True, 8),
    (16, 2048, 16, 8192, 32000, 8192, True, 2),
    (32, 2560, 20, 6912, 32000, 4096, True, 2),
    (24, 4096, 32, 11008, 32000, 2048, True, 2),
]


def measure_step(model, x, y, optimizer, autocast):
    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            out = model(x)
            if y.shape[1:] != out.shape[2:]: # tokens
                out = out.view(-1, out.shape[-1])
            loss = F.cross_entropy(out, y.view(-1) if out.dim() == 2 else y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(4):
        step()
    torch.cuda.reset_peak_memory_stats()
    seconds = timed(step, 15, 2)
    return {"step_s": seconds,
            "allocated_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def cnn_steps():
    for name, make in CNNS.items():
        for precision, batch in (("tf32", 64), ("bf16", 64), ("bf16", 256)):
            model = make().to(GPU, memory_format=torch.channels_last)
            sgd = torch.optim.SGD(model.parameters(), 1e-3, 0.9)
            x = torch.randn(batch, 3, 224, 224, device=GPU).to(
                memory_format=torch.channels_last)
            y = torch.randint(1000, (batch,), device=GPU)
            yield (name, batch, precision, "sgd",
                   measure_step(model, x, y, sgd, precision == "bf16"))


def decoder_steps():
    for layers, e, heads, ffn, vocab, seq, llama, batch in DECODERS:
        model = Decoder(layers, e, heads, ffn, vocab, seq, llama).to(GPU)
        adam = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
        x = torch.randint(vocab, (batch, seq), device=GPU)
        name = (f"{'llama' if llama else 'gpt'}:layers={layers},hidden={e},"
                f"heads={heads},ffn={ffn},vocab={vocab},seq={seq}"
                + (",gated=1" if llama else ""))
        yield name, batch, "bf16", "adam", measure_step(model, x, x, adam, True)


# name, network, input, batch
FAMILIES = [
    ("densenet121", densenet121, (3, 224, 224), 64),
    ("densenet121", densenet121, (3, 224, 224), 256),
    ("mobilenet-v2", mobilenet_v2, (3, 224, 224), 256),
    ("cosmoflow-mlperf", cosmoflow, (4, 128, 128, 128), 8),
    ("cosmoflow-mlperf", cosmoflow, (4, 128, 128, 128), 32),
    ("unet", UNet, (1, 572, 572), 4),
    ("vit-b16", lambda: Encoder(12, 768, 12, patch=16), (3, 224, 224), 64),
    ("vit-b16", lambda: Encoder(12, 768, 12, patch=16), (3, 224, 224), 256),
    ("vit-l16", lambda: Encoder(24, 1024, 16, patch=16), (3, 224, 224), 64),
    ("bert-base", lambda: Encoder(12, 768, 12, 30522, 512), None, 32),
    ("bert-large", lambda: Encoder(24, 1024, 16, 30522, 512), None, 16),
    ("bert-large", lambda: Encoder(24, 1024, 16, 30522, 512), None, 64),
]


def family_steps():
    for name, make, shape, batch in FAMILIES:
        for precision in ("tf32", "bf16"):
            model = make().to(GPU)
            if shape and len(shape) == 3:
                model = model.to(memory_format=torch.channels_last)
            tokens = shape is None
            optimizer = (torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
                         if tokens or "vit" in name else
                         torch.optim.SGD(model.parameters(), 1e-3, 0.9))
            x = (torch.randint(30522, (batch, 512), device=GPU) if tokens else
                 torch.randn(batch, *shape, device=GPU))
            if shape and len(shape) == 3:
                x = x.to(memory_format=torch.channels_last)
            with torch.no_grad():
                out = model(x)
            classes = out.shape[1]
            y = torch.randint(classes, (out.numel() // classes,), device=GPU)
            if out.dim() == 4:
                y = y.view(batch, *out.shape[2:])
            del out
            yield (name, batch, precision,
                   "adam" if tokens or "vit" in name else "sgd",
                   measure_step(model, x, y, optimizer, precision == "bf16"))


def steps(system, only):
    runs = []
    for make in (cnn_steps, decoder_steps, family_steps):
        if only and not make.__name__.startswith(only):
            continue
        for name, batch, precision, optimizer, measured in make():
            torch.cuda.empty_cache()
            runs.append({"id": f"torch-{len(runs) + 1:03}", "set": "torch",
                         "model": name, "system": system, "strategy": "data=1",
                         "batch": batch, "precision": precision,
                         "optimizer": optimizer,
                         "options": {"framework": "pytorch-channels-last",
                                     **({"attention": "flash", "dropout": 0}
                                        if optimizer == "adam" else {})},
                         "measured": measured})
            print(name, batch, precision, measured, file=sys.stderr)
    return {"schema": "paradl.runs/1",
            "title": f"Training steps on one {torch.cuda.get_device_name()}, "
                     f"PyTorch {torch.__version__}, eager", "runs": runs}


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("what", choices=("layers", "steps"))
    args.add_argument("out")
    args.add_argument("--system", default="dgx-h200:nodes=1")
    args.add_argument("--only", help="steps: cnn, decoder or family")
    a = args.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    result = layers() if a.what == "layers" else steps(a.system, a.only)
    with open(a.out, "w") as f:
        json.dump(result, f, indent=0)


if __name__ == "__main__":
    main()
