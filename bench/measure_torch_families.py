#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times families that the oracle was bad at with PyTorch on one GPU.

Mixtures of experts, T5, volumes, grouped and depthwise convolutions, windows.
As in measure_torch_more.py the list is numbered: networks and layers with an
even number may be looked at, profiled and fitted to, those with an odd one are
read when that is done.

    measure_torch_families.py steps OUT_DIR     steps_{even,odd,again}.json
    measure_torch_families.py later OUT_DIR     further networks, steps_later.json
    measure_torch_families.py layers OUT_DIR    layers_{even,odd}.json, with the
                                                kernels of every call
    measure_torch_families.py profile OUT_DIR   profile.json, even networks
    measure_torch_families.py export OUT_DIR    ONNX files without weights

Needs torchvision and transformers.
"""
import argparse
import gzip
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import measure_torch_more as more
from measure_torch import DTYPES, GPU, mobilenet_v2
from measure_torch_more import (AGAIN, IMAGE, TV, Network, UNet3d, kernels_of,
                                prepare, run_of, tv, write)


class T5(nn.Module):
    """Encoder and decoder read the same tokens."""

    def __init__(self, layers, e, heads, ffn, gated=False):
        super().__init__()
        from transformers import T5Config, T5ForConditionalGeneration
        self.net = T5ForConditionalGeneration(T5Config(
            d_model=e, d_kv=64, d_ff=ffn, num_layers=layers, num_heads=heads,
            feed_forward_proj="gated-gelu" if gated else "relu",
            tie_word_embeddings=not gated, dropout_rate=0.0))

    def forward(self, x):
        return self.net(input_ids=x, decoder_input_ids=x,
                        use_cache=False).logits


def t5(layers, e, heads, ffn, seq, *runs, gated=False):
    name = (f"t5:layers={layers},hidden={e},heads={heads},ffn={ffn},seq={seq}"
            + (",gated=1,tied=0" if gated else ""))
    return Network(name, lambda: T5(layers, e, heads, ffn, gated), (32128, seq),
                   runs)


class Mixture(nn.Module):
    def __init__(self, layers, e, heads, kv, ffn, experts, topk, qwen):
        super().__init__()
        import transformers as t
        common = dict(hidden_size=e, num_hidden_layers=layers,
                      num_attention_heads=heads, num_key_value_heads=kv,
                      vocab_size=32000, num_experts_per_tok=topk,
                      attn_implementation="sdpa")
        if qwen:
            self.net = t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
                moe_intermediate_size=ffn, num_experts=experts,
                head_dim=e // heads, norm_topk_prob=True, **common))
        else:
            self.net = t.MixtralForCausalLM(t.MixtralConfig(
                intermediate_size=ffn, num_local_experts=experts, **common))
        print("experts:", getattr(self.net.config,
                                  "_experts_implementation", None))

    def forward(self, x):
        return self.net(input_ids=x, use_cache=False).logits


def mixture(layers, e, heads, kv, ffn, experts, topk, seq, *runs, qwen=False):
    name = (f"moe:layers={layers},hidden={e},heads={heads},kv_heads={kv},"
            f"ffn={ffn},vocab=32000,seq={seq},experts={experts},topk={topk}"
            + (",qk_norm=1" if qwen else ""))
    return Network(name, lambda: Mixture(layers, e, heads, kv, ffn, experts,
                                         topk, qwen), (32000, seq), runs)


def image(name, size, *runs, **kw):
    return Network(TV + name, tv(name, **kw), (3, size, size), runs)


def video(name, *runs):
    def make():
        import torchvision
        return getattr(torchvision.models.video, name)(weights=None)
    return Network(TV + name, make, (3, 16, 112, 112), runs)


NETWORKS = [
    mixture(8, 1024, 16, 8, 3584, 8, 2, 1024, ("bf16", 4), ("bf16", 16),
            ("tf32", 4)),
    mixture(6, 2048, 16, 4, 2816, 16, 2, 1024, ("bf16", 4), ("bf16", 8)),
    mixture(6, 1024, 16, 4, 512, 64, 8, 1024, ("bf16", 4), qwen=True),
    mixture(12, 768, 12, 12, 3072, 4, 1, 512, ("bf16", 8), ("tf32", 16)),
    t5(12, 768, 12, 3072, 512, ("bf16", 8), ("tf32", 8), ("bf16", 32)),
    t5(6, 512, 8, 2048, 512, ("bf16", 16), ("tf32", 32), ("bf16", 64)),
    t5(12, 768, 12, 2048, 256, ("bf16", 16), ("tf32", 16), gated=True),
    t5(24, 1024, 16, 4096, 512, ("bf16", 16), ("tf32", 8)),
    Network("unet3d", UNet3d, (3, 116, 132, 132),
            (("bf16", 1), ("tf32", 1), ("bf16", 2))),
    video("r3d_18", ("tf32", 16), ("bf16", 16)),
    video("mc3_18", ("bf16", 16), ("tf32", 16)),
    video("r2plus1d_18", ("bf16", 16), ("tf32", 16)),
    image("regnet_y_1_6gf", 224, ("bf16", 128), ("tf32", 128), ("bf16", 512)),
    image("regnet_y_3_2gf", 224, ("bf16", 256), ("tf32", 128)),
    image("regnet_x_8gf", 224, ("bf16", 128), ("tf32", 128)),
    image("resnext101_32x8d", 224, ("bf16", 64), ("tf32", 64)),
    image("efficientnet_b0", 224, ("bf16", 128), ("tf32", 128), ("bf16", 512)),
    image("efficientnet_b3", 300, ("bf16", 64), ("tf32", 64), ("bf16", 256)),
    image("mobilenet_v3_small", 224, ("bf16", 512), ("tf32", 256)),
    image("mnasnet1_0", 224, ("bf16", 256), ("tf32", 256)),
    image("efficientnet_v2_s", 224, ("bf16", 128), ("tf32", 64)),
    Network("mobilenet-v2", mobilenet_v2, IMAGE, (("bf16", 512), ("tf32", 64))),
    image("swin_t", 224, ("bf16", 128), ("tf32", 64)),
    image("convnext_small", 224, ("bf16", 128), ("tf32", 64)),
]


class Llama(nn.Module):
    """transformers' own, which computes norms and positions in steps."""

    def __init__(self):
        super().__init__()
        import transformers as t
        self.net = t.LlamaForCausalLM(t.LlamaConfig(
            hidden_size=2048, num_hidden_layers=16, num_attention_heads=16,
            num_key_value_heads=16, intermediate_size=5632, vocab_size=32000,
            attn_implementation="sdpa"))

    def forward(self, x):
        return self.net(input_ids=x, use_cache=False).logits


# Measured when the model was settled, all to be read once.
LATER = [
    mixture(10, 1536, 12, 12, 1024, 32, 4, 1024, ("bf16", 4), ("bf16", 16),
            ("tf32", 4)),
    mixture(4, 3072, 24, 8, 8192, 8, 2, 2048, ("bf16", 2), ("tf32", 1)),
    mixture(16, 768, 12, 4, 384, 16, 4, 512, ("bf16", 16), qwen=True),
    t5(12, 768, 12, 3072, 1024, ("bf16", 8), ("tf32", 4)),
    t5(12, 768, 12, 2048, 512, ("bf16", 32), gated=True),
    t5(8, 512, 6, 1024, 512, ("bf16", 32), ("tf32", 16), gated=True),
    Network("llama:layers=16,hidden=2048,heads=16,ffn=5632,vocab=32000,"
            "seq=2048,gated=1", Llama, (32000, 2048), (("bf16", 4), ("bf16", 1),
                                                       ("tf32", 2)), "steps"),
    video("r3d_18", ("bf16", 4), ("bf16", 64)),
    image("swin_s", 224, ("bf16", 64), ("tf32", 64)),
    image("regnet_x_3_2gf", 224, ("bf16", 128), ("tf32", 128)),
    image("regnet_y_800mf", 224, ("bf16", 256),),
    image("mobilenet_v3_large", 224, ("bf16", 256), ("tf32", 64)),
    image("efficientnet_b1", 240, ("bf16", 128),),
]


def is_adam(n):
    return more.is_tokens(n) or any(x in n.name for x in ("swin", "convnext"))


more.is_adam = is_adam


# ---- steps -----------------------------------------------------------------
def halves():
    return [("again", n) for n in AGAIN] + [
        (("even", "odd")[i % 2], n) for i, n in enumerate(NETWORKS)]


def steps(out, system, left, numbered):
    runs = {"even": [], "odd": [], "again": [], "later": []}
    for half, n in numbered:
        for precision, batch in n.runs:
            if left() < 0:
                print("left out", n.name, precision, batch)
                continue
            try:
                run = run_of(n, precision, batch, system)
            except Exception as e:
                print("failed", n.name, precision, batch, repr(e)[:300])
                continue
            finally:
                torch.cuda.empty_cache()
            run = {"id": f"{half}-{len(runs[half]):02}", **run}
            run["set"] = f"families-{half}"
            if n.how == "steps":
                run["options"]["framework"] = "transformers"
            runs[half].append(run)
            print(half, n.name[:40], precision, batch, round(left()))
        for kind, found in runs.items():
            write(os.path.join(out, f"steps_{kind}.json"), "paradl.runs/1",
                  "Training steps on one GPU", "runs", found)


# ---- kernels ---------------------------------------------------------------
def step_of(n, precision, batch):
    model, x, y, optimizer = prepare(n, precision, batch)

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            z = model(x)
            t = y
            if z.dim() == 3:
                z, t = z.view(-1, z.shape[-1]), y.view(-1)
            loss = F.cross_entropy(z, t)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def profile(out, left):
    found = []
    for n in NETWORKS[::2]:
        for precision, batch in n.runs[:2]:
            if left() < 0:
                print("no profile", n.name, precision)
                continue
            try:
                found.append({"model": n.name, "precision": precision,
                              "batch": batch, "kernels": kernels_of(
                                  step_of(n, precision, batch))})
            except Exception as e:
                print("failed", n.name, precision, repr(e)[:300])
            finally:
                torch.cuda.empty_cache()
            print("profile", n.name[:40], precision, round(left()))
    with gzip.open(os.path.join(out, "profile.json.gz"), "wt") as f:
        json.dump(found, f)


# ---- layers ----------------------------------------------------------------
# layer, batch, channels of a group, groups, extents, kernel, stride; with one
# group: channels, filters
GROUPED = [(64, w, g, (s, s), 3, 1) for w, g, s in (
    (8, 16, 56), (16, 16, 28), (16, 8, 56), (24, 14, 14), (24, 5, 28),
    (40, 8, 28), (32, 16, 14), (48, 9, 14), (48, 2, 56), (56, 8, 28),
    (64, 8, 28), (80, 6, 28), (80, 3, 56), (112, 4, 28), (120, 14, 14),
    (128, 8, 14))]
GROUPED += [(64, 24, 14, (28, 28), 3, 2), (64, 56, 16, (28, 28), 3, 2),
            (64, 16, 16, (56, 56), 3, 2), (64, 32, 16, (28, 28), 3, 2),
            (256, 24, 5, (28, 28), 3, 1), (256, 48, 4, (28, 28), 3, 1)]
VOLUMES = [
    (1, 3, 32, (116, 132, 132), (3, 3, 3), 1),
    (16, 3, 64, (16, 112, 112), (3, 7, 7), (1, 2, 2)),
    (1, 32, 64, (114, 130, 130), (3, 3, 3), 1),
    (16, 64, 64, (16, 56, 56), (3, 3, 3), 1),
    (1, 192, 64, (40, 56, 56), (3, 3, 3), 1),
    (16, 128, 128, (8, 28, 28), (3, 3, 3), 1),
    (16, 64, 64, (16, 56, 56), (1, 3, 3), 1),
    (16, 64, 144, (16, 56, 56), (1, 3, 3), 1),
    (16, 144, 64, (16, 56, 56), (3, 1, 1), 1),
    (16, 256, 512, (4, 14, 14), (3, 3, 3), 2),
    (2, 64, 128, (64, 64, 64), (3, 3, 3), 2),
    (4, 16, 32, (64, 64, 64), (3, 3, 3), 1),
]


def conv_of(n, c, f, groups, size, k, s, dtype):
    d = len(size)
    kernel = k if isinstance(k, tuple) else (k,) * d
    stride = s if isinstance(s, tuple) else (s,) * d
    t = dict(device=GPU, dtype=dtype)
    last = torch.channels_last if d == 2 else torch.contiguous_format
    x = torch.randn(n, c, *size, **t).to(memory_format=last)
    w = torch.randn(f, c // groups, *kernel, **t).to(memory_format=last)
    pad = [x // 2 for x in kernel]
    call = F.conv2d if d == 2 else F.conv3d
    y = call(x, w, None, stride, pad, 1, groups)
    g = torch.randn_like(y)

    def back(mask):
        return torch.ops.aten.convolution_backward(
            g, x, w, None, stride, pad, [1] * d, False, [0] * d, groups, mask)
    calls = {"forward_s": lambda: call(x, w, None, stride, pad, 1, groups),
             "backward_data_s": lambda: back([True, False, False]),
             "backward_weights_s": lambda: back([False, True, False])}
    row = dict(op="conv", n=n, c=c, f=f)
    row.update(dict(zip(("d", "h", "w")[-d:], size)))
    same = len(set(kernel)) == 1 and len(set(stride)) == 1
    row.update(k=kernel[0] if same else kernel,
               stride=stride[0] if same else stride,
               pad=pad[0] if same else pad, groups=groups)
    row.update({k: more.timed(v) for k, v in calls.items()})
    row["kernels"] = {k: [[x[2], *x[3:]] for x in kernels_of(v)]
                      for k, v in calls.items()}
    return row


def layers(out, left):
    rows = {"even": [], "odd": []}
    shapes = [("grouped", n, w * g, w * g, g, size, k, s)
              for n, w, g, size, k, s in GROUPED]
    shapes += [("volume", n, c, f, 1, size, k, s)
               for n, c, f, size, k, s in VOLUMES]
    for i, (name, *shape) in enumerate(shapes):
        for dtype, t in DTYPES.items():
            if left() < 0:
                print("left out", name, shape, dtype)
                continue
            try:
                with torch.no_grad():
                    row = conv_of(*shape, t)
            except Exception as e:
                print("failed", name, shape, repr(e)[:300])
                continue
            row = dict(model=name, **row, dtype=dtype, split="none", parts=1)
            rows[("even", "odd")[i % 2]].append(row)
            torch.cuda.empty_cache()
    print("layers", round(left()))
    for half, found in rows.items():
        write(os.path.join(out, f"layers_{half}.json"), "paradl.layers/1",
              "Layer times on one GPU", "records", found)


# ---- export ----------------------------------------------------------------
def export(out):
    for n in NETWORKS + LATER:
        if not n.name.startswith(TV):
            continue
        path = os.path.join(out, n.name[len(TV):] + ".onnx")
        try:
            torch.onnx.export(n.make().eval(), (torch.randn(1, *n.shape),), path,
                              dynamo=False, do_constant_folding=False,
                              opset_version=17,
                              training=torch.onnx.TrainingMode.PRESERVE,
                              input_names=["input"],
                              dynamic_axes={"input": {0: "batch"}})
            more.strip(path)
        except Exception as e:
            print("not exported", n.name, repr(e)[:300])


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("what", choices=("steps", "later", "layers", "profile",
                                         "export"))
    args.add_argument("out")
    args.add_argument("--system", default="dgx-h200:nodes=1")
    args.add_argument("--limit", type=float, default=1e9)
    a = args.parse_args()
    left = more.start(a.limit)
    if a.what == "export":
        export(a.out)
    elif a.what == "steps":
        steps(a.out, a.system, left, halves())
    elif a.what == "later":
        steps(a.out, a.system, left, [("later", n) for n in LATER])
    elif a.what == "layers":
        layers(a.out, left)
    else:
        profile(a.out, left)


if __name__ == "__main__":
    main()
