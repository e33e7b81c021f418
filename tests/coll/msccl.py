#!/usr/bin/env python3
"""Every algorithm as MSCCL's XML: taken by the rules of the public readers
(Azure/msccl-executor-nccl: names, tables' sizes, dependencies) and run here,
thread block by thread block, on numbers, in several orders.

msccl.py PARADL
"""
import json
import random
import subprocess
import sys
import xml.etree.ElementTree as xml

STEPS, BLOCKS, CHANNELS, COUNT = 64, 32, 32, 72
COLLECTIVES = ("allreduce reducescatter allgather broadcast alltoall").split()


class Refused(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Refused(what)


class Block:
    """Transmissions of a <tb>: each with the steps of others it waits for."""

    def __init__(self, gpu, tb):
        self.send, self.recv = int(tb.get("send")), int(tb.get("recv"))
        self.channel = int(tb.get("chan"))
        need(gpu not in (self.send, self.recv), "a peer is the GPU itself")
        need(0 <= self.channel < CHANNELS, "channel %d" % self.channel)
        self.steps, waits = [], []
        for i, s in enumerate(tb):
            need(int(s.get("s")) == i < STEPS, "step %s" % s.get("s"))
            if int(s.get("depid")) >= 0:
                waits.append((int(s.get("depid")), int(s.get("deps"))))
            if s.get("type") == "nop":
                continue
            need(not waits or int(s.get("depid")) >= 0,
                 "the last wait is the step's own")
            need(0 < int(s.get("cnt")) < COUNT, "cnt %s" % s.get("cnt"))
            self.steps.append((i, s, waits))
            waits = []
        need(not waits, "a nop with nothing behind it")
        self.at, self.done = 0, -1


class Gpu:
    def __init__(self, gpu, algo):
        self.id = int(gpu.get("id"))
        self.size = {b: int(gpu.get(b + "_chunks")) for b in "ios"}
        self.blocks = [Block(self.id, tb) for tb in gpu]
        ids = [int(tb.get("id")) for tb in gpu]
        need(ids == list(range(len(ids))), "thread blocks %s" % ids)
        for channel in {b.channel for b in self.blocks}:
            need(channel < int(algo.get("nchannels")), "nchannels")
            for side in ("send", "recv"):
                peers = [getattr(b, side) for b in self.blocks
                         if b.channel == channel and getattr(b, side) >= 0]
                need(len(peers) <= BLOCKS, "peers of a channel")
                need(len(set(peers)) == len(peers), "two blocks for a peer")
        self.memory = {}


def chunks(gpu, step, side):
    buf, at = step.get(side + "buf"), int(step.get(side + "off"))
    n = int(step.get("cnt"))
    need(0 <= at and at + n <= gpu.size[buf],
         "%s[%d..%d] of %d" % (buf, at, at + n, gpu.size[buf]))
    return [(buf, at + i) for i in range(n)]


def run_step(gpu, block, wires):
    """Does the block's next step if it can."""
    if block.at == len(block.steps):
        return False
    number, step, waits = block.steps[block.at]
    if any(gpu.blocks[b].done < s for b, s in waits):
        return False
    kind, memory = step.get("type"), gpu.memory
    if kind == "s":
        data = [memory.get(c, 0) for c in chunks(gpu, step, "src")]
        wires.setdefault((gpu.id, block.send, block.channel), []).append(data)
    elif kind in ("r", "rrc"):
        wire = wires.get((block.recv, gpu.id, block.channel))
        if not wire:
            return False
        data, to = wire.pop(0), chunks(gpu, step, "dst")
        need(len(data) == len(to), "%d chunks sent, %d received" %
             (len(data), len(to)))
        for c, x in zip(to, data):
            memory[c] = x + (memory.get(c, 0) if kind == "rrc" else 0)
    else:
        need(kind in ("cpy", "re"), "type %s" % kind)
        for a, b in zip(chunks(gpu, step, "src"), chunks(gpu, step, "dst")):
            add = memory.get(b, 0) if kind == "re" else 0
            memory[b] = memory.get(a, 0) + add
    block.at += 1
    block.done = number
    return True


def value(rank, chunk):
    return 1000003 * (rank + 1) ** 2 + 97 * chunk * (rank + 3)


def start(gpu, coll, n, p):
    """In place an allgather's input is in its output."""
    r = gpu.id
    if coll == "allgather":
        own = range(r * n // p, (r + 1) * n // p)
        gpu.memory = {("o", c): value(r, c) for c in own}
    elif coll != "broadcast" or r == 0:
        gpu.memory = {("i", c): value(r, c) for c in range(n)}


def wrong(gpu, coll, n, p):
    r, per = gpu.id, n // p
    for c in range(n):
        total = sum(value(q, c) for q in range(p))
        if coll == "alltoall":
            want = {("o", c): value(c // per, r * per + c % per)}
        elif coll == "allgather":
            want = {("o", c): value(c // per, c)}
        elif coll == "broadcast":
            want = {("i", c): value(0, c)}
        elif coll == "allreduce" or c // per == r:
            want = {("i", c): total}
        else:
            want = {}
        for at, x in want.items():
            if gpu.memory.get(at) != x:
                return "GPU %d, %s[%d]" % (r, *at)
    return None


def check(text, seed):
    algo = xml.fromstring(text)
    coll, p = algo.get("coll"), int(algo.get("ngpus"))
    n = int(algo.get("nchunksperloop"))
    need(coll in COLLECTIVES, "coll %s" % coll)
    for key in ("minBytes", "maxBytes", "inplace", "outofplace"):
        need(algo.get(key) is not None, "no " + key)
    gpus = [Gpu(g, algo) for g in algo]
    need(len(gpus) == p, "%d GPUs" % len(gpus))
    for g in gpus:
        start(g, coll, n, p)
    order = [(g, b) for g in gpus for b in g.blocks]
    rng, wires, moved = random.Random(seed), {}, True
    while moved:
        rng.shuffle(order)
        moved = any([run_step(g, b, wires) for g, b in order])
    left = [g.id for g, b in order if b.at < len(b.steps)]
    need(not left, "deadlock at GPUs %s" % left[:4])
    need(not any(wires.values()), "sent and not received")
    for g in gpus:
        need(not wrong(g, coll, n, p), wrong(g, coll, n, p))


def show(paradl, coll, alg, p):
    return subprocess.run(
        [paradl, "collective", "show", alg, "--collective", coll, "--ranks",
         str(p), "--format", "msccl"], capture_output=True, text=True)


def mutants(text):
    """Wrong programs that must be seen."""
    yield text.replace('type="rrc"', 'type="r"', 1)
    yield text.replace('srcoff="1"', 'srcoff="0"', 1)
    yield text.replace("reducescatter", "reduce-scatter").replace(
        'coll="allreduce"', 'coll="all-reduce"')


def main():
    paradl, failed, taken, refused = sys.argv[1], 0, 0, {}
    listed = json.loads(subprocess.run(
        [paradl, "collective", "list", "--json"], capture_output=True,
        text=True, check=True).stdout)
    for a in listed["algorithms"]:
        coll, alg = a["collective"], a["name"]
        for p in (6, 12) if "kautz" in alg else (4, 8, 16):
            out = show(paradl, coll, alg, p)
            if out.returncode != 0:
                refused.setdefault(out.stderr.strip(), []).append(alg)
                continue
            try:
                for seed in range(3):
                    check(out.stdout, seed)
                taken += 1
            except Refused as e:
                failed += 1
                print("FAILED %s %s on %d: %s" % (coll, alg, p, e))
    for text, algs in refused.items():
        print("refused: %s" % text)
        failed += "MSCCL" not in text
    ring = show(paradl, "allreduce", "ring", 4).stdout
    for i, text in enumerate(mutants(ring)):
        try:
            check(text, 0)
            failed += 1
            print("FAILED mutant %d is taken" % i)
        except Refused:
            pass
    print("msccl: %d programs taken and run, %d failed" % (taken, failed))
    return failed > 0 or taken < 60


if __name__ == "__main__":
    sys.exit(main())
