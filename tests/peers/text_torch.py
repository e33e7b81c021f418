"""A character GPT on Tiny Shakespeare: paradl train and PyTorch from the same
first weights, over the same batches, come to the same loss.
Usage: text_torch.py PARADL BATCHES TEXT"""
import json, math, os, struct, subprocess, sys, tempfile
import torch
import torch.nn.functional as F

paradl, batches, text = sys.argv[1:4]
torch.set_num_threads(1)
env = dict(os.environ, OMP_NUM_THREADS="1")
long = bool(os.environ.get("PDL_LONG"))
LAYERS, HIDDEN, HEADS, SEQ, BATCH, STEPS = (4, 128, 4, 128, 16, 1000) if long else (2, 64, 4, 64, 16, 150)
MODEL = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},ffn={4 * HIDDEN},vocab=65,seq={SEQ}"
LR, LAST = 2e-3, 20


def load(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = torch.frombuffer(bytearray(raw[8 + n + a:8 + n + b]), dtype=torch.float32).reshape(t["shape"]).clone()
    return out


def train(steps, lr, *extra):
    cmd = [paradl, "train", MODEL, "--data", text, "--batch", str(BATCH), "--steps", str(steps), "--lr", repr(lr),
           "--optimizer", "adamw:weight_decay=0", "--threads", "1", "--json", *extra]
    p = subprocess.run(cmd, capture_output=True, text=True, env=env)
    if p.returncode:
        sys.exit(f"{' '.join(cmd)}: {p.stderr}")
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    return [x["loss"] for x in lines if "step" in x and not x.get("epoch_ended")]


def gpt(w, ids):
    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"])

    def linear(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    n, t = ids.shape
    x = F.embedding(ids, w["embed.tokens.weight"]) + w["embed.positions.weight"][:t]
    mask = torch.full((t, t), -math.inf).triu(1)
    for i in range(LAYERS):
        p = f"layers.{i}."
        h = norm(p + "attn.norm", x)
        q, k, v = (linear(p + "attn." + c, h).view(n, t, HEADS, -1).transpose(1, 2) for c in "qkv")
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v
        x = x + linear(p + "attn.out", a.transpose(1, 2).reshape(n, t, -1))
        x = x + linear(p + "ffn.down", F.gelu(linear(p + "ffn.up", norm(p + "ffn.norm", x))))
    return F.linear(norm("norm", x), w["embed.tokens.weight"])


with tempfile.TemporaryDirectory() as d:
    train(1, 1e-38, "--save", d + "/first.safetensors")
    w = {k: v.requires_grad_() for k, v in load(d + "/first.safetensors").items()}
ours = train(STEPS, LR)
raw = subprocess.run([batches, text, str(SEQ), str(BATCH), str(STEPS), "0"], capture_output=True, check=True).stdout
data = torch.frombuffer(bytearray(raw), dtype=torch.int32).view(STEPS, 2, BATCH, SEQ).long()
opt = torch.optim.AdamW(w.values(), lr=LR, weight_decay=0)
theirs = []
for x, y in data:
    opt.zero_grad()
    loss = F.cross_entropy(gpt(w, x).reshape(-1, 65), y.reshape(-1))
    loss.backward()
    opt.step()
    theirs.append(float(loss))
a, b = (sum(v[-LAST:]) / LAST for v in (ours, theirs))
worst = max(abs(p - q) / q for p, q in zip(ours, theirs))
print(f"Tiny Shakespeare, {MODEL}, {STEPS} steps of {BATCH}: from {ours[0]:.4f} to {a:.4f}, torch {b:.4f} "
      f"(mean of the last {LAST}; {100 * (a / b - 1):+.3f} %, bound 1 %); any step within {100 * worst:.3f} %")
ok = abs(a / b - 1) <= 0.01 and abs(ours[0] / theirs[0] - 1) < 1e-5 and a < 0.8 * ours[0]
sys.exit(0 if ok else 1)
