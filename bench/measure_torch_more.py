#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times networks and layers of further families with PyTorch on one GPU.

A third test of the oracle beside those of measure_torch.py: networks are
numbered in the order of the list below; those with an even number may be looked
at to mend the model, those with an odd one are read once, when that is done.
The same holds for layers.

    measure_torch_more.py steps OUT_DIR      even.json and odd.json
    measure_torch_more.py layers OUT_DIR     the same of layers
    measure_torch_more.py profile OUT_DIR    kernels of even networks
    measure_torch_more.py export OUT_DIR     ONNX files without weights

Needs torchvision; T5 and the mixture of experts need transformers. A section
stops at --limit seconds; what is left out is said.
"""
import argparse
import collections
import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from measure_torch import (GPU, CNNS, DTYPES, Block, Decoder, Encoder, UNet,
                           measure_step, mobilenet_v2, timed)

IMAGE = (3, 224, 224)


# ---- networks --------------------------------------------------------------
class Wide(nn.Module):
    def __init__(self, c, f, stride):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(c), nn.BatchNorm2d(f)
        self.conv1 = nn.Conv2d(c, f, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(f, f, 3, 1, 1, bias=False)
        self.short = (nn.Conv2d(c, f, 1, stride, bias=False) if c != f
                      else None)

    def forward(self, x):
        y = F.relu(self.bn1(x), inplace=True)
        z = self.conv2(F.relu(self.bn2(self.conv1(y)), inplace=True))
        return z + (x if self.short is None else self.short(y))


def wrn_28_10():
    layers, c = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)], 16
    for i, f in enumerate((160, 320, 640)):
        for j in range(4):
            layers.append(Wide(c, f, 2 if i and not j else 1))
            c = f
    return nn.Sequential(*layers, nn.BatchNorm2d(c), nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(c, 10))


class UNet3d(nn.Module):
    """Convolutions with bias, batch normalisation, valid borders."""

    def __init__(self):
        super().__init__()

        def pair(c, f, g):
            return nn.Sequential(nn.Conv3d(c, f, 3), nn.BatchNorm3d(f),
                                 nn.ReLU(inplace=True), nn.Conv3d(f, g, 3),
                                 nn.BatchNorm3d(g), nn.ReLU(inplace=True))
        self.down = nn.ModuleList((pair(3, 32, 64), pair(64, 64, 128),
                                   pair(128, 128, 256), pair(256, 256, 512)))
        self.turn = nn.ModuleList(nn.ConvTranspose3d(f, f, 2, 2, bias=False)
                                  for f in (512, 256, 128))
        self.up = nn.ModuleList((pair(768, 256, 256), pair(384, 128, 128),
                                 pair(192, 64, 64)))
        self.head = nn.Conv3d(64, 3, 1)

    def forward(self, x):
        kept = []
        for i, d in enumerate(self.down):
            x = d(F.max_pool3d(x, 2) if i else x)
            kept.append(x)
        for i, (t, u) in enumerate(zip(self.turn, self.up)):
            x, y = t(x), kept[2 - i]
            for d in (2, 3, 4):
                y = y.narrow(d, (y.shape[d] - x.shape[d]) // 2, x.shape[d])
            x = u(torch.cat((y, x), 1))
        return self.head(x)


class Grouped(Block):
    """Llama's block with fewer heads of keys and values."""

    def __init__(self, e, heads, kv, ffn):
        super().__init__(e, heads, ffn, True)
        self.kv, self.dim = kv, e // heads
        self.qkv = nn.Linear(e, e + 2 * kv * self.dim, bias=False)

    def forward(self, x, rotary):
        b, t, e = x.shape
        kv = self.kv * self.dim
        q, k, v = self.qkv(self.n1(x)).split((e, kv, kv), -1)
        q, k, v = (z.view(b, t, -1, self.dim).transpose(1, 2)
                   for z in (q, k, v))
        cos, sin = rotary

        def turn(z):
            a, c = z.chunk(2, -1)
            return z * cos + torch.cat((-c, a), -1) * sin
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True,
                                           enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, e))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def llama_1b():
    model = Decoder(1, 2048, 32, 8192, 128256, 2048, True)
    model.blocks = nn.ModuleList(Grouped(2048, 32, 8, 8192) for _ in range(16))
    model.head.weight = model.embed.weight
    return model


def tv(name, **more):
    def make():
        import torchvision
        find = (torchvision.models.video if name == "r3d_18"
                else torchvision.models)
        return getattr(find, name)(weights=None, **more)
    return make


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import T5Config, T5ForConditionalGeneration
        self.net = T5ForConditionalGeneration(T5Config(
            d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12,
            dropout_rate=0.0))

    def forward(self, x):
        return self.net(input_ids=x, decoder_input_ids=x,
                        use_cache=False).logits


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import MixtralConfig, MixtralForCausalLM
        self.net = MixtralForCausalLM(MixtralConfig(
            hidden_size=1024, num_hidden_layers=8, num_attention_heads=16,
            num_key_value_heads=8, intermediate_size=3584, vocab_size=32000,
            num_local_experts=8, num_experts_per_tok=2,
            attn_implementation="sdpa"))

    def forward(self, x):
        return self.net(input_ids=x, use_cache=False).logits


def gpt(layers, e, heads, seq=1024):
    return lambda: Decoder(layers, e, heads, 4 * e, 50304, seq, False)


def gpt_name(layers, e, heads, seq=1024):
    return (f"gpt:layers={layers},hidden={e},heads={heads},ffn={4 * e},"
            f"vocab=50304,seq={seq}")


LLAMA_1B = ("llama:layers=16,hidden=2048,heads=32,kv_heads=8,ffn=8192,"
            "vocab=128256,seq=2048,gated=1,tied=1")
MIXTURE = ("moe:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=3584,vocab=32000,"
           "seq=1024,experts=8,topk=2")
TV = "torchvision/"  # as exported; the others are networks of the zoo
BOTH = (("tf32", 128), ("bf16", 128))

# name, network, input (tokens: vocabulary and length), (precision, batch)...,
# and how it is run
Network = collections.namedtuple("Network", "name make shape runs how",
                                 defaults=("",))
NETWORKS = [
    Network("efficientnet-b0", tv("efficientnet_b0"), IMAGE,
            BOTH + (("bf16", 32),)),
    Network("densenet169", tv("densenet169"), IMAGE, BOTH),
    Network(TV + "resnext50_32x4d", tv("resnext50_32x4d"), IMAGE, BOTH),
    Network(TV + "regnet_y_1_6gf", tv("regnet_y_1_6gf"), IMAGE, BOTH),
    Network(TV + "convnext_tiny", tv("convnext_tiny"), IMAGE, BOTH),
    Network(TV + "mobilenet_v3_large", tv("mobilenet_v3_large"), IMAGE,
            BOTH + (("bf16", 512),)),
    Network("densenet121", tv("densenet121"), IMAGE, BOTH + (("bf16", 32),)),
    Network("vgg19", tv("vgg19"), IMAGE, BOTH + (("bf16", 32),)),
    Network("wrn-28-10", wrn_28_10, (3, 32, 32), (("tf32", 128), ("bf16", 128),
                                                 ("bf16", 512))),
    Network(TV + "efficientnet_b3", tv("efficientnet_b3"), (3, 300, 300),
            (("tf32", 64), ("bf16", 64))),
    Network(TV + "googlenet", tv("googlenet", aux_logits=False,
                                 init_weights=False), IMAGE, BOTH),
    Network(TV + "swin_t", tv("swin_t"), IMAGE, BOTH),
    Network("unet3d", UNet3d, (3, 116, 132, 132), (("tf32", 1), ("bf16", 1),
                                                  ("bf16", 2))),
    Network(TV + "r3d_18", tv("r3d_18"), (3, 16, 112, 112),
            (("tf32", 16), ("bf16", 16))),
    Network(gpt_name(24, 1024, 16), gpt(24, 1024, 16), (50304, 1024),
            (("tf32", 8), ("fp32", 4), ("bf16", 2))),
    Network(LLAMA_1B, llama_1b, (128256, 2048), (("bf16", 4), ("tf32", 2))),
    Network("t5-base", T5, (32128, 512), (("tf32", 8), ("bf16", 8),
                                          ("bf16", 32))),
    Network(MIXTURE, Mixture, (32000, 1024), (("bf16", 4), ("bf16", 16))),
    Network("resnet50", CNNS["resnet50"], IMAGE, (("fp32", 64), ("bf16", 128)),
            "nchw"),
    Network("vgg16", CNNS["vgg16"], IMAGE, (("fp32", 32), ("bf16", 64)),
            "nchw"),
    Network("deit-small", lambda: Encoder(12, 384, 6, patch=16), IMAGE,
            (("tf32", 256), ("bf16", 256), ("bf16", 64))),
    Network("bert-base", lambda: Encoder(12, 768, 12, 30522, 512),
            (30522, 512), (("fp32", 8), ("bf16", 8), ("bf16", 128))),
    Network(gpt_name(24, 1024, 16), gpt(24, 1024, 16), (50304, 1024),
            (("bf16", 8), ("bf16", 2)), "compile"),
    Network(LLAMA_1B, llama_1b, (128256, 2048), (("bf16", 4),), "compile"),
    Network("resnet50", CNNS["resnet50"], IMAGE, (("bf16", 128),), "compile"),
]
# Steps of measure_torch.py again, to tell this machine from that one.
AGAIN = [
    Network("resnet50", CNNS["resnet50"], IMAGE, (("bf16", 64), ("tf32", 64))),
    Network("bert-large", lambda: Encoder(24, 1024, 16, 30522, 512),
            (30522, 512), (("bf16", 16),)),
    Network("mobilenet-v2", mobilenet_v2, IMAGE, (("bf16", 256),)),
]
# Networks that measure_torch.py showed to be projected badly.
KNOWN = [
    Network("mobilenet-v2", mobilenet_v2, IMAGE,
            (("bf16", 256), ("tf32", 256))),
    Network("unet", UNet, (1, 572, 572), (("bf16", 4), ("tf32", 4))),
    Network("vit-b16", lambda: Encoder(12, 768, 12, patch=16), IMAGE,
            (("tf32", 64),)),
    Network("bert-base", lambda: Encoder(12, 768, 12, 30522, 512),
            (30522, 512), (("tf32", 32),)),
    Network("alexnet", CNNS["alexnet"], IMAGE, (("bf16", 64), ("bf16", 256))),
    Network("resnet152", CNNS["resnet152"], IMAGE, (("bf16", 64),)),
]


def is_tokens(n):
    return len(n.shape) == 2


def is_adam(n):
    return is_tokens(n) or any(x in n.name for x in ("deit", "vit", "swin",
                                                     "convnext"))


def prepare(n, precision, batch):
    """Model, input, labels, optimizer."""
    tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    model = n.make().to(GPU).train()
    if is_tokens(n):
        x = torch.randint(n.shape[0], (batch, n.shape[1]), device=GPU)
    else:
        x = torch.randn(batch, *n.shape, device=GPU)
    if len(n.shape) == 3 and "nchw" not in n.how:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = (torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
                 if is_adam(n) else
                 torch.optim.SGD(model.parameters(), 1e-3, 0.9))
    with torch.no_grad():
        out = model(x)
    if "compile" in n.how:
        model = torch.compile(model)
    if out.dim() == 3:
        y = torch.randint(out.shape[2], out.shape[:2], device=GPU)
    else:
        y = torch.randint(out.shape[1], (len(out), *out.shape[2:]), device=GPU)
    return model, x, y, optimizer


def run_of(n, precision, batch, system):
    model, x, y, optimizer = prepare(n, precision, batch)
    options = {"framework": "pytorch-channels-last"}
    if is_tokens(n) or "deit" in n.name:
        options.update({"attention": "unfused" if n.name[:2] == "t5"
                        else "flash", "dropout": 0})
    if "compile" in n.how:
        options["compile"] = True
    return {"set": "torch3", "model": n.name, "system": system,
            "strategy": "data=1", "batch": batch, "precision": precision,
            "optimizer": "adam" if is_adam(n) else "sgd", "how": n.how,
            "options": options,
            "measured": measure_step(model, x, y, optimizer,
                                     precision == "bf16")}


def write(path, schema, title, key, rows):
    with open(path, "w") as f:
        json.dump({"schema": schema, "title": title, key: rows}, f, indent=0)


def steps(out, system, left, first):
    runs = {"even": [], "odd": [], "again": []}
    numbered = [("again", n) for n in AGAIN] if first == 0 else []
    numbered += [(("even", "odd")[i % 2], n)
                 for i, n in enumerate(NETWORKS) if i >= first]
    for half, n in numbered:
        for precision, batch in n.runs:
            if left() < 0:
                print("left out", n.name, precision, batch, n.how)
                continue
            try:
                run = run_of(n, precision, batch, system)
            except Exception as e:  # a network more or less; say which
                print("failed", n.name, precision, batch, n.how, repr(e)[:300])
                continue
            finally:
                torch._dynamo.reset()
                torch.cuda.empty_cache()
            run = {"id": f"more-{half}-{len(runs[half]):03}", **run}
            runs[half].append(run)
            if half != "odd":
                print(n.name, precision, batch, n.how, run["measured"])
        for kind, found in runs.items():
            write(os.path.join(out, f"steps_{kind}.json"), "paradl.runs/1",
                  "Training steps on one GPU", "runs", found)


# ---- kernels of a step -----------------------------------------------------
def kernels_of(step):
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    a = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[a.CPU, a.CUDA],
                                record_shapes=True) as p:
        step()
        torch.cuda.synchronize()
    rows = collections.OrderedDict()
    for e in p.events():
        for k in getattr(e, "kernels", ()):
            key = (e.name, str(e.input_shapes)[:160], k.name[:110])
            row = rows.setdefault(key, [0, 0.0])
            row[0] += 1
            row[1] += k.duration
    return [[*key, n, round(us, 1)] for key, (n, us) in rows.items()]


def profile(out, left, only):
    found = []
    for n in KNOWN + NETWORKS[::2]:
        for precision, batch in n.runs[:2]:
            if left() < 0 or n.how or not any(x in n.name for x in only):
                continue
            try:
                model, x, y, optimizer = prepare(n, precision, batch)

                def step():
                    with torch.autocast("cuda", torch.bfloat16,
                                        enabled=precision == "bf16"):
                        z = model(x)
                        if z.dim() == 3:
                            z, t = z.view(-1, z.shape[-1]), y.view(-1)
                        else:
                            t = y
                        if len(n.shape) == 2 and z.dim() == 2:
                            t = t[:len(z)]
                        loss = F.cross_entropy(z, t)
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                found.append({"model": n.name, "precision": precision,
                              "batch": batch, "how": n.how,
                              "kernels": kernels_of(step)})
            except Exception as e:
                print("failed", n.name, precision, repr(e)[:300])
            finally:
                model = x = y = optimizer = None
                torch.cuda.empty_cache()
    with open(os.path.join(out, "profile.json"), "w") as f:
        json.dump(found, f)


# ---- layers ----------------------------------------------------------------
# network, layer, batch, channels, filters, extents, kernel, stride, groups
CONVOLUTIONS = [
    ("resnet50", "res2a_1", 32, 64, 64, (56, 56), 1, 1, 1),
    ("resnet50", "res2a_2", 32, 64, 64, (56, 56), 3, 1, 1),
    ("resnet50", "res2b_1", 32, 256, 64, (56, 56), 1, 1, 1),
    ("resnet50", "res3a_1", 32, 256, 128, (56, 56), 1, 1, 1),
    ("resnet50", "res3a_s", 32, 256, 512, (56, 56), 1, 2, 1),
    ("resnet50", "res3b_2", 32, 128, 128, (28, 28), 3, 1, 1),
    ("resnet50", "res3b_3", 32, 128, 512, (28, 28), 1, 1, 1),
    ("resnet50", "res4a_1", 32, 512, 256, (28, 28), 1, 1, 1),
    ("resnet50", "res4a_s", 32, 512, 1024, (28, 28), 1, 2, 1),
    ("resnet50", "res4b_2", 32, 256, 256, (14, 14), 3, 1, 1),
    ("resnet50", "res4b_3", 32, 256, 1024, (14, 14), 1, 1, 1),
    ("resnet50", "res5a_1", 32, 1024, 512, (14, 14), 1, 1, 1),
    ("resnet50", "res5a_s", 32, 1024, 2048, (14, 14), 1, 2, 1),
    ("resnet50", "res5b_2", 32, 512, 512, (7, 7), 3, 1, 1),
    ("resnet50", "res5b_3", 32, 512, 2048, (7, 7), 1, 1, 1),
    ("vgg16", "conv11", 32, 512, 512, (14, 14), 3, 1, 1),
    ("mobilenet-v2", "dw3-56", 128, 144, 144, (56, 56), 3, 1, 144),
    ("mobilenet-v2", "dw3-14", 128, 576, 576, (14, 14), 3, 1, 576),
    ("efficientnet", "dw5-28", 128, 240, 240, (28, 28), 5, 1, 240),
    ("efficientnet", "dw3s2-112", 128, 96, 96, (112, 112), 3, 2, 96),
    ("convnext", "dw7-56", 128, 96, 96, (56, 56), 7, 1, 96),
    ("convnext", "dw7-14", 128, 384, 384, (14, 14), 7, 1, 384),
    ("resnext50", "g32-56", 64, 128, 128, (56, 56), 3, 1, 32),
    ("resnext50", "g32-14", 64, 512, 512, (14, 14), 3, 1, 32),
    ("googlenet", "5x5-28", 128, 32, 96, (28, 28), 5, 1, 1),
    ("googlenet", "5x5-14", 128, 48, 128, (14, 14), 5, 1, 1),
    ("unet3d", "3d-64", 2, 64, 64, (48, 48, 48), 3, 1, 1),
    ("r3d", "3d-s2", 8, 64, 128, (16, 56, 56), 3, 2, 1),
    ("cosmoflow", "3d-256", 8, 128, 256, (16, 16, 16), 3, 1, 1),
    ("convnext", "patch4", 128, 3, 96, (224, 224), 4, 4, 1),
    ("mobilenet-v2", "pw-56", 128, 24, 144, (56, 56), 1, 1, 1),
    ("regnet", "g5-28", 128, 120, 120, (28, 28), 3, 1, 5),
]
# Layers of earlier files again, to tell this machine from that one.
CONVOLUTIONS_AGAIN = [
    ("vgg16", "conv6", 32, 256, 256, (56, 56), 3, 1, 1),
    ("resnet50", "res4b_1", 32, 1024, 256, (14, 14), 1, 1, 1),
]


def parts_of(shape):
    """The whole layer, and its parts by two, four and eight, halo included."""
    _, _, n, c, f, size, k, s, groups = shape
    yield "none", 1, (n, c, f, size, groups)
    odd_one = groups > 1 or k in (4, 5) or len(size) > 2  # slow to try out
    for p in (4,) if odd_one else (2, 4, 8):
        if n % p == 0:
            yield "data", p, (n // p, c, f, size, groups)
        if groups > 1 and groups % p == 0:
            yield "filter", p, (n, c // p, f // p, size, groups // p)
        if groups == 1 and f % p == 0:
            yield "filter", p, (n, c, f // p, size, 1)
        if groups == 1 and c % p == 0:
            yield "channel", p, (n, c // p, f, size, 1)
        if size[0] % p == 0 and size[0] // p >= k:
            yield "spatial", p, (n, c, f, (size[0] // p + 2 * (k // 2),
                                           *size[1:]), groups)


def measure_conv(n, c, f, size, k, s, groups, dtype):
    d = len(size)
    t = dict(device=GPU, dtype=dtype)
    last = torch.channels_last if d == 2 else torch.contiguous_format
    x = torch.randn(n, c, *size, **t).to(memory_format=last)
    w = torch.randn(f, c // groups, *[k] * d, **t).to(memory_format=last)
    pad = 0 if k == s else k // 2
    call = F.conv2d if d == 2 else F.conv3d
    y = call(x, w, None, s, pad, 1, groups)
    g = torch.randn_like(y)

    def back(mask):
        return torch.ops.aten.convolution_backward(
            g, x, w, None, [s] * d, [pad] * d, [1] * d, False, [0] * d, groups,
            mask)
    return pad, {"forward_s": timed(lambda: call(x, w, None, s, pad, 1,
                                                 groups)),
                 "backward_data_s": timed(lambda: back([True, False, False])),
                 "backward_weights_s": timed(lambda: back([False, True,
                                                           False]))}


def conv_rows(shape, seen):
    name, layer, _, _, _, _, k, s, _ = shape
    for split, parts, (n, c, f, size, groups) in parts_of(shape):
        for dtype, torch_dtype in DTYPES.items():
            key = (n, c, f, size, k, s, groups, dtype)
            if key in seen:
                continue
            seen.add(key)
            pad, times = measure_conv(n, c, f, size, k, s, groups, torch_dtype)
            row = dict(model=name, layer=layer, op="conv", n=n, c=c, f=f)
            row.update(dict(zip(("d", "h", "w")[-len(size):], size)))
            row.update(k=k, stride=s, pad=pad, groups=groups, dtype=dtype,
                       split=split, parts=parts, **times)
            yield row


def attention_rows():
    """In 32 bits: no FlashAttention there."""
    for b, heads, t, d, causal in ((32, 12, 512, 64, False),
                                   (64, 12, 197, 64, False),
                                   (8, 16, 1024, 64, True),
                                   (4, 16, 2048, 128, True),
                                   (64, 6, 197, 64, False),
                                   (16, 16, 128, 64, False)):
        q = [torch.randn(b, heads, t, d, device=GPU, requires_grad=True)
             for _ in range(3)]

        def attend():
            return F.scaled_dot_product_attention(*q, is_causal=causal)
        forward = timed(attend)
        y = attend()
        g = torch.randn_like(y)
        back = timed(lambda: torch.autograd.grad(y, q, g, retain_graph=True))
        yield dict(op="sdpa", b=b, heads=heads, t=t, d=d, causal=causal,
                   dtype="float32", forward_s=forward, backward_data_s=back)


def layers(out, left, first):
    rows, seen = {"even": [], "odd": [], "again": []}, set()
    numbered = [("again", x) for x in CONVOLUTIONS_AGAIN if first == 0]
    numbered += [(("even", "odd")[i % 2], x)
                 for i, x in enumerate(CONVOLUTIONS) if i >= first]
    for half, shape in numbered:
        if left() < 0:
            print("left out", shape)
            continue
        with torch.no_grad():
            try:
                rows[half] += conv_rows(shape, seen)
            except Exception as e:
                print("failed", shape, repr(e)[:300])
        print(shape[:2], round(left()))
    for i, row in enumerate(attention_rows()):
        rows[("even", "odd")[i % 2]].append(row)
    for half, found in rows.items():
        write(os.path.join(out, f"layers_{half}.json"), "paradl.layers/1",
              "Layer times on one GPU", "records", found)


# ---- export ----------------------------------------------------------------
def strip(path):
    """Shapes of the weights stay, their values go."""
    import onnx
    model = onnx.load(path)
    for t in model.graph.initializer:
        n = 1
        for x in t.dims:
            n *= x
        if n > 64 and t.data_type == onnx.TensorProto.FLOAT:
            for field in ("raw_data", "float_data"):
                t.ClearField(field)
            t.data_location = onnx.TensorProto.EXTERNAL
            e = t.external_data.add()
            e.key, e.value = "location", "weights.bin"
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def export(out):
    for n in NETWORKS:
        if not n.name.startswith(TV) or n.how:
            continue
        path = os.path.join(out, n.name[len(TV):] + ".onnx")
        try:
            torch.onnx.export(n.make().eval(), (torch.randn(1, *n.shape),), path,
                              dynamo=False, do_constant_folding=False,
                              opset_version=17,
                              training=torch.onnx.TrainingMode.PRESERVE,
                              input_names=["input"],
                              dynamic_axes={"input": {0: "batch"}})
            strip(path)
        except Exception as e:
            print("not exported", n.name, repr(e)[:300])


def start(limit):
    """Settings of every measurement; how many seconds are left, as a function."""
    end = time.time() + limit
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    return lambda: end - time.time()


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("what", choices=("steps", "layers", "profile", "export"))
    args.add_argument("out")
    args.add_argument("--system", default="dgx-h200:nodes=1")
    args.add_argument("--limit", type=float, default=1e9)
    args.add_argument("--first", type=int, default=0,
                      help="steps, layers: the first one's number")
    args.add_argument("--only", default="",
                      help="profile: parts of networks' names, by commas")
    a = args.parse_args()
    left = start(a.limit)
    if a.what == "export":
        export(a.out)
    elif a.what == "steps":
        steps(a.out, a.system, left, a.first)
    elif a.what == "layers":
        layers(a.out, left, a.first)
    else:
        profile(a.out, left, a.only.split(","))


if __name__ == "__main__":
    main()
