#!/usr/bin/env python3
"""Networks of KARMA's paper (SC 2020) at batches that a V100 with 16 GB has no
memory for: the step that swap=karma decides on, beside in core (were there
memory), every block made again, and earlier methods written as decisions for
the same blocks. All of it is projected; nothing is measured.

    bench/outofcore.py PARADL
"""
import json
import subprocess
import sys

CASES = [  # network, what it is called, batches, precision
    ("resnet50", "ResNet-50", (256, 384, 512), "fp32"),
    ("resnet200", "ResNet-200", (96, 128, 192), "fp32"),
    ("resnet1001", "ResNet-1001", (128, 192, 256), "fp32"),
    ("vgg16", "VGG-16", (256, 272), "fp32"),
    ("wrn-28-10", "WRN-28-10", (1024, 1536, 2048), "fp32"),
    ("unet", "U-Net", (24, 28, 32), "fp32"),
    ("gpt2-medium", "Megatron 355M", (8, 16, 32), "fp16"),
]
EARLIER = ("vdnn-all", "vdnn-conv", "superneurons", "capuchin")


def ask(paradl, model, batch, precision):
    done = subprocess.run(
        [paradl, "project", model, "--system", "abci-v100", "--strategy",
         "serial", "--offload", "auto", "--batch", str(batch), "--precision",
         precision, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{model}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(name, batch, x):
    y = x["out_of_core"]
    step = x["step_s"]
    policy = {p["name"]: p for p in y["policies"]}
    fit = [(policy[p]["step_s"], p) for p in EARLIER if policy[p]["fits"]]
    again = policy["recompute"]
    choices = [b["choice"] for b in y["blocks"]]
    if not x["feasible"]:
        print(f"| {name} | {batch} | does not fit | | | | | | | |")
        return None
    best = min(fit) if fit else None
    many = " ".join(str(choices.count(c))
                    for c in ("keep", "recompute", "swap", "both", "part", "rest"))
    print(f"| {name} | {batch} | {1e3 * step:.0f} ms | "
          f"{100 * y['in_core_s'] / step:.1f} % | {many} | "
          + (f"{again['step_s'] / step:.2f}" if again["fits"] else "no fit")
          + " | " + (f"{best[0] / step:.2f} ({best[1]})" if best else "no fit")
          + " | " + (f"{best[0] / y['in_core_s']:.2f}" if best else "")
          + f" | {100 * (step / y['planned_s'] - 1):+.2f} % | "
          f"{100 * (y['planned_s'] / y['bound_s'] - 1):.2f} % |")
    return (best[0] / step, best[0] / y["in_core_s"]) if best else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    gains = []
    print("| network | batch | step | of in-core speed | keep, recompute, swap,"
          " both, part, rest | every block again | best earlier method | that, of in core"
          " | whole plan, of the chain's step | above the proved bound |")
    print("|---|--:|--:|--:|---|--:|--:|--:|--:|--:|")
    for model, name, batches, precision in CASES:
        for batch in batches:
            x = ask(sys.argv[1], model, batch, precision)
            if x["out_of_core"]["in_core_fits"]:
                print(f"| {name} | {batch} | fits in core | | | | | | | |")
                continue
            gain = row(name, batch, x)
            if gain:
                gains.append(gain)
    got, most = zip(*gains)
    print(f"\n{len(got)} rows: {sum(got) / len(got):.2f} times the best earlier "
          f"method on average, {min(got):.2f} to {max(got):.2f}; the speed in "
          f"core would be {sum(most) / len(most):.2f} times")


if __name__ == "__main__":
    main()
