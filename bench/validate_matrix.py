#!/usr/bin/python3
"""The oracle against reality on this machine.

  paradl calibrate -o here.yaml              # nothing else should run
  paradl calibrate -n 4 -o shared.yaml       # 4 ranks that share 2 processors
  validate_matrix.py PARADL here.yaml [--shared shared.yaml] [--only TEXT]
                     [--rounds 3] [--steps 8] [--ops N]

Runs `paradl validate MODEL` for every strategy that applies to a VGG-like
network, ResNet-18 and a small GPT, on 1 and 2 ranks and, with --shared, on 4,
and prints projected and measured steps, phases and memory. All cases run once
a round and the fastest step of all rounds counts, because other work on a
machine only slows steps down. --ops adds the operations that the error of a
step comes from."""
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
PHASES = ("forward", "backward", "update", "exchange", "waiting")


def cases(a):
    for name, model, batch in (VGG, RESNET, GPT):
        for ranks in (1, 2, 4):
            system = a.shared if ranks > 2 else a.system
            for strategy in (LM if name == "gpt" else CNN)[ranks]:
                if system and a.only in f"{name} {strategy}":
                    yield (f"{name} {strategy}", ranks,
                           [a.paradl, "validate", model, "--system", system, "--strategy", strategy,
                            "--batch", str(batch), "--steps", str(a.steps), "--json"])


def run(label, cmd):
    p = subprocess.run(cmd, capture_output=True, text=True)
    if p.returncode:
        print(f"{label:26} {p.stderr.strip()[:100]}", flush=True)
        return None
    return {r["id"]: r for r in json.loads(p.stdout)["rows"]}


def show(label, rows, ops):
    s = rows["step"]
    memory = s["projected_bytes"] / s["measured_bytes"]
    phases = " ".join(f"{k[:4]} {rows[k]['projected_s'] * 1e3:.1f}/{rows[k]['measured_s'] * 1e3:.1f}"
                      for k in PHASES if k in rows)
    print(f"{label:26} {s['projected_s'] * 1e3:7.1f} / {s['measured_s'] * 1e3:7.1f} ms "
          f"{100 * s['accuracy']:5.1f} %  memory {s['projected_bytes'] / 2**20:.0f} / "
          f"{s['measured_bytes'] / 2**20:.0f} MiB {memory:.2f}  {phases}", flush=True)
    worst = [r for k, r in rows.items() if k[0].isdigit()]
    worst.sort(key=lambda r: -abs(r["projected_s"] - r["measured_s"]))
    for r in worst[:ops]:
        print(f"      {r['id']:44} {r['projected_s'] * 1e3:8.2f} / {r['measured_s'] * 1e3:8.2f} ms")


def summary(title, best):
    if not best:
        return
    scores = [r["step"]["accuracy"] for r in best]
    memory = [r["step"]["projected_bytes"] / r["step"]["measured_bytes"] for r in best]
    print(f"{title}: mean accuracy {100 * sum(scores) / len(scores):.1f} % of {len(scores)}, lowest "
          f"{100 * min(scores):.1f} %; memory within {100 * max(abs(m - 1) for m in memory):.1f} %")


def main():
    o = argparse.ArgumentParser()
    o.add_argument("paradl")
    o.add_argument("system")
    o.add_argument("--shared")
    o.add_argument("--only", default="")
    o.add_argument("--rounds", type=int, default=3)
    o.add_argument("--steps", type=int, default=8)
    o.add_argument("--ops", type=int, default=0)
    a = o.parse_args()
    best = {}
    for _ in range(a.rounds):
        for label, ranks, cmd in cases(a):
            rows = run(label, cmd)
            if rows and ((label, ranks) not in best or
                         rows["step"]["measured_s"] < best[label, ranks]["step"]["measured_s"]):
                best[label, ranks] = rows
    for (label, _), rows in best.items():
        show(label, rows, a.ops)
    summary("1 and 2 ranks", [r for (_, n), r in best.items() if n <= 2])
    summary("4 ranks", [r for (_, n), r in best.items() if n > 2])


if __name__ == "__main__":
    sys.exit(main())
