#!/usr/bin/python3
"""Every graph of cuDNN that the zoo's networks need, made for an H200 where there
is none (its description is tests/data/cuda/h200.json): each has an engine, with a
workspace that fits, and what the host would run for the GPU is what is listed
here. Run by ctest; skipped, aloud, where nvcc or cuDNN is missing.

  cuda_plans.py PARADL"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
H200 = os.path.join(HERE, "..", "data", "cuda", "h200.json")

# network, batch: each kind of the zoo, in shapes that are trained
ZOO = [
    ("lenet5", 64), ("resnet50", 256), ("resnet18", 256),
    ("vgg16", 64), ("densenet121", 64),
    ("mobilenet-v2", 256), ("efficientnet-b0", 64),
    ("googlenet", 128), ("regnet-x-800mf", 128),
    ("unet:padding=same,input=256,channels=3,classes=21", 8),
    ("unet3d:padding=same,input=64,depth=64,base=16", 2), ("gpt2", 16),
    ("bert-base", 32), ("vit-b16", 128),
    ("llama:layers=2,hidden=2048,heads=16,ffn=5632,vocab=32000,seq=2048", 4),
    ("qwen3-0.6b:layers=2,seq=1024", 2), ("t5-small", 16),
    ("moe:layers=2,hidden=256,heads=4,ffn=512,vocab=1000,seq=128,experts=8,topk=2", 8),
]
# what has no kernel there yet: a form of these operators runs on the host
BY_HOST = {
    "densenet121": {"concat"}, "efficientnet-b0": {"mul"}, "unet3d": {"max_pool"},
    "t5-small": {"attention"}, "moe": {"experts"},
}
FP32 = {"resnet18", "unet"}


def size(paradl, env, model, batch, precision):
    p = subprocess.run([paradl, "train", model, "--data", "synthetic", "--samples", str(batch), "--batch", str(batch),
                        "--precision", precision, "--device", "cuda:" + H200, "--size", "--virtual", "--json"],
                       capture_output=True, text=True, env=env)
    if p.returncode:
        return None, p.stderr.strip().splitlines()[-1] if p.stderr.strip() else f"exit {p.returncode}"
    return json.loads(p.stdout), ""


def main():
    shim = os.environ.get("PDL_CUDA_SHIM")
    if not shim:
        print("SKIPPED: no nvcc or no cuDNN here, no plan of it is made")
        return 77
    env = dict(os.environ, LD_LIBRARY_PATH=shim + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    wrong = 0
    for model, batch in ZOO:
        for precision in ("fp32", "bf16") if model.split(":")[0] in FP32 else ("bf16",):
            d, why = size(sys.argv[1], env, model, batch, precision)
            name = model.split(":")[0]
            if d is None:
                print(f"{name} {precision}: {why}")
                wrong += 1
                continue
            host = set(filter(None, d.get("on_host", "").split(", ")))
            listed = BY_HOST.get(name, set())
            bad = host - listed
            print(f"{name:20} {precision} b{batch}: {d['most_bytes'] / 2**30:.2f} GiB"
                  f"{'; by the host: ' + ', '.join(sorted(host)) if host else ''}{'  NOT LISTED' if bad else ''}")
            wrong += bool(bad)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
