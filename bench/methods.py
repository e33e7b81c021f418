#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods that leave samples out, side by side: equal recipe, several seeds,
accuracy of all classes and of the worst, backward samples, time, and plain
training of the same time and of the same backward samples beside each.

  bench/methods.py PARADL --data DIR [--model MODEL] [--epochs 30] [--seeds 5]
      [--batch 512] [--lr 0.3] [--device cuda] [--samples N] [--out DIR]

DIR holds CIFAR-10 in its binary version or (Fashion-)MNIST; tools/get-data.sh
fetches them, nothing is fetched here. The default recipe is ResNet-18 on a GPU
(SGD with Nesterov's momentum, 1/6 of the run warm-up, then cosine to 0, crops
and flips). On a CPU give a small network: --model bench/cnn-cifar.yaml.
--samples takes the first N of each training file, --time cpu counts processor
time instead of the clock's (a machine on which other work runs). Runs that are
in DIR/runs.json are not done again."""
import argparse
import json
import math
import os
import resource
import shutil
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
METHODS = (  # name, --hide; plain training in shares of the epochs
    ("full", "none", 1.0),
    ("plain, 0.9 of the epochs", "none", 0.9),
    ("plain, 0.8 of the epochs", "none", 0.8),
    ("plain, 0.67 of the epochs", "none", 0.67),
    ("plain, 0.5 of the epochs", "none", 0.5),
    ("random 30 %", "random:r=0.3", 1.0),
    ("InfoBatch r=.5", "infobatch:r=0.5", 1.0),
    ("KAKURENBO F=.3", "kakurenbo:f=0.3", 1.0),
    ("KAKURENBO F=.4", "kakurenbo:f=0.4", 1.0),
    ("KAKURENBO F=.3, LR by what is hidden", "kakurenbo:f=0.3,lr=realised", 1.0),
    ("IES", "ies", 1.0),
    ("SeTa", "seta", 1.0),
    ("selective backprop", "sb", 1.0),
    ("ISWR", "iswr", 1.0),
)


# -- data -------------------------------------------------------------------

def read_cifar(folder):
    """{split: [(file, records)]}"""
    out = {"train": [], "test": []}
    for name in sorted(os.listdir(folder)):
        split = "train" if name.startswith("data_batch_") else \
            "test" if name == "test_batch.bin" else None
        if split:
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            out[split].append((name, [data[i:i + 3073] for i in
                                      range(0, len(data), 3073)]))
    return out


def write_cifar(sets, folder):
    os.makedirs(folder, exist_ok=True)
    for files in sets.values():
        for name, records in files:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(b"".join(records))


def read_idx(folder):
    import gzip
    out = {}
    for split, stem in (("train", "train"), ("test", "t10k")):
        parts = []
        for kind in ("images-idx3", "labels-idx1"):
            path = os.path.join(folder, f"{stem}-{kind}-ubyte")
            opener = open if os.path.exists(path) else gzip.open
            with opener(path if opener is open else path + ".gz", "rb") as f:
                parts.append(f.read())
        n = struct.unpack(">I", parts[0][4:8])[0]
        out[split] = [(stem, [bytes([parts[1][8 + i]]) +
                              parts[0][16 + i * 784:16 + (i + 1) * 784]
                              for i in range(n)])]
    return out


def write_idx(sets, folder):
    os.makedirs(folder, exist_ok=True)
    for files in sets.values():
        for stem, records in files:
            head = struct.pack(">HBBI", 0, 8, 3, len(records))
            with open(os.path.join(folder, f"{stem}-images-idx3-ubyte"),
                      "wb") as f:
                f.write(head + struct.pack(">II", 28, 28))
                f.write(b"".join(r[1:] for r in records))
            with open(os.path.join(folder, f"{stem}-labels-idx1-ubyte"),
                      "wb") as f:
                f.write(struct.pack(">HBBI", 0, 8, 1, len(records)))
                f.write(bytes(r[0] for r in records))


def prepare(args):
    """The data to train with, and a folder of each class to test with."""
    idx = not os.path.exists(os.path.join(args.data, "data_batch_1.bin"))
    read, write = (read_idx, write_idx) if idx else (read_cifar, write_cifar)
    sets = read(args.data)
    if args.samples:
        sets = {split: [(name, records[:args.samples])
                        for name, records in files]
                for split, files in sets.items()}
    data = os.path.join(args.out, "data")
    write(sets, data)
    classes = sorted({r[0] for _, records in sets["test"] for r in records})
    folders = []
    for c in classes:
        folder = os.path.join(args.out, f"class-{c}")
        some = {"train": sets["train"],
                "test": [(name, [r for r in records if r[0] == c])
                         for name, records in sets["test"]]}
        write({"test": some["test"]}, folder)
        for name in os.listdir(data):  # what inputs are normalised by
            if not os.path.exists(os.path.join(folder, name)):
                os.link(os.path.join(data, name), os.path.join(folder, name))
        folders.append(folder)
    n = sum(len(records) for _, records in sets["train"])
    return data, folders, n


# -- runs -------------------------------------------------------------------

def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train(args, data, hide, epochs, seed, weights, warmup, extra=()):
    """One run: (seconds, backward samples)."""
    words = [args.paradl, "train", args.model, "--data", data, "--json",
             "--epochs", str(epochs), "--batch", str(args.batch),
             "--lr", str(args.lr), "--schedule", "cosine", "--warmup",
             str(warmup), "--optimizer", args.optimizer, "--augment",
             "--hide", hide, "--seed", str(seed), "--no-test",
             "--device", args.device, "--save", weights, *extra]
    if args.threads:
        words += ["--threads", str(args.threads)]
    before, first, last = cpu_s(), None, ""
    with subprocess.Popen(words, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            first = first or time.monotonic()
            last = line
        end = time.monotonic()
        if run.wait() != 0:
            raise RuntimeError(run.stderr.read().strip())
    result = json.loads(last)
    seconds = cpu_s() - before if args.time == "cpu" else end - first
    return seconds, result["steps"] * args.batch


def accuracy(args, data, weights):
    words = [args.paradl, "evaluate", args.model, "--data", data, "--weights",
             weights, "--batch", str(args.batch), "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["accuracy"]


def do_runs(args):
    data, folders, n = prepare(args)
    kept = os.path.join(args.out, "runs.json")
    runs = []
    if os.path.exists(kept):
        with open(kept) as f:
            runs = json.load(f)
    weights = os.path.join(args.out, "w.safetensors")
    start = 0.0
    if args.time == "cpu":  # what starting costs, once
        start = train(args, data, "none", 1, 0, weights, 0,
                      ("--steps", "1"))[0]
    for seed in range(args.seeds):
        for name, hide, share in METHODS:
            if args.only and not any(o in name for o in args.only.split(",")):
                continue
            key = [name, seed, args.epochs]
            if any(r["key"] == key for r in runs):
                continue
            epochs = max(1, round(share * args.epochs))
            warmup = epochs * (n // args.batch) // 6
            try:
                seconds, backward = train(args, data, hide, epochs, seed,
                                          weights, warmup)
            except RuntimeError as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
            runs.append({"key": key, "name": name, "seed": seed,
                         "seconds": seconds - start, "backward": backward,
                         "accuracy": accuracy(args, data, weights),
                         "worst": min(accuracy(args, f, weights)
                                      for f in folders)})
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
            with open(kept + ".new", "w") as f:
                json.dump(runs, f, indent=1)
            os.rename(kept + ".new", kept)
    return [r for r in runs if r["key"][2] == args.epochs]


# -- what they say ----------------------------------------------------------

def mean(x):
    return sum(x) / len(x)


def deviation(x):
    return math.sqrt(sum((v - mean(x)) ** 2 for v in x) / (len(x) - 1)) \
        if len(x) > 1 else math.nan


def at(points, x):
    """Plain training, straight between its runs; None outside."""
    points = sorted(points)
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def summarise(runs):
    full = {r["seed"]: r for r in runs if r["name"] == "full"}
    rows = []
    for name, _, _ in METHODS:
        some = [r for r in runs if r["name"] == name and r["seed"] in full]
        if not some:
            continue
        gaps = [100 * (r["accuracy"] - full[r["seed"]]["accuracy"])
                for r in some]
        rows.append({
            "name": name, "seeds": len(some),
            "accuracy": 100 * mean([r["accuracy"] for r in some]),
            "sd": 100 * deviation([r["accuracy"] for r in some]),
            "gap": mean(gaps),
            "se": deviation(gaps) / math.sqrt(len(gaps)),
            "worst": 100 * mean([r["worst"] for r in some]),
            "backward": mean([r["backward"] / full[r["seed"]]["backward"]
                              for r in some]),
            "time": mean([r["seconds"] / full[r["seed"]]["seconds"]
                          for r in some])})
    plain = [r for r in rows if r["name"] == "full" or
             r["name"].startswith("plain")]
    for r in rows:
        for key in ("time", "backward"):
            y = at([(p[key], p["accuracy"]) for p in plain], r[key])
            r["plain_" + key] = None if y is None else r["accuracy"] - y
    return rows


def number(x, form="%+.2f"):
    return "" if x is None or math.isnan(x) else form % x


def table(rows):
    out = ["| method | seeds | test % (sd) | to full (SE) | worst class "
           "| backward | time | to plain of the same time | ... backward |",
           "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        plain = r["name"] == "full" or r["name"].startswith("plain")
        out.append(
            f"| {r['name']} | {r['seeds']} | {r['accuracy']:.2f} "
            f"({number(r['sd'], '%.2f')}) | {number(r['gap'])} "
            f"({number(r['se'], '%.2f')}) | {r['worst']:.1f} "
            f"| {r['backward']:.3f} | {r['time']:.3f} "
            f"| {'' if plain else number(r['plain_time'])} "
            f"| {'' if plain else number(r['plain_backward'])} |")
    return "\n".join(out)


def plot(rows, key, title, path):
    """Accuracy against a share of the full run: plain training as a line."""
    w, h, pad = 640, 420, 60
    xs = [r[key] for r in rows]
    ys = [r["accuracy"] for r in rows]
    x0, x1, y0, y1 = min(xs) - .03, max(xs) + .03, min(ys) - .5, max(ys) + .5

    def px(x):
        return pad + (x - x0) / (x1 - x0) * (w - 2 * pad)

    def py(y):
        return h - pad - (y - y0) / (y1 - y0) * (h - 2 * pad)
    plain = sorted((r[key], r["accuracy"]) for r in rows if r["name"] == "full"
                   or r["name"].startswith("plain"))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{w}" height="{h}" fill="white"/>',
           f'<text x="{w / 2}" y="20" text-anchor="middle">{title}</text>',
           f'<polyline fill="none" stroke="#888" points="'
           + " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in plain) + '"/>']
    for r in rows:
        x, y = px(r[key]), py(r["accuracy"])
        grey = r["name"] == "full" or r["name"].startswith("plain")
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" '
                   f'fill="{"#888" if grey else "#06c"}"/>')
        if not grey or r["name"] == "full":
            out.append(f'<text x="{x + 6:.1f}" y="{y - 5:.1f}">{r["name"]}'
                       '</text>')
    for i in range(5):
        x, y = x0 + (x1 - x0) * i / 4, y0 + (y1 - y0) * i / 4
        out.append(f'<text x="{px(x):.1f}" y="{h - pad + 18}" '
                   f'text-anchor="middle">{x:.2f}</text>')
        out.append(f'<text x="{pad - 6}" y="{py(y):.1f}" text-anchor="end">'
                   f'{y:.1f}</text>')
    out.append(f'<text x="{w / 2}" y="{h - 12}" text-anchor="middle">share of '
               f'the full run\'s {key}</text></svg>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.
                                RawDescriptionHelpFormatter)
    p.add_argument("paradl")
    p.add_argument("--data", required=True)
    p.add_argument("--model", default=os.path.join(
        HERE, "..", "examples", "resnet18-cifar.yaml"))
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--lr", type=float, default=0.3)
    p.add_argument("--optimizer",
                   default="sgd:momentum=0.9,nesterov=1,weight_decay=5e-4")
    p.add_argument("--device", default="auto")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--samples", type=int, default=0)
    p.add_argument("--time", choices=("wall", "cpu"), default="wall")
    p.add_argument("--only", help="methods whose name has one of these words")
    p.add_argument("--out", default="methods")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rows = summarise(do_runs(args))
    text = table(rows)
    with open(os.path.join(args.out, "table.md"), "w") as f:
        f.write(text + "\n")
    for key in ("time", "backward"):
        plot(rows, key, "test accuracy, %", os.path.join(args.out,
                                                         f"{key}.svg"))
    shutil.rmtree(os.path.join(args.out, "data"), ignore_errors=True)
    print(text)


if __name__ == "__main__":
    main()
