#!/usr/bin/python3
"""The oracle against reality on this machine.

  validate_matrix.py PARADL SYSTEM.yaml [--only TEXT] [--ranks 1,2] [--ops]

Runs `paradl validate MODEL` for every strategy that applies to a VGG-like
network, ResNet-18 and a small GPT, on 1 and 2 ranks, with a system that
`paradl calibrate` made, and prints projected and measured steps, phases and
memory. --ops adds the operations that the step's error comes from."""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VGG = ("vgg", os.path.join(HERE, "vgg-like.yaml"), 32)
RESNET = ("resnet18", os.path.join(HERE, "..", "examples", "resnet18-cifar.yaml"), 16)
GPT = ("gpt", "gpt:layers=4,hidden=256,heads=8,vocab=512,seq=128", 8)
CNN = {1: ["data=1"], 2: ["data=2", "spatial=2", "filter=2", "channel=2", "pipe=2"],
       4: ["data=4", "data=2,filter=2", "data=2,spatial=2"]}
LM = {1: ["data=1"], 2: ["data=2", "filter=2", "channel=2", "pipe=2"],
      4: ["data=4", "data=2,filter=2"]}


def main():
    o = argparse.ArgumentParser()
    o.add_argument("paradl")
    o.add_argument("system")
    o.add_argument("--only", default="")
    o.add_argument("--ranks", default="1,2")
    o.add_argument("--ops", action="store_true")
    a = o.parse_args()
    scores, memory = [], []
    for name, model, batch in (VGG, RESNET, GPT):
        for ranks in map(int, a.ranks.split(",")):
            for strategy in (LM if name == "gpt" else CNN).get(ranks, []):
                label = f"{name} {strategy}"
                if a.only not in label:
                    continue
                cmd = [a.paradl, "validate", model, "--system", a.system, "--strategy", strategy,
                       "--batch", str(batch), "--json"]
                p = subprocess.run(cmd, capture_output=True, text=True)
                if p.returncode:
                    print(f"{label:28} {p.stderr.strip()[:100]}")
                    continue
                rows = {r["id"]: r for r in json.loads(p.stdout)["rows"]}
                s = rows["step"]
                scores.append(s["accuracy"])
                memory.append(s["projected_bytes"] / s["measured_bytes"])
                phases = " ".join(f"{k[:4]} {rows[k]['projected_s'] * 1e3:.0f}/{rows[k]['measured_s'] * 1e3:.0f}"
                                  for k in ("forward", "backward", "update", "exchange"))
                print(f"{label:28} {s['projected_s'] * 1e3:8.1f} / {s['measured_s'] * 1e3:8.1f} ms "
                      f"{100 * s['accuracy']:5.1f} %  memory {memory[-1]:.2f}  {phases}", flush=True)
                if a.ops:
                    ops = [r for k, r in rows.items() if k[0].isdigit()]
                    ops.sort(key=lambda r: -abs(r["projected_s"] - r["measured_s"]))
                    for r in ops[:12]:
                        print(f"      {r['id']:44} {r['projected_s'] * 1e3:8.2f} / {r['measured_s'] * 1e3:8.2f} ms")
    if scores:
        print(f"mean accuracy {100 * sum(scores) / len(scores):.1f} % of {len(scores)}; memory within "
              f"{100 * max(abs(m - 1) for m in memory):.0f} %")


if __name__ == "__main__":
    sys.exit(main())
