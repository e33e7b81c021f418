#!/usr/bin/env python3
"""Random clusters in SimGrid's own forms, random platforms of zones in zones,
and the other networks as exported: asks SimGrid and ParaDL for every route and compares them link by link: the
same number of links, the same latency, the same rates, and one SimGrid link
for one of ours wherever it appears.   simgrid_routes.py PARADL ROUTES_PROGRAM [COUNT [SEED]]"""
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


def flat():
    n = rng.randint(2, 100)
    bb = rng.randint(0, 1) * rng.randint(100, 9999)
    return ("FLAT", "\" bb_bw=\"%dMBps\" bb_lat=\"7us" % bb if bb else "",
            "star:hosts=%d%s" % (n, ",backbone=%dMB/s,backbone-lat=7us" % bb
                                 if bb else ""), n)


# Networks SimGrid has no cluster for: written with every route listed.
LISTED = """mesh:4x5 dragonfly:groups=3,chassis=2,routers=4,nodes=2,routing=minimal
dragonfly-direct:group=4 leaf-spine:leaves=4,hosts=5,spines=3,routing=ecmp
rack-tree:racks=2,hosts=12 rail:nodes=4,gpus=4,unit=2 hyperx:3x4,hosts=2
full2d:5x4 dln:q=4,p=1 dln:q=3,p=1,ranks=2,duplex=shared dln2d:x=2,y=2,z=1
dln-x:switches=12,x=4 random:switches=16,degree=4,hosts=2 kautz:d=4
hybrid-optical:eps=(torus:4x4) tsubame3:nodes=10 nvcluster:k=8,nodes=4
dragonfly-gpu:switches=16 abci:nodes=12 dgx1-cluster:nodes=4
dgx2-cluster:nodes=4 dgx2-cluster:nodes=4,nvswitch=star""".split()


def platform(kind, parameters, n, bw, lat, shared, limiter):
    return ("<?xml version='1.0'?>\n"
            "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\"><zone id=\"w\" routing=\"Full\">"
            "<cluster id=\"c\" topology=\"%s\" topo_parameters=\"%s\" "
            "prefix=\"node-\" radical=\"0-%d\" suffix=\"\" speed=\"1Gf\" "
            "bw=\"%sMBps\" lat=\"%sns\"%s%s/></zone></platform>\n" %
            (kind, parameters, n - 1, bw, lat,
             " sharing_policy=\"SHARED\"" if shared else "",
             " limiter_link=\"%dMBps\"" % limiter if limiter else ""))


class Zones:
    """A platform of several zones: clusters, cabinets, hosts around a router
    (Full, Floyd), zones in zones; zone routes between all (Full) or along a
    tree with some more (Floyd)."""

    def __init__(self):
        self.hosts = self.links = 0
        self.text = self.zone("world", rng.choice(["Full", "Floyd"]), 2)[0]

    def link(self):
        self.links += 1
        return "l%d" % self.links, (
            '<link id="l%d" bandwidth="%dMBps" latency="%dns" '
            'sharing_policy="%s"/>' %
            (self.links, rng.randint(1, 9999), rng.randint(0, 999),
             rng.choice(["SHARED", "SHARED", "SPLITDUPLEX", "FATPIPE"])))

    def radical(self):
        first = self.hosts
        self.hosts += rng.randint(1, 4)
        return ('prefix="node-" suffix="" speed="1Gf" bw="%dMBps" lat="%dns" '
                'radical="%d-%d"' % (rng.randint(1, 9999), rng.randint(0, 999),
                                     first, self.hosts - 1))

    def cluster(self, name):
        more = rng.choice(["", ' bb_bw="%dMBps" bb_lat="3us"' %
                           rng.randint(1, 9999)])
        return ('<cluster id="%s" router_id="r%s" %s%s/>' %
                (name, name, self.radical(), more), "r" + name)

    def cabinets(self, name):
        text = "".join('<cabinet id="c%d" %s/>' % (i, self.radical())
                       for i in range(rng.randint(1, 2)))
        return ('<zone id="%s" routing="Cluster">%s<router id="r%s"/><backbone '
                'id="b%s" bandwidth="%dMBps" latency="5us"/></zone>' %
                (name, text, name, name, rng.randint(1, 9999)), "r" + name)

    def around(self, name):
        routing = rng.choice(["Full", "Floyd"])
        ids = []
        text = '<zone id="%s" routing="%s"><router id="r%s"/>' % (name, routing,
                                                                name)
        routes = ""
        for _ in range(rng.randint(1, 4)):
            link, decl = self.link()
            text += decl + '<host id="node-%d" speed="1Gf"/>' % self.hosts
            down = "DOWN" if "SPLITDUPLEX" in decl else "NONE"
            routes += ('<route src="node-%d" dst="r%s"><link_ctn id="%s"%s/>'
                       '</route>' % (self.hosts, name, link,
                                     ' direction="UP"' if down == "DOWN" else ""))
            for other, their, split in ids if routing == "Full" else []:
                routes += ('<route src="node-%d" dst="node-%d"><link_ctn id="%s"'
                           '%s/><link_ctn id="%s"%s/></route>' %
                           (self.hosts, other, link,
                            ' direction="UP"' if down == "DOWN" else "", their,
                            ' direction="DOWN"' if split else ""))
            ids.append((self.hosts, link, down == "DOWN"))
            self.hosts += 1
        if len(ids) > 1 and rng.random() < 0.3:
            link, decl = self.link()
            text += decl
            routes += self.bypass("bypassRoute", "node-%d" % ids[0][0],
                                  "node-%d" % ids[1][0], "", link, decl)
        return text + routes + "</zone>", "r" + name

    @staticmethod
    def bypass(element, src, dst, gateways, link, decl):
        return '<%s src="%s" dst="%s"%s><link_ctn id="%s"%s/></%s>' % (
            element, src, dst, gateways, link,
            ' direction="UP"' if "SPLITDUPLEX" in decl else "", element)

    def zone(self, name, routing, depth):
        inner, links, routes = [], "", ""
        for i in range(rng.randint(2, 4)):
            kinds = [self.cluster, self.cabinets, self.around]
            if depth > 1:
                kinds.append(lambda n: self.zone(n, rng.choice(
                    ["Full", "Floyd"]), depth - 1))
            child = "%s%d" % (name, i)
            inner.append((child, *rng.choice(kinds)(child)))
        for i, (a, _, ra) in enumerate(inner):
            for j, (b, _, rb) in enumerate(inner[:i]):
                if routing == "Floyd" and j < i - 1 and rng.random() < 0.7:
                    continue
                link, decl = self.link()
                way = ' direction="UP"' if "SPLITDUPLEX" in decl else ""
                links += decl
                routes += ('<zoneRoute src="%s" dst="%s" gw_src="%s" '
                           'gw_dst="%s"><link_ctn id="%s"%s/></zoneRoute>' %
                           (a, b, ra, rb, link, way))
                if rng.random() < 0.2:
                    link, decl = self.link()
                    links += decl
                    routes += self.bypass("bypassZoneRoute", b, a,
                                          ' gw_src="%s" gw_dst="%s"' % (rb, ra),
                                          link, decl)
        return ('<zone id="%s" routing="%s">%s%s%s</zone>' %
                (name, routing, "".join(x[1] for x in inner), links, routes),
                inner[0][2])


def zones():
    return ("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
            "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">"
            + Zones().text + "</platform>\n")


def in_order(links):
    """Limiters last: before or after the link makes no difference."""
    return sorted(links, key=lambda x: "limiter" in x)


def compare(ours, theirs):
    """None, or what differs first."""
    there, here = {}, {}
    if len(ours) != len(theirs):
        return "%d routes, SimGrid %d" % (len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        # a bypass that begins at its own gateway: SimGrid goes from there to
        # there over the loopback, which takes nothing from anybody
        a = a.split()
        b = [x for x in b.split() if not x.startswith("__loopback__")]
        if a[:2] != b[:2] or len(a) != len(b):
            return "%s\n  SimGrid: %s" % (" ".join(a), " ".join(b))
        if abs(float(a[2]) - float(b[2])) > 1e-8 * float(b[2]):
            return "latency: %s\n  SimGrid: %s" % (" ".join(a), " ".join(b))
        for x, y in zip(in_order(a[3:]), in_order(b[3:])):
            (x, rx), (y, ry) = x.split("@"), y.split("@")
            if rx != ry or there.setdefault(x, y) != y or here.setdefault(y, x) != x:
                return "link %s: %s\n  SimGrid: %s" % (x, " ".join(a), " ".join(b))
    return None


def run(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout.splitlines()


def check(way, theirs):
    global failed, pairs
    ours = run(paradl, "topology", "show", way, "--routes", "all")
    wrong = compare(ours, theirs)
    pairs += len(ours)
    if wrong:
        failed += 1
        print("%s: %s" % (open(way).read() if way.endswith("xml") else way, wrong))


failed = 0
pairs = 0
refused = 0
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "platform.xml")
    for i in range(count):
        for make in (fat_tree, torus, dragonfly, flat):
            kind, parameters, spec, n = make()
            bw, lat = rng.randint(1, 20000), rng.randint(0, 3000)
            shared = rng.random() < 0.3
            limiter = rng.randint(1, 20000) if not shared and i % 3 == 2 else 0
            open(path, "w").write(platform(kind, parameters, n, bw, lat, shared,
                                           limiter))
            spec += ",bw=%dMB/s,lat=%dns" % (bw, lat)
            spec += ",duplex=shared" if shared else ""
            try:
                theirs = run(program, path)
            except subprocess.CalledProcessError:
                refused += 1  # e.g. two dimensions of size 1: equal names
                continue
            for way in [path] if limiter else [spec, path]:
                check(way, theirs)
    for i in range(count):
        open(path, "w").write(zones())
        check(path, run(program, path))
    for spec in LISTED if count > 0 else []:
        run(paradl, "topology", "export", spec, "-o", path)
        check(spec, run(program, path))
# the comparison itself must be able to say no
if compare(["0 1 1 a@1 b@1", "1 0 1 a@1"], ["0 1 1 x@1 x@1", "1 0 1 x@1"]) is None:
    print("the comparison accepts different links")
    failed += 1
print("simgrid routes: %d platforms (SimGrid refuses %d), %d routes compared, "
      "%d failed" % (5 * count + len(LISTED), refused, pairs, failed))
sys.exit(failed > 0 or refused > count)
