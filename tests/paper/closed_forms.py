#!/usr/bin/env python3
"""The closed forms of the ParaDL papers, against the plan.

With exchange=paper, ideal parameters and memory=paper, the computation,
communication and memory that `paradl project` prices from the plan must equal
the formulas of the report "A Model-driven Analysis of the Practical Limits of
Large-scale DNN Training" (2020), Table III, to 1e-9, for every number of PEs
that divides what it cuts. The formulas are computed here from layer shapes
alone; only which layers form a pipeline stage is taken from the plan (the
papers leave it open), and the times of layers without FLOPs, parameters of the
formulas, from the plan for one PE.

Flaws and gaps of the printed formulas, documented by what is compared:
 - filter and channel: the printed factor 3 sums |y_l| over l < G and reads the
   gradient's volume as |y_(l-1)|. Pooling makes |x_l| differ from |y_(l-1)|;
   here forward sums |y_l| and backward |x_l|, as Section 3 of the report
   derives. The last layer's output is gathered too (the loss needs it), which
   the printed sum leaves out.
 - |w|/p of filter and channel holds for convolutions and linear layers;
   normalisation is not split (its weights are whole), and a channel split
   leaves the bias whole.
 - BW of the first layer: there is no gradient of the image. The bias, which
   the report neglects, is added after a channel split's sums have met.
 - pipeline: the printed term multiplies WU by the epoch's samples; a stage
   updates once a step. Its communication is the lock step's: between two of
   the p+S-1 slots of a pass all neighbours exchange.
 - layer (one micro-batch) is printed as serial: that holds for FW and BW; the
   update runs on every stage at once, the critical one counts. Its
   communication 2 sum_i(alpha + B |y_Gi| delta beta) is the tool's.
 - |y_Gi| is one tensor only where a stage ends between blocks; a shortcut
   that crosses the border is sent too.
 - spatial: no printed term for the layers after the rows end. Here: samples
   are exchanged for rows before a flatten (all-to-all), sums of a global
   pool meet (allreduce). halo() is the count by window and split.
 - data+spatial and data+pipeline are in no table: they are the products.
"""
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile

paradl = sys.argv[1]
SYSTEM = "abci-v100"
DELTA = 4
UPDATE = 5  # SGD with momentum reads w, dw and the momentum, writes w and it


def run(*args):
    out = subprocess.run([paradl, *args, "--json"], capture_output=True, text=True)
    if out.returncode not in (0, 1):
        sys.exit(f"paradl {' '.join(args)}: {out.stderr}")
    return json.loads(out.stdout)


system = run("system", "show", SYSTEM)
peak = 15.7e12
memory_rate = system["pe"]["memory_bandwidth_bytes_per_s"]


def wire(p, of=None):
    """alpha and beta of the level that p consecutive PEs cross, in the worst
    of the groups of p that `of` PEs form."""
    for level in system["levels"]:
        n = level["pes"]
        if all(k // n == (k + p - 1) // n for k in range(0, of or p, p)):
            return level["latency_s"], 1 / level["flow_bandwidth_bytes_per_s"]
    sys.exit("too many PEs")


def prod(shape):
    return math.prod(shape)


class Model:
    def __init__(self, name):
        layers = run("model", "show", name, "--layers")["layers"]
        self.name = name
        self.layers = layers
        self.weighted = [l for l in layers if l["op"] in ("conv", "linear")]
        self.params = sum(l["parameters"] for l in layers)
        self.split = sum(l["parameters"] for l in self.weighted)
        self.kernels = sum(prod(l["w"]) for l in self.weighted)

    def compute(self, batch, weighted_share):
        """sum of FW + BW of the layers with FLOPs, per step."""
        t = 0
        for i, l in enumerate(self.weighted):
            passes = 2 if i == 0 else 3
            t += passes * l["forward_flops"] * batch * weighted_share / peak
        return t

    def act(self, layers=None):
        """sum of |x| + |y|; an add has two inputs."""
        n = 0
        for l in self.layers if layers is None else layers:
            n += prod(l["x"]) + prod(l["y"])
            n += prod(l["y"]) if l["op"] == "add" else 0
        return n


def allreduce(p, m, of=None):
    a, b = wire(p, of)
    return 2 * (p - 1) * (a + m / p * b)


def allgather(p, m, of=None):
    """m: what one PE contributes."""
    a, b = wire(p, of)
    return (p - 1) * (a + m * b)


def check(what, got, want, tolerance=1e-9):
    global compared
    compared += 1
    error = abs(got - want) / max(abs(want), 1e-30)
    if got == want == 0:
        error = 0
    if error > tolerance:
        print(f"FAILED {what}: {got!r}, the formula gives {want!r} ({error:.2e})")
        return 1
    return 0


def project(model, strategy, batch, *more):
    return run("project", model.name, "--system", SYSTEM, "--strategy",
               strategy + ",exchange=paper,memory=paper", "--batch", str(batch),
               "--parameters", "ideal", "--layers", *more)


def check_memory(m, what, x, values, weights):
    return check(f"{m.name} {what} memory", x["memory"]["allocated_bytes"],
                 2 * DELTA * (values + weights))


def weighted_seconds(model, x):
    """What the plan's operations of the layers with FLOPs take together."""
    names = {l["name"] for l in model.weighted}
    passes = ("forward", "backward-data", "backward-weights")
    t = 0
    for op in x["operations"]:
        what, _, name = op["name"].partition(" ")
        if what in passes and name in names:
            t += op["seconds"]
    return t


def data(m, p, batch):
    x = project(m, f"data={p}", batch)
    what = f"data={p}"
    bad = check(f"{m.name} {what} compute", weighted_seconds(m, x), m.compute(batch, 1 / p))
    bad += check(f"{m.name} {what} comm", x["comm_s"], allreduce(p, m.params * DELTA) if p > 1 else 0)
    bad += check(f"{m.name} {what} update", x["time"]["update_s"], UPDATE * DELTA * m.params / memory_rate)
    return bad + check_memory(m, what, x, batch / p * m.act(), m.params)


def feature(m, axis, p, batch):
    """filter: gather y, sum dx. channel: sum y, gather x's gradient's dual,
    i.e. dy is whole and dx is cut, so the gather is of dx for the layer below.
    """
    x = project(m, f"{axis}={p}", batch)
    what = f"{axis}={p}"
    image = m.layers[0]["x"]
    comm = cut = 0
    for l in m.weighted:
        first = l["x"] == image
        if axis == "filter":
            cut += l["parameters"]
            comm += allgather(p, batch * prod(l["y"]) / p * DELTA)
            if not first:
                comm += allreduce(p, batch * prod(l["x"]) * DELTA)
        elif not first or image[0] >= p:  # fewer image channels: replicated
            cut += prod(l["w"])
            comm += allreduce(p, batch * prod(l["y"]) * DELTA)
            if not first:
                comm += allgather(p, batch * prod(l["x"]) / p * DELTA)
    bad = check(f"{m.name} {what} comm", x["comm_s"], comm)
    if axis == "filter" or image[0] >= p:
        late = sum(prod(l["y"]) for l in m.weighted if l["parameters"] > prod(l["w"]))
        late *= 2 * batch * DELTA / memory_rate if axis == "channel" else 0
        bad += check(f"{m.name} {what} compute", weighted_seconds(m, x),
                     m.compute(batch, 1 / p) + late)
    weights = m.params - cut + cut / p
    bad += check(f"{m.name} {what} update", x["time"]["update_s"], UPDATE * DELTA * weights / memory_rate)
    return bad + check_memory(m, what, x, batch * m.act(), weights)


# ---- spatial ------------------------------------------------------------------

def window(m, l):
    """kernel, stride, low padding of a convolution or pool along a row."""
    if l["op"] == "conv":
        k = l["w"][2]
        stride = round(l["x"][1] / l["y"][1])
        return k, stride, (k - 1) // 2
    if l["op"] in ("max_pool", "avg_pool"):
        return (3, 2, 1) if m.name.startswith("resnet") else (2, 2, 0)
    return None


def part(n, p, i):
    return i * n // p, (i + 1) * n // p


def reads(w, x, y, lo, hi):
    """Input rows that outputs [lo, hi) read."""
    k, q, a = w
    return max(lo * q - a, 0), min((hi - 1) * q - a + k, x)


def readers(w, x, y, lo, hi):
    """Outputs that read input rows [lo, hi)."""
    k, q, a = w
    return max(-(-(lo + a - k + 1) // q), 0), min((hi - 1 + a) // q + 1, y)


def messages(have, want, split, alpha, beta):
    """The slowest rank's messages: boxes of `have` rows that it wants and has
    not, from each neighbour; `split`: parts of both dimensions, `beta`: seconds an item of all channels and samples."""
    worst = 0
    ranks = list(itertools.product(range(split[0]), range(split[1])))
    for me in ranks:
        need = [want(d, me[d]) for d in (0, 1)]
        mine = [have(d, me[d]) for d in (0, 1)]
        t = 0
        for peer in ranks:
            if peer == me:
                continue
            n = own = 1
            for d in (0, 1):
                lo, hi = have(d, peer[d])
                lo, hi = max(lo, need[d][0]), min(hi, need[d][1])
                n *= max(hi - lo, 0)
                own *= max(min(hi, mine[d][1]) - max(lo, mine[d][0]), 0)
            if n - own > 0:
                t += alpha + (n - own) * beta
        worst = max(worst, t)
    return worst


def halo(m, split, batch, span):
    """Of x forward, of dy backward; a max pool's positions go with dy."""
    a, b = wire(span)
    total = 0
    for i, l in enumerate(m.layers):
        w = window(m, l)
        if not w:
            continue
        x, y = l["x"], l["y"]
        xr, yr = x[1:3], y[1:3]
        rest = prod(x[3:])
        total += messages(lambda d, j: part(xr[d], split[d], j),
                          lambda d, j: reads(w, xr[d], yr[d], *part(yr[d], split[d], j)),
                          split, a, batch * x[0] * rest * DELTA * b)
        if i > 0:
            times = 2 if l["op"] == "max_pool" else 1
            total += times * messages(
                lambda d, j: part(yr[d], split[d], j),
                lambda d, j: readers(w, xr[d], yr[d], *part(xr[d], split[d], j)),
                split, a, batch * y[0] * rest * DELTA * b)
    return total


def tail(m, p, batch):
    """What follows the rows: all-to-all before a flatten, forward and back;
    the sums of a global pool."""
    a, b = wire(p)
    for l in m.layers:
        if l["op"] == "global_avg_pool":
            return 2 * (p - 1) * (a + batch * l["y"][0] / p * DELTA * b)
        if l["op"] == "flatten":
            x = l["x"]
            worst = 0
            for me in range(p):  # from every peer: its rows of my samples
                lo, hi = part(batch, p, me)
                t = 0
                for peer in range(p):
                    if peer == me:
                        continue
                    f, g = part(x[1], p, peer)
                    t += a + (hi - lo) * (g - f) * x[0] * prod(x[2:]) * DELTA * b
                worst = max(worst, t)
            back = 0
            for me in range(p):  # my rows of every peer's samples
                f, g = part(x[1], p, me)
                t = 0
                for peer in range(p):
                    if peer == me:
                        continue
                    lo, hi = part(batch, p, peer)
                    t += a + (hi - lo) * (g - f) * x[0] * prod(x[2:]) * DELTA * b
                back = max(back, t)
            return worst + back
    return 0


def spatial(m, p1, split, batch):
    p2 = prod(split)
    p = p1 * p2
    text = f"{split[0]}x{split[1]}" if split[1] > 1 else f"{split[0]}"
    what = (f"data={p1}," if p1 > 1 else "") + f"spatial={text}"
    x = project(m, what + ",bn=local", batch)
    bad = check(f"{m.name} {what} halo", x["time"]["halo_s"], halo(m, split, batch / p1, p2))
    bad += check(f"{m.name} {what} gradients", x["time"]["gradient_comm_s"],
                 gradients_of(m, p1, p2))
    pooled = any(l["op"] == "global_avg_pool" for l in m.layers)
    conv = sum(l["forward_flops"] for l in m.weighted if l["op"] == "conv")
    linear = sum(l["forward_flops"] for l in m.weighted if l["op"] == "linear")
    flops = 3 * conv - m.weighted[0]["forward_flops"] + 3 * linear * (p2 if pooled else 1)
    if split[1] == 1:
        bad += check(f"{m.name} {what} tail", x["time"]["layer_comm_s"], tail(m, p2, batch // p1))
        bad += check(f"{m.name} {what} compute", weighted_seconds(m, x), flops * batch / p / peak)
    if all(l["x"][1] % split[0] == 0 and l["y"][1] % split[0] == 0
           for l in m.layers if len(l["x"]) > 2 and len(l["y"]) > 2) and split[1] == 1:
        rows = sum(m.act([l]) for l in m.layers if len(l["x"]) > 1 and len(l["y"]) > 1)
        # a flatten or pool ends the rows; what follows is cut by samples, or
        # whole where the pool's sums are everywhere
        rest = 0
        for l in m.layers:
            if len(l["x"]) > 1 and len(l["y"]) > 1:
                continue
            for v in ("x", "y"):
                n = prod(l[v])
                rest += n if pooled and not (l["op"] == "global_avg_pool" and v == "x") else n / p2
        bad += check_memory(m, what, x, batch / p1 * (rows / p2 + rest), m.params)
    return bad


def gradients_of(m, p1, p2):
    """All PEs sum all gradients; behind a global pool every rank of a spatial
    group has the whole gradient already: those cross the samples' groups."""
    pooled = any(l["op"] == "global_avg_pool" for l in m.layers)
    whole = sum(l["parameters"] for l in m.weighted if l["op"] == "linear") if pooled else 0
    a, b = wire(p1 * p2)
    p = p1 * p2
    t = 2 * (p - 1) * (a + (m.params - whole) / p * DELTA * b)
    if whole and p1 > 1:
        t += 2 * (p1 - 1) * (a + whole / p1 * DELTA * b)
    return t


def data_filter(m, p1, p2, batch):
    """Filters inside, samples outside: gathers among p2 neighbours, gradients
    of a shard among p1 (the formula's |w|/p2; batch-norm weights are whole)."""
    x = project(m, f"data={p1},filter={p2}", batch)
    what = f"data={p1},filter={p2}"
    image = m.layers[0]["x"]
    comm = 0
    for l in m.weighted:
        comm += allgather(p2, batch / p1 * prod(l["y"]) / p2 * DELTA, p1 * p2)
        if l["x"] != image:
            comm += allreduce(p2, batch / p1 * prod(l["x"]) * DELTA, p1 * p2)
    bad = check(f"{m.name} {what} layers", x["time"]["layer_comm_s"], comm)
    weights = m.split / p2 + m.params - m.split
    a, b = wire(p1 * p2)
    gradients = 2 * (p1 - 1) * (a + weights / p1 * DELTA * b)
    bad += check(f"{m.name} {what} gradients", x["time"]["gradient_comm_s"], gradients)
    bad += check(f"{m.name} {what} compute", weighted_seconds(m, x),
                 m.compute(batch, 1 / (p1 * p2)))
    return bad + check_memory(m, what, x, batch / p1 * m.act(), weights)


# ---- pipeline -------------------------------------------------------------------

def stages_of(m, path):
    """Layers of each stage and the tensors it sends on, read off the plan."""
    layers, sent, names, stage = {}, {}, {}, None
    by_name = {l["name"]: l for l in m.layers}
    for line in open(path):
        words = line.split()
        if re.match(r"t\d+ ", line):
            names[words[0]] = words[1]
        elif words[0] == "program":
            stage = int(words[2]) if words[1] == "forward" else None
        elif stage is not None and len(words) > 2 and words[1] == "forward" and words[2] in by_name:
            layers.setdefault(stage, []).append(by_name[words[2]])
        elif stage is not None and len(words) > 3 and words[1] == "send":
            sent.setdefault(stage, []).append(names[words[3]].removesuffix(".y"))
    return [layers[s] for s in sorted(layers)], \
        [[by_name[n] for n in sent.get(s, [])] for s in sorted(layers)]


def seconds_of(m, batch, cache={}):
    """FW and BW of every layer for so many samples, and the loss."""
    if (m.name, batch) not in cache:
        t = {}
        for op in project(m, "data=1", batch)["operations"]:
            what, _, name = op["name"].partition(" ")
            if what in ("forward", "backward-data", "backward-weights"):
                key = ("F" if what == "forward" else "B", name)
                t[key] = t.get(key, 0) + op["seconds"]
        cache[m.name, batch] = t
    return cache[m.name, batch]


def pipeline(m, p1, p, micro, batch):
    what = f"pipe={p}(gpipe,m={micro})" + (f",data={p1}" if p1 > 1 else "")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "x.plan")
        x = project(m, what, batch, "--emit", path)
        stages, sent = stages_of(m, path)
    n = batch / micro / p1  # samples of a micro-batch on one PE
    t = seconds_of(m, batch // micro // p1)
    fw = [sum(t.get(("F", l["name"]), 0) for l in s) for s in stages]
    bw = [sum(t.get(("B", l["name"]), 0) for l in s) for s in stages]
    fw[-1] += t[("F", "loss")]
    wu = [UPDATE * DELTA * sum(l["parameters"] for l in s) / memory_rate for s in stages]
    a, b = wire(p * p1)
    send = [sum(a + n * prod(l["y"]) * DELTA * b for l in s) for s in sent]
    assert len(stages) == p
    if micro > 1:
        compute = (p + micro - 1) * (max(fw) + max(bw)) + max(wu)
        comm = 2 * (p + micro - 2) * max(send)
        bad = check(f"{m.name} {what} compute", x["compute_s"] + x["time"]["bubble_s"], compute)
        bad += check(f"{m.name} {what} messages", x["time"]["p2p_s"], comm)
    else:
        gradients = x["time"]["gradient_comm_s"]
        step = sum(fw) + sum(bw) + 2 * sum(send) + gradients
        bad = check(f"{m.name} {what} step", x["step_s"] - x["time"]["update_s"], step)
    if p1 > 1:
        if micro > 1:
            bad += check(f"{m.name} {what} gradients", x["time"]["gradient_comm_s"],
                         max(2 * (p1 - 1) * (a1 + sum(l["parameters"] for l in s) / p1 * DELTA * b1)
                             for s in stages for a1, b1 in [wire(p1)]
                             if any(l["parameters"] for l in s)))
    memory = max(batch / p1 * m.act(s) + sum(l["parameters"] for l in s) for s in stages)
    return bad + check(f"{m.name} {what} memory", x["memory"]["allocated_bytes"], 2 * DELTA * memory)


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


bad = compared = 0
models = {name: Model(name) for name in ("alexnet", "vgg16", "resnet50", "cosmoflow:size=128")}
for m in models.values():
    for p in divisors(240):
        bad += data(m, p, 240)
    filters = math.gcd(*(l["w"][0] for l in m.weighted))
    for p in divisors(filters)[1:]:
        bad += feature(m, "filter", p, 64)
        for p1 in (2, 3, 16):
            bad += data_filter(m, p1, p, 48)
    image = m.layers[0]["x"][0]
    for p in divisors(math.gcd(*(l["w"][1] for l in m.weighted[1:])))[1:]:
        if p > image or image % p == 0:
            bad += feature(m, "channel", p, 64)
    for p in (2, 3, 4, 7, 8):
        for micro in (1, 2, 8, 24):
            bad += pipeline(m, 1, p, micro, 48)
    bad += pipeline(m, 2, 4, 8, 48)
    bad += pipeline(m, 4, 2, 4, 48)
# rows: only p that divides them (no p divides AlexNet's 55, 27, 13 or
# CosmoFlow's 61 and 63)
for name, sizes in (("vgg16", (7,)), ("resnet50", (7,)), ("vgg16:input=256", (2, 4, 8)),
                    ("resnet:depth=50,input=256", (2, 4, 8))):
    m = Model(name)
    for p in sizes:
        bad += spatial(m, 1, (p, 1), 56)
        bad += spatial(m, 2, (p, 1), 112)
        bad += spatial(m, 4, (p, 1), 224)
    if 4 in sizes:
        bad += spatial(m, 1, (2, 2), 64)
        bad += spatial(m, 1, (4, 2), 64)
        bad += spatial(m, 2, (2, 2), 64)
print(f"{compared} closed forms compared, {bad} differ")
sys.exit(bad != 0 or compared == 0)
