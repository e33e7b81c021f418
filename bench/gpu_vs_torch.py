#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of ours and of torch.compile on one GPU, side by side.

    python3 bench/gpu_vs_torch.py PARADL [CASE ...] [--torch-only|--ours-only]

Every case of PyTorch is a process of its own: all of them compile at once, then
they are timed one after the other, alone on the GPU. Data lie on the GPU there;
ours come from the host. Medians; memory is the largest that was allocated, or
that our plan takes. Prints one line of JSON a case.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA = "llama:layers=16,hidden=2048,heads=16,ffn=8192,vocab=32000,seq=2048,gated=1"
GPT = "gpt:layers=%d,hidden=%d,heads=%d,ffn=%d,vocab=50304,seq=1024"
# name: our model, batch, precision, items of a sample, steps of ours
CASES = {
    "resnet50": ("resnet50", 256, "bf16", 1, 60),
    "resnet50-tf32": ("resnet50", 256, "tf32", 1, 30),
    "resnet18-cifar": (HERE + "/../examples/resnet18-cifar.yaml", 512, "bf16", 1, 400),
    "mobilenet-v2": ("mobilenet-v2", 256, "bf16", 1, 60),
    "unet": ("unet", 4, "bf16", 1, 60),
    "vit-b16": ("vit-b16", 128, "bf16", 1, 60),
    "bert-large": ("bert-large", 16, "bf16", 512, 60),
    "gpt2-124M": (GPT % (12, 768, 12, 3072), 32, "bf16", 1024, 40),
    "gpt2-774M": (GPT % (36, 1280, 20, 5120), 8, "bf16", 1024, 40),
    "llama-1B": (LLAMA, 4, "bf16", 2048, 40),
}
ADAM = ("vit", "bert", "gpt", "llama")


def uses_adam(name):
    return name.startswith(ADAM)


# ---- ours ------------------------------------------------------------------
def ours(paradl, name):
    model, batch, precision, items, steps = CASES[name]
    device = "cuda:0:tf32" if precision == "tf32" else "cuda"
    run = subprocess.run(
        [paradl, "train", model, "--data", "synthetic", "--batch", str(batch),
         "--precision", "fp32" if precision == "tf32" else precision,
         "--device", device, "--samples", str(4 * batch), "--epochs", "1000",
         "--steps", str(steps), "--no-test", "--raw", "--lr", "1e-4",
         "--optimizer",
         "adamw" if uses_adam(name) else "sgd:momentum=0.9", "--json"],
        capture_output=True, text=True)
    if run.returncode:
        return {"error": (run.stderr or run.stdout).strip()[-300:]}
    lines = [json.loads(x) for x in run.stdout.splitlines()]
    rates = [x["samples_per_s"] for x in lines[:-1] if "accuracy" not in x]
    return {"per_s": statistics.median(rates[len(rates) // 2:]) * items,
            "first_step_s": batch / rates[0],
            "memory_GiB": lines[-1]["memory"]["taken_bytes"] / 2**30}


# ---- PyTorch ---------------------------------------------------------------
def cifar():
    from measure_torch import Bottleneck
    import torch.nn as nn
    layers, c = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
                 nn.ReLU(inplace=True)], 64
    for i in range(4):
        for j in range(2):
            layers.append(Bottleneck(c, 64 << i, 2 if i and not j else 1,
                                     False))
            c = 64 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(c, 10))


def torch_model(name):
    """The network, the shape of a sample (None: tokens), their number."""
    import measure_torch as m
    if name.startswith("resnet50"):
        return m.CNNS["resnet50"](), (3, 224, 224), 0
    if name == "resnet18-cifar":
        return cifar(), (3, 32, 32), 0
    if name == "mobilenet-v2":
        return m.mobilenet_v2(), (3, 224, 224), 0
    if name == "unet":
        return m.UNet(), (1, 572, 572), 0
    if name == "vit-b16":
        return m.Encoder(12, 768, 12, patch=16), (3, 224, 224), 0
    if name == "bert-large":
        return m.Encoder(24, 1024, 16, 30522, 512), (512,), 30522
    if name == "gpt2-124M":
        return (m.Decoder(12, 768, 12, 3072, 50304, 1024, False), (1024,),
                50304)
    if name == "gpt2-774M":
        return (m.Decoder(36, 1280, 20, 5120, 50304, 1024, False), (1024,),
                50304)
    return m.Decoder(16, 2048, 16, 8192, 32000, 2048, True), (2048,), 32000


def step_of(name, batch, precision):
    import torch
    import torch.nn.functional as F

    model, shape, vocab = torch_model(name)
    model = model.cuda()
    if not vocab:
        model = model.to(memory_format=torch.channels_last)
        x = torch.randn(batch, *shape, device="cuda").to(
            memory_format=torch.channels_last)
    else:
        x = torch.randint(vocab, (batch, *shape), device="cuda")
    if uses_adam(name):
        opt = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    else:
        opt = torch.optim.SGD(model.parameters(), 1e-4, 0.9, fused=True)
    compiled = torch.compile(model)
    amp = torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16")
    with torch.no_grad(), amp:
        out = model(x[:1])
    classes = out.shape[-1] if vocab else out.shape[1]
    y = torch.randint(classes, (batch * (out.numel() // classes),),
                      device="cuda")
    if not vocab and out.dim() == 4:
        y = y.view(batch, *out.shape[2:])
    del out

    def step():
        with amp:
            z = compiled(x)
            z = z.reshape(-1, classes) if vocab else z
            loss = F.cross_entropy(z.float(), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss

    return step


def captured(step):
    """The whole step as one CUDA graph."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def time_torch(name):
    """As a child: compiles, says so, waits for its turn, measures."""
    import torch

    _, batch, precision, items, _ = CASES[name]
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    step = step_of(name, batch, precision)
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print("ready", flush=True)
    sys.stdin.readline()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(6):
        step()

    def seconds(call, n):
        times = []
        for _ in range(n):
            a, b = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            a.record()
            call()
            b.record()
            torch.cuda.synchronize()
            times.append(a.elapsed_time(b) * 1e-3)
        return statistics.median(times)

    out = {"per_s": batch * items / seconds(step, 30),
           "memory_GiB": torch.cuda.max_memory_allocated() / 2**30}
    if name == "resnet18-cifar":
        out["graph_per_s"] = batch * items / seconds(captured(step), 60)
    print(json.dumps(out), flush=True)


def torch_all(names):
    here = os.path.abspath(__file__)
    env = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="4")
    children = {}
    for name in names:
        children[name] = subprocess.Popen(
            [sys.executable, here, "-", name, "--child"], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
    up = {name: c.stdout.readline() for name, c in children.items()}
    for name, c in children.items():
        out, error = c.communicate("go\n" if up[name] else None)
        lines = out.strip().splitlines()
        yield name, (json.loads(lines[-1]) if c.returncode == 0 else
                     {"error": error.strip()[-300:]})


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("paradl")
    args.add_argument("cases", nargs="*", help=", ".join(CASES))
    args.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args.add_argument("--ours-only", action="store_true")
    args.add_argument("--torch-only", action="store_true")
    a = args.parse_args()
    names = a.cases or list(CASES)
    if a.child:
        time_torch(names[0])
        return
    if not a.torch_only:
        for name in names:
            print(json.dumps({"case": name, "ours": ours(a.paradl, name)}),
                  flush=True)
    if not a.ours_only:
        for name, result in torch_all(names):
            print(json.dumps({"case": name, "torch": result}), flush=True)


if __name__ == "__main__":
    main()
