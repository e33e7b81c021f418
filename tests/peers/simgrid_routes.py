#!/usr/bin/env python3
"""Random clusters in SimGrid's own forms: writes the platform, asks SimGrid
and ParaDL for every route and compares them link by link: the same number of
links, the same latency, the same rates, and one SimGrid link for one of ours
wherever it appears.   simgrid_routes.py PARADL ROUTES_PROGRAM [COUNT [SEED]]"""
import os
import random
import subprocess
import sys
import tempfile

paradl, program = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 12
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)


def fat_tree():
    while True:
        h = rng.randint(1, 4)
        down = [rng.randint(1, 6) for _ in range(h)]
        up = [rng.randint(1, 4) for _ in range(h)]
        links = [rng.randint(1, 3) for _ in range(h)]
        n = 1
        for d in down:
            n *= d
        if 2 <= n <= 150:
            break
    xml = "%d;%s;%s;%s" % (h, *(",".join(map(str, x)) for x in (down, up, links)))
    spec = "fat-tree:down=%s,up=%s,links=%s" % tuple(
        "x".join(map(str, x)) for x in (down, up, links))
    return "FAT_TREE", xml, spec, n


def torus():
    while True:
        dims = [rng.randint(1, 9) for _ in range(rng.randint(1, 4))]
        n = 1
        for d in dims:
            n *= d
        if 2 <= n <= 150:
            break
    return ("TORUS", ",".join(map(str, dims)),
            "torus:" + "x".join(map(str, dims)), n)


def dragonfly():
    while True:
        r, c, k = rng.randint(1, 6), rng.randint(1, 4), rng.randint(1, 3)
        g = rng.randint(1, r)
        blue, black, green = (rng.randint(1, 3) for _ in range(3))
        n = g * c * r * k
        if 2 <= n <= 150:
            break
    return ("DRAGONFLY", "%d,%d;%d,%d;%d,%d;%d" % (g, blue, c, black, r, green, k),
            "dragonfly:groups=%d,blue=%d,chassis=%d,black=%d,routers=%d,green=%d,"
            "nodes=%d" % (g, blue, c, black, r, green, k), n)


def platform(kind, parameters, n, bw, lat, shared):
    return ("<?xml version='1.0'?>\n"
            "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\"><zone id=\"w\" routing=\"Full\">"
            "<cluster id=\"c\" topology=\"%s\" topo_parameters=\"%s\" "
            "prefix=\"node-\" radical=\"0-%d\" suffix=\"\" speed=\"1Gf\" "
            "bw=\"%sMBps\" lat=\"%sns\"%s/></zone></platform>\n" %
            (kind, parameters, n - 1, bw, lat,
             " sharing_policy=\"SHARED\"" if shared else ""))


def compare(ours, theirs):
    """None, or what differs first."""
    there, here = {}, {}
    if len(ours) != len(theirs):
        return "%d routes, SimGrid %d" % (len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        a, b = a.split(), b.split()
        if a[:2] != b[:2] or len(a) != len(b):
            return "%s\n  SimGrid: %s" % (" ".join(a), " ".join(b))
        if abs(float(a[2]) - float(b[2])) > 1e-9 * float(b[2]):
            return "latency: %s\n  SimGrid: %s" % (" ".join(a), " ".join(b))
        for x, y in zip(a[3:], b[3:]):
            (x, rx), (y, ry) = x.split("@"), y.split("@")
            if rx != ry or there.setdefault(x, y) != y or here.setdefault(y, x) != x:
                return "link %s: %s\n  SimGrid: %s" % (x, " ".join(a), " ".join(b))
    return None


def run(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout.splitlines()


failed = 0
pairs = 0
refused = 0
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "platform.xml")
    for i in range(count):
        for make in (fat_tree, torus, dragonfly):
            kind, parameters, spec, n = make()
            bw, lat = rng.randint(1, 20000), rng.randint(0, 3000)
            shared = rng.random() < 0.3
            open(path, "w").write(platform(kind, parameters, n, bw, lat, shared))
            spec += ",bw=%dMB/s,lat=%dns" % (bw, lat)
            spec += ",duplex=shared" if shared else ""
            try:
                theirs = run(program, path)
            except subprocess.CalledProcessError:
                refused += 1  # e.g. two dimensions of size 1: equal names
                continue
            ways = [spec]
            for way in ways:
                ours = run(paradl, "topology", "show", way, "--routes", "all")
                wrong = compare(ours, theirs)
                pairs += len(ours)
                if wrong:
                    failed += 1
                    print("%s (%s): %s" % (spec, way, wrong))
# the comparison itself must be able to say no
if compare(["0 1 1 a@1 b@1", "1 0 1 a@1"], ["0 1 1 x@1 x@1", "1 0 1 x@1"]) is None:
    print("the comparison accepts different links")
    failed += 1
print("simgrid routes: %d platforms (SimGrid refuses %d), %d routes compared, "
      "%d failed" % (3 * count, refused, pairs, failed))
sys.exit(failed > 0 or refused > count)
