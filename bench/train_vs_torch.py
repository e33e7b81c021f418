#!/usr/bin/python3
"""A training step here and in PyTorch: CPU time, one thread, taken in turns.

  train_vs_torch.py [--rounds N] [--steps N] [--blas DIR] PARADL-RUN [CASE...]

paradl, which writes the plan, lies beside PARADL-RUN.

For each case: seconds of CPU time of a step (the median over the steps of all
rounds; ours and PyTorch's alternate, so that both meet the same machine), the
ratio PyTorch / ours, peak resident memory of both, and which operators our
time goes to. NAME-bf16 is a case in bfloat16 (PyTorch: autocast). PyTorch's step
has its samples in memory already; ours makes or reads them. Images are stored
channels last on both sides (CHANNELS_LAST=0: not in PyTorch).

PyTorch's matrix products are only as good as its BLAS, and the variant with a
thread pool of its own fights OpenMP's: --blas names a folder with libblas.so.3
of OpenBLAS built for OpenMP (Debian: libopenblas0-openmp). The default is
where that package puts it, or a copy downloaded to $TMPDIR. Of its kernels
(OPENBLAS_CORETYPE) those are taken that multiply fastest here: on a processor
younger than itself it may choose ones that take three times as long."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

GPT = dict(layers=6, hidden=384, heads=6, vocab=65, seq=256)
GPT2 = dict(layers=12, hidden=768, heads=12, vocab=50257, seq=128)
BERT = dict(layers=4, hidden=512, heads=8, vocab=30522, seq=128)
LLAMA = dict(layers=4, hidden=288, heads=6, ffn=768, vocab=4096, seq=256)
DEIT = dict(layers=12, hidden=192, heads=3)
MIXTURE = dict(layers=2, hidden=256, heads=4, ffn=512, experts=8, topk=2, vocab=65, seq=256)


def spec(family, options, **more):
    return family + ":" + ",".join(f"{k}={v}" for k, v in {**options, **more}.items())


def example(name):
    return os.path.join(HERE, "..", "examples", name)


# name: our model, PyTorch's (function, options), shape of a sample (images) or
# tokens, classes, batch, bar
CASES = {
    "lenet5": ("lenet5", ("lenet", {}), (1, 28, 28), 10, 64, 1.15),
    "vgg-like": (os.path.join(HERE, "vgg-like.yaml"), ("vgg_like", {}), (3, 64, 64), 100, 8, 1.15),
    "resnet18": (example("resnet18-cifar.yaml"), ("resnet18", {}), (3, 32, 32), 10, 32, 1.15),
    "resnet50": ("resnet50", ("vision", dict(name="resnet50")), (3, 224, 224), 1000, 8, 1.15),
    "mobilenetv2": ("mobilenetv2", ("vision", dict(name="mobilenet_v2", dropout=0)), (3, 224, 224), 1000, 8, 1.15),
    "mobilenetv3": ("mobilenet_v3_large", ("vision", dict(name="mobilenet_v3_large", dropout=0)), (3, 224, 224), 1000, 8, 1.3),
    "efficientnet": ("efficientnet-b0", ("vision", dict(name="efficientnet_b0", stochastic_depth_prob=0)), (3, 224, 224), 1000, 8, 1.15),
    "densenet121": ("densenet121", ("vision", dict(name="densenet121")), (3, 224, 224), 1000, 4, 1.15),
    "squeezenet": ("squeezenet1_1", ("vision", dict(name="squeezenet1_1", dropout=0)), (3, 224, 224), 1000, 8, 1.15),
    "googlenet": ("googlenet", ("vision", dict(name="googlenet", aux_logits=False, init_weights=False, dropout=0)), (3, 224, 224), 1000, 8, 1.15),
    "unet": ("unet:padding=same,input=128,base=32,channels=3,classes=21", ("unet", dict(base=32, channels=3, classes=21)), (3, 128, 128), 21, 4, 1.15),
    "unet3d": ("unet3d:padding=same,input=32,depth=32,base=16", ("unet", dict(base=16, channels=3, classes=3, norm=True, three=True)), (3, 32, 32, 32), 3, 2, 1.15),
    "deit-tiny": (spec("vit", DEIT), ("vit", DEIT), (3, 224, 224), 192, 8, 1.15),
    "bert": (spec("bert", BERT, positions=128), ("bert", BERT), 128, 512, 8, 1.15),
    "gpt2": (spec("gpt", GPT2), ("gpt", GPT2), 128, 50257, 2, 1.15),
    "gpt": (spec("gpt", GPT), ("gpt", GPT), 256, 65, 8, 1.15),
    "llama": (spec("llama", LLAMA), ("llama", LLAMA), 256, 4096, 8, 1.15),
    "mixture": (spec("moe", MIXTURE, kv_heads=4, head_dim=64, tied=0), ("mixture", {}), 256, 65, 8, 1.0),
}
# Transformers are trained with AdamW, the others with momentum.
ADAM = {"deit-tiny", "bert", "gpt2", "gpt", "llama", "mixture"}
STEPS = {"lenet5": 200}


def of(case):
    """The case of a name; NAME-bf16 is the same in bfloat16, for which parity is
    the bar."""
    bf16 = case.endswith("-bf16")
    name = case[:-5] if bf16 else case
    row = CASES[name]
    return name, row[:5] + (1.0 if bf16 else row[5],), "bf16" if bf16 else "fp32"


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


def model_file(model, folder):
    """A network of networks_yaml.py becomes a file."""
    import networks_yaml
    if not hasattr(networks_yaml, model):
        return model
    path = os.path.join(folder, model + ".yaml")
    with open(path, "w") as f:
        f.write(networks_yaml.text(model))
    return path


def ours(run, case, steps, skip):
    """CPU seconds of each step, peak memory, seconds by kind of operator."""
    name, (model, _, _, classes, batch, _), precision = of(case)
    with tempfile.TemporaryDirectory() as d:
        plan = d + "/step.plan"
        subprocess.run([os.path.join(os.path.dirname(os.path.abspath(run)), "paradl"), "train", model_file(model, d),
                        "--data", "synthetic", "--batch", str(batch), "--precision", precision,
                        "--emit", plan], check=True, stdout=subprocess.DEVNULL)
        cmd = [run, "train", "--plan", plan, "--data", "synthetic", "--steps", str(steps + skip),
               "--optimizer", "adamw" if name in ADAM else "sgd:momentum=0.9", "--lr", "0.001", "--threads", "1",
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


def samples(shape, classes, batch):
    import torch
    if isinstance(shape, int):
        return torch.randint(0, min(classes, 65), (batch, shape))
    return torch.randn(batch, *shape)


def worker(case):
    """Answers a number of steps on standard input with CPU seconds of each."""
    import time
    import torch
    import torch.nn.functional as F
    import networks_torch
    name, (_, (make, options), shape, classes, batch, _), precision = of(case)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = getattr(networks_torch, make)(**options).train()
    x = samples(shape, classes, batch)
    if name in ADAM:
        opt = torch.optim.AdamW(net.parameters(), lr=0.001)
    else:
        opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    if not isinstance(shape, int):
        last = torch.channels_last_3d if len(shape) == 4 else torch.channels_last
        if os.environ.get("CHANNELS_LAST", "1") == "1":
            net, x = net.to(memory_format=last), x.to(memory_format=last)
    with torch.no_grad():
        out = net(x)
    dense = not isinstance(shape, int) and out.dim() > 2
    y = torch.randint(0, classes, out.shape[:1] + out.shape[2:] if dense else out.shape[:-1])

    def step():
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            out = net(x)
            loss = F.cross_entropy(out if dense else out.reshape(-1, out.shape[-1]),
                                   y if dense else y.reshape(-1))
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


def probe():
    """CPU seconds of the three products of a linear layer."""
    import time
    import torch
    torch.set_num_threads(1)
    x, w, y = torch.randn(1024, 512), torch.randn(2048, 512), torch.randn(1024, 2048)
    best = float("inf")
    for _ in range(6):
        start = time.process_time()
        x @ w.t(), y @ w, y.t() @ x
        best = min(best, time.process_time() - start)
    print(best)


def choose_core(blas):
    """OpenBLAS's fastest kernels; "": what it chooses itself."""
    if os.environ.get("OPENBLAS_CORETYPE"):
        return os.environ["OPENBLAS_CORETYPE"]
    times = {}
    for core in ("", "Haswell", "SkylakeX", "Cooperlake", "Zen"):
        env = environment(blas)
        if core:
            env["OPENBLAS_CORETYPE"] = core
        p = subprocess.run([sys.executable, os.path.abspath(__file__), "--probe"], env=env,
                           capture_output=True, text=True)
        if p.returncode == 0:
            times[core] = float(p.stdout)
    return min(times, key=times.get, default="")


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
    bar = of(case)[1][5]
    print(f"{case:17} ours {x * 1e3:8.2f} ms  torch {y * 1e3:8.2f} ms  ratio {y / x:5.2f} (bar {bar:g}"
          f"{'' if y / x >= bar else ', missed'})  memory {pa / 2**20:6.0f} / {pb / 2**20:6.0f} MiB "
          f"= {pa / pb:4.2f}")
    total = sum(kinds.values()) or 1
    top = sorted(kinds.items(), key=lambda k: -k[1])
    print("    " + ", ".join(f"{k} {100 * v / total:.0f}%" for k, v in top[:10] if v / total > 0.005)
          + f"; in operations {1e3 * total:.2f} ms", flush=True)


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        return worker(sys.argv[2])
    if sys.argv[1:] == ["--probe"]:
        return probe()
    o = argparse.ArgumentParser()
    o.add_argument("--rounds", type=int, default=2)
    o.add_argument("--steps", type=int)
    o.add_argument("--blas", default=None)
    o.add_argument("run")
    o.add_argument("cases", nargs="*")
    a = o.parse_args()
    blas = a.blas or find_blas()
    core = choose_core(blas)
    if core:
        os.environ["OPENBLAS_CORETYPE"] = core
    print(f"PyTorch's BLAS: {blas or 'the system default (no OpenBLAS for OpenMP found)'}, "
          f"kernels: {core or 'its own choice'}")
    for case in a.cases or CASES:
        compare(a.run, case, a.rounds, a.steps or STEPS.get(of(case)[0], 3), blas)


if __name__ == "__main__":
    main()
