#!/usr/bin/env python3
"""Random flows with their own starts on random fat trees, tori and
dragonflies, by SimGrid and by ParaDL, compared flow by flow.
  simgrid_flows.py OURS SIMGRID [COUNT [SEED]]"""
import os
import random
import subprocess
import sys
import tempfile

ours, theirs = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 20
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
CONFIG = [
    "--cfg=network/" + c
    for c in ("model:CM02", "crosstraffic:0", "weight-S:0", "TCP-gamma:1e30",
              "optim:Full")
] + ["--cfg=maxmin/precision:1e-8", "--cfg=surf/precision:1e-12",
     "--log=root.thres:error"]
HEAD = ("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
        '"https://simgrid.org/simgrid.dtd">\n<platform version="4.1">')


def sized(make):
    while True:
        kind, parameters, spec, n = make()
        if 3 <= n <= 100:
            return kind, parameters, spec, n


def fat_tree():
    h = rng.randint(1, 3)
    down, up, links = ([rng.randint(1, 6) for _ in range(h)] for _ in range(3))
    up[0] = 1
    n = 1
    for d in down:
        n *= d
    return ("FAT_TREE", "%d;%s;%s;%s" % (h, *(",".join(map(str, x))
                                              for x in (down, up, links))),
            "fat-tree:down=%s,up=%s,links=%s" %
            tuple("x".join(map(str, x)) for x in (down, up, links)), n)


def torus():
    dims = [rng.randint(2, 8) for _ in range(rng.randint(1, 3))]
    n = 1
    for d in dims:
        n *= d
    return ("TORUS", ",".join(map(str, dims)),
            "torus:" + "x".join(map(str, dims)), n)


def dragonfly():
    r, c, k = rng.randint(2, 6), rng.randint(1, 4), rng.randint(1, 3)
    g = rng.randint(1, r)
    blue, black, green = (rng.randint(1, 3) for _ in range(3))
    return ("DRAGONFLY",
            "%d,%d;%d,%d;%d,%d;%d" % (g, blue, c, black, r, green, k),
            "dragonfly:groups=%d,blue=%d,chassis=%d,black=%d,routers=%d,"
            "green=%d,nodes=%d" % (g, blue, c, black, r, green, k), g * c * r * k)


def case():
    kind, parameters, spec, n = sized(rng.choice([fat_tree, torus, dragonfly]))
    bw, lat = rng.choice([1, 2.5, 10, 12.5]), rng.choice([1, 3, 20])
    xml = HEAD + ('<cluster id="c" prefix="node-" suffix="" radical="0-%d" '
                  'speed="1Gf" bw="%gGBps" lat="%dus" topology="%s" '
                  'topo_parameters="%s"/></platform>\n' %
                  (n - 1, bw, lat, kind, parameters))
    flows = []
    spread = rng.choice([0, 1e-5, 1e-3])
    for _ in range(rng.randint(1, 3 * n)):
        src = rng.randrange(n)
        dst = (src + rng.randint(1, n - 1)) % n
        size = rng.choice([1, 1000, 10**6, 10**8])
        flows.append("%d %d %d %.9f" % (src, dst, rng.randint(1, 9) * size,
                                        rng.random() * spread))
    return spec + ",bw=%gGB/s,lat=%dus" % (bw, lat), xml, flows


def run(*argv):
    out = subprocess.run(argv, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit("%s: %s" % (" ".join(argv), out.stderr or out.stdout))
    return [float(x) for x in out.stdout.split()]


worst = total = 0
with tempfile.TemporaryDirectory() as tmp:
    for i in range(count):
        spec, xml, flows = case()
        platform, listing = os.path.join(tmp, "p.xml"), os.path.join(tmp, "f")
        with open(platform, "w") as f:
            f.write(xml)
        with open(listing, "w") as f:
            f.write("\n".join(flows) + "\n")
        a = run(ours, spec, listing, "rtt")
        b = run(theirs, platform, listing, *CONFIG)
        if len(a) != len(flows) or len(b) != len(flows):
            sys.exit("case %d: %d and %d times for %d flows" %
                     (i, len(a), len(b), len(flows)))
        for k, (x, y) in enumerate(zip(a, b)):
            off = abs(x - y) / max(1e-6, y)
            worst = max(worst, off)
            if abs(x - y) > 1e-8 * y + 1e-9:
                sys.exit("case %d, %s: flow %d (%s) ends at %.12f, SimGrid's "
                         "at %.12f" % (i, spec, k, flows[k], x, y))
        total += len(flows)
print("simgrid flows: %d cases, %d flows equal, worst relative difference %.1e"
      % (count, total, worst))
