#!/usr/bin/env python3
"""The closed forms of the ParaDL papers, against the plan.

With exchange=paper, ideal parameters and memory=paper, the computation,
communication and memory that `paradl project` prices from the plan must equal
the formulas of the report "A Model-driven Analysis of the Practical Limits of
Large-scale DNN Training" (2020), Table III, to 1e-9. The formulas are computed
here from layer shapes alone.

Two flaws of the printed formulas are documented by what is compared:
 - filter and channel: the printed factor 3 sums |y_l| over l < G and reads the
   gradient's volume as |y_(l-1)|. Pooling makes |x_l| differ from |y_(l-1)|;
   here forward sums |y_l| and backward |x_l|, as Section 3 of the report
   derives. The last layer's output is gathered too (the loss needs it), which
   the printed sum leaves out.
 - BW of the first layer: there is no gradient of the image.
"""
import json
import math
import subprocess
import sys

paradl = sys.argv[1]
SYSTEM = "abci-v100"
DELTA = 4


def run(*args):
    out = subprocess.run([paradl, *args, "--json"], capture_output=True, text=True)
    if out.returncode not in (0, 1):
        sys.exit(f"paradl {' '.join(args)}: {out.stderr}")
    return json.loads(out.stdout)


system = run("system", "show", SYSTEM)
peak = 15.7e12


def wire(p):
    """alpha and beta of the level that p consecutive PEs cross."""
    for level in system["levels"]:
        if p <= level["pes"]:
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

    def compute(self, batch, weighted_share):
        """sum of FW + BW of the layers with FLOPs, per step."""
        t = 0
        for i, l in enumerate(self.weighted):
            passes = 2 if i == 0 else 3
            t += passes * l["forward_flops"] * batch * weighted_share / peak
        return t


def allreduce(p, m):
    a, b = wire(p)
    return 2 * (p - 1) * (a + m / p * b)


def allgather(p, m):
    """m: what one PE contributes."""
    a, b = wire(p)
    return (p - 1) * (a + m * b)


def check(what, got, want, tolerance=1e-9):
    error = abs(got - want) / max(abs(want), 1e-30)
    if error > tolerance:
        print(f"FAILED {what}: {got!r}, the formula gives {want!r} ({error:.2e})")
        return 1
    return 0


def project(model, strategy, batch):
    return run("project", model.name, "--system", SYSTEM, "--strategy",
               strategy + ",exchange=paper,memory=paper", "--batch", str(batch),
               "--parameters", "ideal", "--layers")


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
    act = sum(prod(l["x"]) + prod(l["y"]) for l in m.layers)
    act += sum(prod(l["y"]) for l in m.layers if l["op"] == "add")  # two inputs
    bad = check(f"{m.name} data={p} compute", weighted_seconds(m, x), m.compute(batch, 1 / p))
    bad += check(f"{m.name} data={p} comm", x["comm_s"], allreduce(p, m.params * DELTA) if p > 1 else 0)
    if m.name in ("alexnet", "vgg16"):
        bad += check(f"{m.name} data={p} memory", x["memory"]["allocated_bytes"],
                     2 * DELTA * (batch / p * act + m.params))
    return bad


def feature(m, axis, p, batch):
    """filter: gather y, sum dx. channel: sum y, gather x's gradient's dual,
    i.e. dy is whole and dx is cut, so the gather is of dx for the layer below.
    """
    x = project(m, f"{axis}={p}", batch)
    image = m.layers[0]["x"]
    comm = 0
    for l in m.weighted:
        first = l["x"] == image
        if axis == "filter":
            comm += allgather(p, batch * prod(l["y"]) / p * DELTA)
            if not first:
                comm += allreduce(p, batch * prod(l["x"]) * DELTA)
        elif not first or image[0] >= p:  # fewer image channels: replicated
            comm += allreduce(p, batch * prod(l["y"]) * DELTA)
            if not first:
                comm += allgather(p, batch * prod(l["x"]) / p * DELTA)
    bad = check(f"{m.name} {axis}={p} comm", x["comm_s"], comm)
    if axis == "filter":
        bad += check(f"{m.name} {axis}={p} compute", weighted_seconds(m, x),
                     m.compute(batch, 1 / p))
    return bad


def spatial(m, p, batch):
    """3x3 convolutions of stride 1 need a row from each side; 2x2 pools of
    even parts need none."""
    x = project(m, f"spatial={p}", batch)
    a, b = wire(p)
    halo = 0
    for i, l in enumerate(m.layers):
        if l["op"] != "conv":
            continue
        row = batch * DELTA * b
        halo += 2 * (a + l["x"][0] * l["x"][2] * row)  # x, forward
        if i > 0:
            halo += 2 * (a + l["y"][0] * l["y"][2] * row)  # dy, backward
    bad = check(f"{m.name} spatial={p} halo", x["time"]["halo_s"], halo)
    bad += check(f"{m.name} spatial={p} gradients", x["time"]["gradient_comm_s"],
                 allreduce(p, m.params * DELTA))
    bad += check(f"{m.name} spatial={p} compute", weighted_seconds(m, x),
                 m.compute(batch, 1 / p))
    return bad


def data_filter(m, p1, p2, batch):
    """Filters inside, samples outside: gathers among p2 neighbours, gradients
    of a shard among p1 (the formula's |w|/p2; batch-norm weights are whole)."""
    x = project(m, f"data={p1},filter={p2}", batch)
    image = m.layers[0]["x"]
    comm = 0
    for l in m.weighted:
        comm += allgather(p2, batch / p1 * prod(l["y"]) / p2 * DELTA)
        if l["x"] != image:
            comm += allreduce(p2, batch / p1 * prod(l["x"]) * DELTA)
    bad = check(f"{m.name} data={p1},filter={p2} layers", x["time"]["layer_comm_s"], comm)
    a, b = wire(p1 * p2)
    gradients = 2 * (p1 - 1) * (a + m.params / p2 / p1 * DELTA * b)
    return bad + check(f"{m.name} data={p1},filter={p2} gradients",
                       x["time"]["gradient_comm_s"], gradients)


bad = n = 0
for name in ("alexnet", "vgg16", "resnet50", "cosmoflow:size=128"):
    m = Model(name)
    for p in (1, 2, 4, 8, 16, 64, 128, 512):
        bad += data(m, p, 1024)
        n += 1
    for p in (2, 4, 8, 16, 32, 64):
        if all(l["w"][0] % p == 0 for l in m.weighted):
            bad += feature(m, "filter", p, 64)
            n += 1
        image = m.layers[0]["x"][0]
        if (p > image or image % p == 0) and all(l["w"][1] % p == 0 for l in m.weighted[1:]):
            bad += feature(m, "channel", p, 64)
            n += 1
for p1, p2 in ((4, 4), (16, 4), (32, 2), (2, 8)):
    bad += data_filter(Model("vgg16"), p1, p2, 256)
    n += 1
bad += spatial(Model("vgg16:input=256"), 4, 32)
bad += spatial(Model("vgg16:input=256"), 8, 32)
n += 2
print(f"{n} closed forms compared, {bad} differ")
sys.exit(bad != 0 or n == 0)
