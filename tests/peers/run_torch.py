"""paradl train against PyTorch, from the same first weights on the same samples.

A data set of exactly one batch makes every step see all samples, so that the
order does not matter. Gradients are read off one step of plain SGD with
learning rate 1. Usage: run_torch.py PARADL"""
import json, math, os, struct, subprocess, sys, tempfile
import torch
import torch.nn.functional as F
from run_nets import deepseek, t5

paradl = sys.argv[1]
torch.manual_seed(1)
torch.set_num_threads(1)
env = dict(os.environ, OMP_NUM_THREADS="1")
bad = 0


def load(path):
    types = {"F32": (torch.float32, 4), "F64": (torch.float64, 8)}
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    out = {}
    for name, t in head.items():
        if name == "__metadata__" or t["dtype"] == "I64":  # counts of batches
            continue
        a, b = t["data_offsets"]
        dtype, _ = types[t["dtype"]]
        out[name] = torch.frombuffer(bytearray(raw[8 + n + a:8 + n + b]), dtype=dtype).reshape(t["shape"]).clone()
    return out


def train(model, data, batch, steps, lr, opt, save=None, extra=()):
    cmd = [paradl, "train", model, "--data", data, "--batch", str(batch), "--steps", str(steps),
           "--lr", repr(lr), "--optimizer", opt, "--raw", "--json", "--threads", "1", *extra]
    if save:
        cmd += ["--save", save]
    p = subprocess.run(cmd, capture_output=True, text=True, env=env)
    if p.returncode:
        sys.exit(f"{' '.join(cmd)}: {p.stderr}")
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    return [x["loss"] for x in lines if "step" in x and not x.get("epoch_ended")]


def lenet(w, x):
    h = torch.tanh(F.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=2))
    h = F.avg_pool2d(h, 2)
    h = torch.tanh(F.conv2d(h, w["conv2.weight"], w["conv2.bias"]))
    h = F.avg_pool2d(h, 2).flatten(1)
    for fc in ("fc3", "fc4"):
        h = torch.tanh(F.linear(h, w[fc + ".weight"], w[fc + ".bias"]))
    return F.linear(h, w["fc5.weight"], w["fc5.bias"])


def bn(w, name, x):
    return F.batch_norm(x, None, None, w[name + ".weight"], w[name + ".bias"], training=True)


def resnet18(w, x):
    x = F.relu(bn(w, "bn1", F.conv2d(x, w["conv1.weight"], stride=2, padding=3)))
    x = F.max_pool2d(x, 3, 2, 1)
    for layer in range(1, 5):
        for block in range(2):
            p = f"layer{layer}.{block}."
            stride = 2 if layer > 1 and block == 0 else 1
            y = F.relu(bn(w, p + "bn1", F.conv2d(x, w[p + "conv1.weight"], stride=stride, padding=1)))
            y = bn(w, p + "bn2", F.conv2d(y, w[p + "conv2.weight"], padding=1))
            if p + "downsample.0.weight" in w:
                x = bn(w, p + "downsample.1", F.conv2d(x, w[p + "downsample.0.weight"], stride=stride))
            x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def gpt(w, ids, layers=2, heads=4):
    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"])

    def linear(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    n, t = ids.shape
    x = F.embedding(ids, w["embed.tokens.weight"]) + w["embed.positions.weight"][:t]
    mask = torch.full((t, t), -math.inf, dtype=x.dtype).triu(1)
    for i in range(layers):
        p = f"layers.{i}."
        h = norm(p + "attn.norm", x)
        q, k, v = (linear(p + "attn." + c, h).view(n, t, heads, -1).transpose(1, 2) for c in "qkv")
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v
        x = x + linear(p + "attn.out", a.transpose(1, 2).reshape(n, t, -1))
        h = norm(p + "ffn.norm", x)
        x = x + linear(p + "ffn.down", F.gelu(linear(p + "ffn.up", h), approximate=GELU))
    return F.linear(norm("norm", x), w["embed.tokens.weight"])


GELU = "none"


def check(name, what, err, bound):
    global bad
    print(f"{name}: {what} differ by {err:.2e} (bound {bound:g})")
    if not err <= bound:
        bad = 1


def far(a, b):
    return max(abs(p - q) / abs(q) for p, q in zip(a, b))


def sizes(w):
    return {k: float(v.grad.norm() / v.grad.numel() ** .5) for k, v in w.items() if v.requires_grad}


def gradient_error(w, w0, w1, eps):
    """Of all weights the worst; gradients far below the largest count by that."""
    size, worst = sizes(w), 0
    scale = max(size.values())
    for k in size:
        g, v = w0[k] - w1[k], w[k].grad
        # one rounding of the weight hides in the difference
        noise = eps * float(w0[k].abs().max() + w1[k].abs().max())
        err = float((g - v).norm() / v.numel() ** .5) - noise
        worst = max(worst, err / max(size[k], 1e-2 * scale))
    return worst


def w0_type(w):
    return next(iter(w.values())).dtype


def narrow(name, model, data, batch, net, w0, x, y, lr, bound=1e-2):
    """bfloat16 with float32 masters beside torch's autocast."""
    ours = train(model, data, batch, 10, lr, "sgd:momentum=0.9", None, ("--precision", "bf16"))
    theirs, _ = torch_run(net, w0, x, y, lr, 10, torch.float32, autocast=True)
    wide, _ = torch_run(net, w0, x, y, lr, 10, torch.float32)
    print(f"{name} bfloat16: ten losses are {far(ours, wide):.1e} from float32, autocast's {far(theirs, wide):.1e}")
    check(name + " bfloat16", "ten losses and autocast's", far(ours, theirs), bound)


def torch_run(net, w0, x, y, lr, steps, dtype=None, autocast=False):
    """Losses, the first outputs, and the weights with their first gradients."""
    first = losses = None
    w = {k: v.detach().clone().to(dtype or v.dtype) for k, v in w0.items()}
    for k, v in w.items():
        v.requires_grad_(not k.endswith(("running_mean", "running_var")))
    x = x.to(w["fc.weight"].dtype) if x.is_floating_point() and "fc.weight" in w else x
    opt = torch.optim.SGD([v for v in w.values() if v.requires_grad], lr=lr, momentum=0.9)
    losses = []
    for step in range(steps):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            out = net(w, x).to(x.dtype if x.is_floating_point() else w0_type(w))
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        if step == 0:
            first = out.detach().clone(), {k: v.detach().clone() for k, v in w.items()}
            for k, v in w.items():
                first[1][k].requires_grad_(v.requires_grad)
                first[1][k].grad = None if v.grad is None else v.grad.clone()
        losses.append(float(loss))
        opt.step()
    return losses, first


def compare(name, model, data, batch, net, x, y, lr, extra=(), steps=10, bound=1e-4, eps=1.2e-7):
    with tempfile.TemporaryDirectory() as d:
        first, after, said = (d + f"/{n}.safetensors" for n in ("first", "after", "said"))
        # a learning rate that changes no weight leaves the first ones
        train(model, data, batch, 1, 1e-38, "sgd:momentum=0", first, (*extra, "--outputs", said))
        train(model, data, batch, 1, 1.0, "sgd:momentum=0", after, extra)
        losses = train(model, data, batch, steps, lr, "sgd:momentum=0.9", None, extra)
        w0, w1, said = load(first), load(after), load(said)["outputs"]
    theirs, (out, w) = torch_run(net, w0, x, y, lr, steps)
    # the order of samples is ours: the same rows, sorted
    mine, rows = said.double().reshape(batch, -1), out.double().reshape(batch, -1)
    near = torch.cdist(mine, rows).argmin(1)
    if sorted(near.tolist()) != list(range(batch)):
        check(name, "rows of logits", math.inf, 0)
    check(name, "logits", float((mine - rows[near]).abs().max() / rows.abs().max()), bound)
    check(name, "gradients", gradient_error(w, w0, w1, eps), bound)
    check(name, f"{steps} losses", max(abs(a - b) / abs(b) for a, b in zip(losses, theirs)), bound)
    return w0, losses, theirs


def idx(d, n, size):
    pixels = torch.randint(0, 256, (n, size, size), dtype=torch.uint8)
    labels = torch.randint(0, 10, (n,), dtype=torch.uint8)
    with open(d + "/train-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, n, size, size) + bytes(pixels.numpy().tobytes()))
    with open(d + "/train-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">II", 0x801, n) + bytes(labels.numpy().tobytes()))
    return pixels.float().unsqueeze(1) / 255, labels.long()


def cifar(d, n):
    pixels = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (n,), dtype=torch.uint8)
    with open(d + "/data_batch_1.bin", "wb") as f:
        for i in range(n):
            f.write(bytes([int(labels[i])]) + pixels[i].numpy().tobytes())
    return pixels.float() / 255, labels.long()


with tempfile.TemporaryDirectory() as d:
    x, y = idx(d, 32, 28)
    w0, _, _ = compare("lenet5", "lenet5", d, 32, lenet, x, y, 0.05)
    narrow("lenet5", "lenet5", d, 32, lenet, w0, x, y, 0.05)
    compare("lenet5 float64", "lenet5", d, 32, lenet, x.double(), y, 0.05,
            ("--backend", "ref", "--precision", "fp64"), bound=1e-9, eps=2.3e-16)
# ResNet-18 on noise with random labels: a rectifier or maximum that falls the
# other way by a rounding changes the gradient at once, so float32 runs part
# whatever the kernels. Three statements: in float64 all ten losses of a steep
# run are torch's; in float32 they are where the run is not steep (a rate at
# which torch's own float32 stays well within the bound of its float64); and how far
# either float32 comes from float64 in the steep run, for the record.
with tempfile.TemporaryDirectory() as d:
    n = 8  # of 16 the plain kernels take a minute and a half
    x, y = cifar(d, n)
    model = "resnet18:input=32,classes=10"
    w0, _, truth = compare("resnet18 float64", model, d, n, resnet18, x.double(), y, 0.002,
                           ("--backend", "ref", "--precision", "fp64"), bound=1e-9, eps=2.3e-16)
    ours = train(model, d, n, 10, 0.002, "sgd:momentum=0.9")
    theirs, _ = torch_run(resnet18, w0, x, y, 0.002, 10, torch.float32)
    print(f"resnet18, steep: ten losses in float32 are {far(ours, truth):.1e} from float64, "
          f"torch's {far(theirs, truth):.1e}")
with tempfile.TemporaryDirectory() as d:
    x, y = cifar(d, 32)
    w0, _, theirs = compare("resnet18", model, d, 32, resnet18, x, y, 1e-5)
    narrow("resnet18", model, d, 32, resnet18, w0, x, y, 1e-5)
    truth, _ = torch_run(resnet18, w0, x.double(), y, 1e-5, 10, torch.float64)
    check("resnet18", "losses of torch in float32 and float64", far(theirs, truth), 5e-5)
with tempfile.TemporaryDirectory() as d:
    t, n = 16, 8
    ids = torch.randint(0, 65, (n * t + 1,), dtype=torch.int32)
    for part in ("train.bin", "val.bin"):
        with open(d + "/" + part, "wb") as f:
            f.write(ids.to(torch.int16).numpy().tobytes())
    x, y = ids[:-1].view(n, t).long(), ids[1:].view(n, t).long()
    model = "gpt:layers=2,hidden=32,heads=4,ffn=64,vocab=65,seq=16"
    w0, _, _ = compare("gpt", model, d, n, gpt, x, y, 0.1)
    narrow("gpt", model, d, n, gpt, w0, x, y, 0.1)
    compare("gpt float64", model, d, n, gpt, x, y, 0.1, ("--backend", "ref", "--precision", "fp64"),
            bound=1e-9, eps=2.3e-16)
# Text of other shapes: a sample of T5 is what both of its stacks read.
MLA = ("deepseek:layers=2,dense=1,hidden=32,heads=4,ffn=64,moe_ffn=16,experts=4,topk=2,q_lora=24,"
       "kv_lora=16,nope=8,rope=4,v_head_dim=8,vocab=65,seq=16")
T5 = "t5:layers=2,hidden=32,heads=4,head_dim=8,ffn=64,vocab=65,seq=16"
for name, model, net, reads, says in (("deepseek", MLA, deepseek, 16, 16), ("t5", T5, t5, 32, 16)):
    with tempfile.TemporaryDirectory() as d:
        n = 8
        ids = torch.randint(0, 65, (n * reads + 1,), dtype=torch.int32)
        for part in ("train.bin", "val.bin"):
            with open(d + "/" + part, "wb") as f:
                f.write(ids.to(torch.int16).numpy().tobytes())
        x = ids[:-1].view(n, reads).long()
        y = ids[1:].view(n, reads)[:, -says:].long()
        w0, _, _ = compare(name, model, d, n, net, x, y, 0.1)
        narrow(name, model, d, n, net, w0, x, y, 0.1)
        compare(name + " float64", model, d, n, net, x, y, 0.1, ("--backend", "ref", "--precision", "fp64"),
                bound=1e-9, eps=2.3e-16)
sys.exit(bad)
