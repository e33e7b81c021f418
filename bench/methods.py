#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods that leave samples out, side by side: equal recipe, several seeds,
accuracy of all classes and of the worst, backward samples, time, and plain
training of the same time and of the same backward samples beside each.

  bench/methods.py PARADL --data DIR [--model MODEL] [--epochs 30] [--seeds 5]
      [--batch 512] [--lr 0.3] [--device cuda] [--samples N] [--out DIR]
      [--shuffle] [--only 'full;KAKURENBO'] [--jobs N]

DIR holds CIFAR-10 in its binary version or (Fashion-)MNIST; tools/get-data.sh
fetches them, nothing is fetched here. The default recipe is ResNet-18 on a GPU
(SGD with Nesterov's momentum, 1/6 of the run warm-up, then cosine to 0, crops
and flips). On a CPU give a small network: --model bench/cnn-cifar.yaml.
--samples takes the first N of each training file, --time cpu counts processor
time instead of the clock's (a machine on which other work runs). Runs that are
in DIR/runs.json are not done again. With --jobs N so many run at a time, one
computes while another starts, and no times are told."""
import argparse
import concurrent.futures
import gzip
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
    ("plain, 0.87 of the epochs", "none", 0.87),
    ("plain, 0.8 of the epochs", "none", 0.8),
    ("plain, 0.67 of the epochs", "none", 0.67),
    ("plain, 0.5 of the epochs", "none", 0.5),
    ("random 30 %", "random:r=0.3", 1.0),
    ("InfoBatch r=.5", "infobatch:r=0.5", 1.0),
    ("KAKURENBO F=.3", "kakurenbo:f=0.3", 1.0),
    ("KAKURENBO F=.4", "kakurenbo:f=0.4", 1.0),
    ("KAKURENBO, LR by what is hidden", "kakurenbo:f=0.3,lr=realised", 1.0),
    ("IES", "ies", 1.0),
    ("SeTa", "seta", 1.0),
    ("selective backprop", "sb", 1.0),
    ("ISWR", "iswr", 1.0),
)
WORKERS = (  # how many, of the batch and of the learning rate, warm-up
    (64, 1, 1, 1 / 6),
    (512, 4, 3, 1 / 3),
)


def hiding(args):
    """Rows: what each is called, compared with, and asked for."""
    return [{"name": name, "base": "full", "words": ["--hide", hide],
             "share": share, "batch": args.batch, "lr": args.lr,
             "warmup": 1 / 6} for name, hide, share in METHODS]


def shuffling(args):
    """Samples sorted by class on workers, with batch norm of a worker's own
    samples (bn-groups=) or of all; --shuffle global has all samples
    everywhere."""
    rows = []
    for workers, batch, lr, warmup in WORKERS:
        for norm in ("own", "all"):
            for way in ("global", "local", "partial", "pair"):
                shuffle = way if way == "global" else \
                    f"{way}:workers={workers},place=class" + \
                    ("" if way == "local" else ",q=0.3")
                tail = f" {workers} workers, batch norm of {norm}"
                words = ["--shuffle", shuffle]
                if norm == "own":
                    words += ["--strategy", f"bn-groups={workers}"]
                rows.append({
                    "name": f"{way},{tail}", "base": f"global,{tail}",
                    "words": words, "share": 1, "batch": args.batch * batch,
                    "lr": args.lr * lr, "warmup": warmup})
    return rows


# -- data -------------------------------------------------------------------

def first_of(path, target, head, size, n):
    """The first n records of a file of records."""
    zipped = not os.path.exists(path)
    with gzip.open(path + ".gz") if zipped else open(path, "rb") as f:
        top = f.read(head)
        body = f.read(n * size)
    if head:  # an IDX file says how many it has
        top = top[:4] + struct.pack(">I", len(body) // size) + top[8:]
    with open(target, "wb") as f:
        f.write(top + body)


def prepare(args):
    """The data to train with, and how many samples that is."""
    cifar = os.path.exists(os.path.join(args.data, "data_batch_1.bin"))
    n = 50000 if cifar else 60000
    if not args.samples:
        return args.data, n
    data = os.path.join(args.out, "data")
    os.makedirs(data, exist_ok=True)
    files = [(f"data_batch_{i}.bin", 0, 3073) for i in range(1, 6)] + \
        [("test_batch.bin", 0, 3073)] if cifar else \
        [(f"{s}-{k}-ubyte", h, z) for s in ("train", "t10k") for k, h, z in
         (("images-idx3", 16, 784), ("labels-idx1", 8, 1))]
    for name, head, size in files:
        first_of(os.path.join(args.data, name), os.path.join(data, name),
                 head, size, args.samples)
    return data, min(n, args.samples * (5 if cifar else 1))


# -- runs -------------------------------------------------------------------

def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def words_of(args, data, batch):
    words = [args.model, "--data", data, "--batch", str(batch), "--json",
             "--device", args.device]
    return words + (["--threads", str(args.threads)] if args.threads else [])


def train(args, data, row, n, seed, extra=()):
    """One run: its last line, seconds, [(seconds, accuracy)] of its epochs.
    The clock's time begins with the first step and leaves out the tests."""
    epochs = max(1, round(row["share"] * args.epochs))
    warmup = round(row["warmup"] * epochs * (n // row["batch"]))
    words = [args.paradl, "train", *words_of(args, data, row["batch"]),
             "--epochs", str(epochs), "--precision", args.precision, "--lr",
             str(row["lr"]), "--schedule", "cosine", "--warmup", str(warmup),
             "--optimizer", args.optimizer, "--augment", "--seed", str(seed),
             *row["words"], *extra]
    before, first, lines = cpu_s(), None, []
    with subprocess.Popen(words, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            first = first or time.monotonic()
            lines.append((time.monotonic() - first, json.loads(line)))
        if run.wait() != 0:
            raise RuntimeError(run.stderr.read().strip())
    last = lines[-1][1]
    ends = [(t, x) for t, x in lines if x.get("epoch_ended")]
    tests = last["test_s"] / max(1, len(ends))
    curve = [(t - (i + 1) * tests, x["accuracy"])
             for i, (t, x) in enumerate(ends) if x.get("accuracy")]
    seconds = cpu_s() - before if args.time == "cpu" \
        else lines[-1][0] - last["test_s"]
    return last, seconds, curve


def one_run(args, data, n, row, seed):
    weights = os.path.join(args.out, "w.safetensors")
    cpu = args.time == "cpu"  # of training alone
    last, seconds, curve = train(
        args, data, row, n, seed,
        ("--no-test", "--save", weights) if cpu else ())
    backward = last["steps"] * row["batch"]
    if cpu:
        done = subprocess.run([args.paradl, "evaluate",
                               *words_of(args, data, row["batch"]),
                               "--weights", weights], check=True,
                              stdout=subprocess.PIPE)
        last = json.loads(done.stdout)
    return {"seconds": seconds, "backward": backward, "curve": curve,
            "accuracy": last["accuracy"], "by_class": last["by_class"]}


def is_asked(args, name):
    return not args.only or any(o in name for o in args.only.split(";"))


def do_runs(args, rows):
    data, n = prepare(args)
    kept = os.path.join(args.out, "runs.json")
    runs = []
    if os.path.exists(kept):
        with open(kept) as f:
            runs = json.load(f)
    start = 0.0
    if args.time == "cpu":  # what starting costs, once
        start = train(args, data, rows[0], n, 0,
                      ("--steps", "1", "--no-test"))[1]
    left = [(row, seed) for seed in range(args.seeds) for row in rows
            if is_asked(args, row["name"]) and
            [row["name"], seed, args.epochs] not in [r["key"] for r in runs]]

    def one(what):
        row, seed = what
        try:
            return one_run(args, data, n, row, seed)
        except RuntimeError as e:
            print(f"{row['name']}: {e}", file=sys.stderr)
            return None
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (row, seed), run in zip(left, pool.map(one, left)):
            if not run:
                continue
            run["seconds"] = None if args.jobs > 1 else run["seconds"] - start
            runs.append({"key": [row["name"], seed, args.epochs],
                         "name": row["name"], "seed": seed, **run})
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
            with open(kept + ".new", "w") as f:
                json.dump(runs, f)
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


def summarise(runs, asked):
    rows = []
    for row in asked:
        name = row["name"]
        full = {r["seed"]: r for r in runs if r["name"] == row["base"]}
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
            "by_class": [100 * mean(c) for c in
                         zip(*(r["by_class"] for r in some))],
            "backward": mean([r["backward"] / full[r["seed"]]["backward"]
                              for r in some]),
            "time": None if any(not r["seconds"] for r in runs) else
            mean([r["seconds"] / full[r["seed"]]["seconds"] for r in some])})
    plain = [r for r in rows if r["name"] == "full" or
             r["name"].startswith("plain")]
    for r in rows:
        for key in ("time", "backward"):
            y = None if r[key] is None else \
                at([(p[key], p["accuracy"]) for p in plain], r[key])
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
            f"({number(r['se'], '%.2f')}) | {min(r['by_class']):.1f} "
            f"| {r['backward']:.3f} | {number(r['time'], '%.3f')} "
            f"| {'' if plain else number(r['plain_time'])} "
            f"| {'' if plain else number(r['plain_backward'])} |")
    return "\n".join(out)


def class_table(rows):
    n = len(rows[0]["by_class"])
    out = ["| method | " + " | ".join(f"class {c}" for c in range(n)) + " |",
           "|---" * (n + 1) + "|"]
    return "\n".join(out + [
        f"| {r['name']} | " + " | ".join(f"{v:.1f}" for v in r["by_class"]) +
        " |" for r in rows])


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
    p.add_argument("--precision", default="bf16")
    p.add_argument("--device", default="auto")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--samples", type=int, default=0)
    p.add_argument("--time", choices=("wall", "cpu"), default="wall")
    p.add_argument("--only", metavar="WORDS;...",
                   help="rows whose name has one of these")
    p.add_argument("--shuffle", action="store_true",
                   help="ways to shuffle on 64 and 512 workers instead")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--out", default="methods")
    args = p.parse_args()
    if args.jobs > 1 and args.time == "cpu":
        p.error("--jobs N knows no processor time")
    os.makedirs(args.out, exist_ok=True)
    asked = shuffling(args) if args.shuffle else hiding(args)
    rows = summarise(do_runs(args, asked), asked)
    if not rows:
        sys.exit("no run to compare the others with")
    text = table(rows) + "\n\n" + class_table(rows)
    with open(os.path.join(args.out, "table.md"), "w") as f:
        f.write(text + "\n")
    for key in ("time", "backward"):
        if all(r[key] is not None for r in rows):
            plot(rows, key, "test accuracy, %",
                 os.path.join(args.out, f"{key}.svg"))
    shutil.rmtree(os.path.join(args.out, "data"), ignore_errors=True)
    print(text)


if __name__ == "__main__":
    main()
