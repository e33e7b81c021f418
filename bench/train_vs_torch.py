#!/usr/bin/python3
"""A training step here and in PyTorch: CPU time, one thread, taken in turns.

  train_vs_torch.py [--rounds N] [--steps N] [--blas DIR] PARADL-RUN [CASE...]

For each case: seconds of CPU time of a step (the median over the steps of all
rounds; ours and PyTorch's alternate, so that both meet the same machine), the
ratio PyTorch / ours, peak resident memory of both, and which operators our
time goes to. PyTorch's step has its samples in memory already; ours makes or
reads them.

PyTorch's matrix products are only as good as its BLAS, and the variant with a
thread pool of its own fights OpenMP's: --blas names a folder with libblas.so.3
of OpenBLAS built for OpenMP (Debian: libopenblas0-openmp). The default is
where that package puts it, or a copy downloaded to $TMPDIR."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
GPT = "gpt:layers=6,hidden=384,heads=6,vocab=65,seq=256"
MIXTURE = ("moe:layers=2,hidden=256,heads=4,kv_heads=4,head_dim=64,ffn=512,experts=8,topk=2,"
           "vocab=65,seq=256,tied=0")

# name: model, batch, precision, what PyTorch builds, bar
CASES = {
    "resnet18": (os.path.join(EXAMPLES, "resnet18-cifar.yaml"), 32, "fp32", "resnet18", 1.3),
    "resnet50": ("resnet50", 8, "fp32", "resnet50", 1.05),
    "gpt": (GPT, 8, "fp32", "gpt", 1.05),
    "lenet": ("lenet5", 64, "fp32", "lenet", 2.0),
    "mixture": (MIXTURE, 8, "fp32", "mixture", 1.0),
    "resnet18-bf16": (os.path.join(EXAMPLES, "resnet18-cifar.yaml"), 32, "bf16", "resnet18", 1.0),
    "gpt-bf16": (GPT, 8, "bf16", "gpt", 1.0),
}
STEPS = {"lenet": 200, "resnet50": 3}


def cpu_seconds(pid):
    """CPU time of all threads, dead ones too, in nanoseconds' resolution."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            total += int(open(path).read().split()[0])
        except OSError:
            pass
    return total * 1e-9


def peak_bytes(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def environment(blas):
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if blas:
        env["LD_LIBRARY_PATH"] = blas + ":" + env.get("LD_LIBRARY_PATH", "")
    return env


def optimizer(case):
    return "adamw" if case.startswith("gpt") or case == "mixture" else "sgd:momentum=0.9"


def ours(run, case, steps, skip):
    """CPU seconds of each step, peak memory, seconds by kind of operator."""
    model, batch, precision, _, _ = CASES[case]
    with tempfile.TemporaryDirectory() as d:
        cmd = [run, "train", model, "--data", "synthetic", "--batch", str(batch),
               "--steps", str(steps + skip), "--precision", precision,
               "--optimizer", optimizer(case), "--lr", "0.001", "--threads", "1",
               "--samples", str(batch * (steps + skip + 1)), "--virtual", "--json",
               "--timings", d + "/t.json"]
        p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=environment(None))
        marks, peak = [], 0
        for line in p.stdout:
            if '"loss"' in line and "epoch_ended" not in line:
                marks.append(cpu_seconds(p.pid))
                peak = max(peak, peak_bytes(p.pid))
        if p.wait():
            sys.exit(f"{' '.join(cmd)}: {p.stderr.read()}")
        kinds = {}
        for op in json.load(open(d + "/t.json"))["operations"]:
            what = op.get("operator", op["kind"]) + (" " + op["pass"] if "pass" in op else "")
            kinds[what] = kinds.get(what, 0) + op["seconds"]
    return [b - a for a, b in zip(marks[skip - 1:], marks[skip:])][:steps], peak, kinds


# ---- PyTorch, in a process of its own -------------------------------------------


def lenet():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


def resnet18():
    from torch import nn
    import torchvision
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return net


def resnet50():
    import torchvision
    return torchvision.models.resnet50()


def gpt(layers=6, hidden=384, heads=6, vocab=65, seq=256):
    import math
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.register_buffer("mask", torch.full((seq, seq), -math.inf).triu(1))

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (z.view(n, t, heads, -1).transpose(1, 2)
                       for z in self.qkv(self.n1(x)).split(hidden, 2))
            a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.mask, -1)
            x = x + self.out((a @ v).transpose(1, 2).reshape(n, t, -1))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(hidden)

        def forward(self, ids):
            x = self.blocks(self.tokens(ids) + self.positions.weight)
            return self.norm(x) @ self.tokens.weight.t()

    return Net()


def mixture(layers=2, hidden=256, heads=4, ffn=512, experts=8, topk=2, vocab=65, seq=256):
    """Mixtral's block: tokens gathered by expert, as its published code does."""
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Norm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    half = hidden // heads // 2
    angle = torch.outer(torch.arange(seq).float(), 10000.0 ** (-torch.arange(half) / half))
    cos, sin = angle.cos(), angle.sin()

    def turn(x):
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = Norm(hidden), Norm(hidden)
            self.q, self.k, self.v, self.out = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
            self.router = nn.Linear(hidden, experts, bias=False)
            self.up = nn.ModuleList(nn.Linear(hidden, 2 * ffn, bias=False) for _ in range(experts))
            self.down = nn.ModuleList(nn.Linear(ffn, hidden, bias=False) for _ in range(experts))
            self.register_buffer("mask", torch.full((seq, seq), float("-inf")).triu(1))

        def experts(self, x):
            best, which = self.router(x).topk(topk, -1)
            gates, y = best.softmax(-1), torch.zeros_like(x)
            for e in range(experts):
                token, choice = torch.where(which == e)
                g, u = self.up[e](x[token]).chunk(2, -1)
                y = y.index_add(0, token, self.down[e](F.silu(g) * u) * gates[token, choice, None])
            return y

        def forward(self, x):
            n, t, _ = x.shape
            z = self.n1(x)
            q, k, v = (p(z).view(n, t, heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
            a = torch.softmax(turn(q) @ turn(k).transpose(-1, -2) / (2 * half) ** 0.5 + self.mask, -1)
            x = x + self.out((a @ v).transpose(1, 2).reshape(n, t, -1))
            return x + self.experts(self.n2(x).reshape(n * t, -1)).reshape(n, t, -1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(layers)]), Norm(hidden)

        def forward(self, ids):
            return self.head(self.norm(self.blocks(self.tokens(ids))))

    return Net()


SHAPES = {"lenet": (1, 28, 28), "resnet18": (3, 32, 32), "resnet50": (3, 224, 224)}


def worker(case):
    """Answers a number of steps on standard input with CPU seconds of each."""
    import time
    import torch
    import torch.nn.functional as F
    _, batch, precision, name, _ = CASES[case]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = globals()[name]().train()
    if name in ("gpt", "mixture"):
        x = torch.randint(0, 65, (batch, 256))
        y = torch.randint(0, 65, (batch * 256,))
        opt = torch.optim.AdamW(net.parameters(), lr=0.001)
    else:
        x = torch.randn(batch, *SHAPES[name])
        y = torch.randint(0, 10, (batch,))
        opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    if name == "resnet50" or os.environ.get("CHANNELS_LAST"):
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)

    def step():
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            out = net(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y)
        loss.backward()
        opt.step()
        return float(loss)

    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.process_time()
            step()
            times.append(time.process_time() - start)
        print(json.dumps({"times": times, "peak": peak_bytes("self")}), flush=True)


def theirs(p, steps):
    p.stdin.write(f"{steps}\n")
    p.stdin.flush()
    return json.loads(p.stdout.readline())


def find_blas():
    for d in glob.glob("/usr/lib/*/openblas-openmp"):
        return d
    d = os.path.join(tempfile.gettempdir(), "paradl-openblas")
    found = glob.glob(d + "/usr/lib/*/openblas-openmp")
    if not found:
        os.makedirs(d, exist_ok=True)
        subprocess.run("apt-get download -q libopenblas0-openmp && dpkg -x *.deb .",
                       shell=True, cwd=d, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = glob.glob(d + "/usr/lib/*/openblas-openmp")
    return found[0] if found else None


def compare(run, case, rounds, steps, blas):
    p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", case],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(blas))
    p.stdout.readline()
    theirs(p, max(2, steps // 4))
    a, b, pa, pb, kinds = [], [], 0, 0, {}
    for _ in range(rounds):
        t, peak, kinds = ours(run, case, steps, 2)
        a, pa = a + t, max(pa, peak)
        r = theirs(p, steps)
        b, pb = b + r["times"], r["peak"]
    p.stdin.close()
    p.wait()
    x, y = statistics.median(a), statistics.median(b)
    bar = CASES[case][4]
    print(f"{case:14} ours {x * 1e3:8.2f} ms  torch {y * 1e3:8.2f} ms  ratio {y / x:5.2f} (bar {bar:g}"
          f"{'' if y / x >= bar else ', missed'})  memory {pa / 2**20:6.0f} / {pb / 2**20:6.0f} MiB "
          f"= {pa / pb:4.2f}")
    total = sum(kinds.values()) or 1
    top = sorted(kinds.items(), key=lambda k: -k[1])
    print("    " + ", ".join(f"{k} {100 * v / total:.0f}%" for k, v in top[:10] if v / total > 0.005)
          + f"; in operations {1e3 * total:.2f} ms", flush=True)


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        return worker(sys.argv[2])
    o = argparse.ArgumentParser()
    o.add_argument("--rounds", type=int, default=2)
    o.add_argument("--steps", type=int)
    o.add_argument("--blas", default=None)
    o.add_argument("run")
    o.add_argument("cases", nargs="*")
    a = o.parse_args()
    blas = a.blas or find_blas()
    print(f"PyTorch's BLAS: {blas or 'the system default (no OpenBLAS for OpenMP found)'}")
    for case in a.cases or CASES:
        compare(a.run, case, a.rounds, a.steps or STEPS.get(case, 8), blas)


if __name__ == "__main__":
    main()
