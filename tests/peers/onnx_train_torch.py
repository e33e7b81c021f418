"""onnx_train_torch.py PARADL DIR: networks that PyTorch exports, trained by both.

Each is exported in training form with a symbolic batch; paradl train reads the
file, loads the same weights and meets the same batch again and again. Every
loss must be PyTorch's. What cannot be trained must say which layer and why."""
import json
import logging
import os
import struct
import subprocess
import sys
import warnings

import numpy as np
import torch
import torchvision
from torch import nn

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
torch.set_num_threads(1)
paradl, folder = sys.argv[1:3]
STEPS = 5
bad = 0


class Numbers(nn.Module):
    """Attributes, stored constants, slices, splits, transposes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(
            nn.LeakyReLU(0.2), nn.ELU(0.7), nn.Hardsigmoid(),
            nn.GroupNorm(2, 8, eps=1e-3), nn.Softplus(),
            nn.Hardtanh(-0.8, 0.9), nn.BatchNorm2d(8, eps=1e-2, momentum=0.3),
            nn.InstanceNorm2d(8, affine=True))
        self.norm = nn.LayerNorm(8, eps=1e-3)
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        x = self.body(self.first(x)) ** 2 * 0.5 + 0.1
        x = (2 - x / 3)[:, :, 2:9:2, 1:]
        a, b = x.split([3, 5], 1)
        x = torch.cat([b, a], 1).transpose(2, 3)
        return self.last(self.norm(x.mean((2, 3))))


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer in front of a class token's head."""

    def __init__(self, h=16):
        super().__init__()
        self.patches = nn.Conv2d(3, h, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, h))
        self.places = nn.Parameter(torch.randn(1, 17, h) * .02)
        self.layer = nn.TransformerEncoderLayer(
            h, 4, 32, dropout=0.0, batch_first=True, norm_first=True,
            activation="gelu")
        self.last = nn.Linear(h, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.last(self.layer(x + self.places)[:, 0])


class Enlarged(nn.Module):
    def __init__(self, mode, **how):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.last = nn.Linear(8, 10)
        self.how = dict({"scale_factor": 2}, mode=mode, **how)
        if "size" in how:
            del self.how["scale_factor"]

    def forward(self, x):
        x = nn.functional.interpolate(self.first(x), **self.how)
        return self.last((x * x).mean((2, 3)))


class Chosen(nn.Module):
    """Comparisons, with each other and with numbers, and choices by them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 8), nn.Linear(12, 8)
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        a, b = self.a(x.flatten(1)), self.b(x.flatten(1))
        y = torch.where(a > b, a, 0.1 * b)
        y = torch.where(y > 0.2, y, y * y).masked_fill(a < -0.5, 0.25)
        y = torch.where((a > 0) & ~(b >= 0.1), y, a + b)
        return self.last(torch.where(torch.tensor(0.3) > y, y, torch.tensor(0.7)))


class Turned(nn.Module):
    """Products with weights [inputs, outputs], square and not."""

    def __init__(self):
        super().__init__()
        self.square = nn.Parameter(torch.randn(12, 12) * .1)
        self.wide = nn.Parameter(torch.randn(12, 16) * .1)
        self.usual = nn.Linear(16, 16)
        self.last = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(x.flatten(1) @ self.square) @ self.wide
        x = torch.relu(self.usual(x.unsqueeze(1))).squeeze(1)
        return self.last(x)


class Reordered(nn.Module):
    """Features by stored indices; by the largest ones, which has no kernel."""

    def __init__(self, largest=False):
        super().__init__()
        self.first, self.last = nn.Linear(12, 12), nn.Linear(12, 10)
        self.largest = largest
        self.register_buffer("order", torch.tensor([3, 1, 2, 0, 9, 8, 10, 11]))

    def forward(self, x):
        x = self.first(x.flatten(1))
        if self.largest:
            return nn.functional.pad(self.last(x).topk(5).values, (0, 5))
        return self.last(torch.cat([x[:, self.order], x[:, 4:8]], 1))


class Padded(nn.Module):
    """Unequal zeros around images and windows, a crop; or other values."""

    def __init__(self, mode="constant", value=0.):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2)
        self.b = nn.Conv2d(8, 8, 3)
        self.last, self.how = nn.Linear(8, 10), (mode, value)

    def forward(self, x):
        x = torch.relu(self.a(nn.functional.pad(x, (1, 2, 2, 0), *self.how)))
        x = nn.functional.avg_pool2d(x, 3, 2, 1)
        x = self.b(nn.functional.pad(x, (1, -1, 0, 1)))
        return self.last(x.mean((2, 3)))


class Summed(nn.Module):
    """Equations whose letters stand in another order than a product's."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(12, 12), nn.Linear(12, 12)
        self.last = nn.Linear(4, 10)

    def forward(self, x):
        q = self.q(x.flatten(1).view(-1, 4, 12)).view(-1, 4, 3, 4)
        k = self.k(x.flatten(1).view(-1, 4, 12)).view(-1, 4, 3, 4)
        y = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", y, q).flatten(2)
        return self.last(torch.einsum("bti,bsi->bst", y, k.flatten(2)).mean(2))


class Counted(nn.Module):
    """Rows of a table by numbers that are counted from the tokens."""

    def __init__(self, sums=False, places=False):
        super().__init__()
        self.tokens, self.near = nn.Embedding(30, 16), nn.Embedding(12, 16)
        self.last, self.sums = nn.Linear(16, 10), sums
        self.register_buffer("places", torch.arange(12) if places else None)

    def forward(self, x):
        k = torch.cumsum(x, 1) if self.sums else x
        k = k if self.places is None else k + self.places
        k = torch.clamp(2 * k - 9, 0, 10) + (x != 3).long()
        return self.last(torch.tanh(self.tokens(x) + self.near(k)).sum(1))


class Picked(nn.Module):
    """Elements and rows by numbers that are counted from the tokens."""

    def __init__(self, how):
        super().__init__()
        self.tokens, self.last, self.how = nn.Embedding(30, 10), nn.Linear(10, 10), how
        self.near = nn.Embedding(12 * 29 + 1, 10)

    def forward(self, x):
        h = torch.tanh(self.tokens(x))
        if self.how == "rows":  # the last one that is no padding
            k = ((x != 3).long().sum(1, keepdim=True) - 1).unsqueeze(2)
            return self.last(h.gather(1, k.expand(-1, -1, 10)).squeeze(1))
        if self.how == "end":  # as GPT-2's classifier finds the first padding
            k = (x == 3).int().argmax(1, keepdim=True).unsqueeze(2)
            return self.last(h.gather(1, k.expand(-1, -1, 10)).squeeze(1))
        if self.how == "elements":  # some rows twice, others not
            k = torch.clamp(x[:, :7] - 20, 0, 9).unsqueeze(1).expand(-1, 12, -1)
            return self.last(torch.cat([h.gather(2, k).sum(1), h.sum(1)[:, 7:]], 1))
        if self.how == "batch":
            return self.last(h[torch.arange(x.shape[0]), (x != 3).long().sum(1) - 1])
        h = torch.cumsum(h, 1) * torch.cumsum(h, 2)
        return self.last((h + self.near(torch.cumsum(x, 1))).sum(1))


def save(path, state):
    head, data = {}, b""
    for name, t in state.items():
        if t.dtype != torch.float32:
            continue
        b = t.detach().numpy().tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape),
                      "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def theirs(m, x, y):
    opt = torch.optim.SGD(m.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        opt.step()
        losses.append(float(loss))
    return losses


def ours(at):
    p = subprocess.run(
        [paradl, "train", at + ".onnx", "--load", at + ".safetensors",
         "--data", at + ".data", "--batch", "8", "--steps", str(STEPS), "--lr",
         "0.05", "--optimizer", "sgd:momentum=0", "--raw", "--no-test",
         "--shuffle", "none", "--threads", "1", "--virtual", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows = [json.loads(x) for x in p.stdout.splitlines()] if not \
        p.returncode else []
    return [r["loss"] for r in rows
            if "loss" in r and "epoch_ended" not in r], p.stderr


def case(name, m, size, compared=STEPS, refused=None, folded=False, tokens=0):
    global bad
    at = folder + "/" + name
    torch.manual_seed(1)
    x, y = torch.randn(8, 3, size, size), torch.randint(0, 10, (8,))
    if tokens:
        x = torch.randint(0, tokens, (8, size))
    m.train()
    with torch.no_grad():
        for q in m.parameters():
            q.add_(torch.randn_like(q) * 0.05)
    torch.onnx.export(m, x, at + ".onnx", opset_version=14,
                      input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}},
                      training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=folded)
    save(at + ".safetensors", m.state_dict())
    os.makedirs(at + ".data", exist_ok=True)
    np.save(at + ".data/x_train.npy", x.numpy())
    np.save(at + ".data/y_train.npy", y.numpy())
    got, said = ours(at)
    if refused:
        good = not got and refused in said and said.count("\n") == 1
        print(name, "refused" if good else "WRONG: " + said)
        bad |= not good
        return
    want = theirs(m, x, y)
    worst = max((abs(got[i] - want[i]) for i in range(min(compared, len(got)))),
                default=9)
    good = len(got) == STEPS and worst <= 1e-5
    print("%s: %d losses differ by %.1e%s" %
          (name, compared, worst, "" if good else " WRONG " + said))
    bad |= not good


case("numbers", Numbers(), 32)
case("encoder", Encoder(), 32)
case("vision", torchvision.models.VisionTransformer(64, 16, 1, 2, 32, 64,
                                                    num_classes=10), 64)
# batch norm over few pixels enlarges roundings from step to step: one step
case("shuffle", torchvision.models.shufflenet_v2_x0_5(num_classes=10), 64,
     compared=1)
case("chosen", Chosen(), 2)
case("turned", Turned(), 2)
case("padded", Padded(), 16)
case("padded_with_ones", Padded(value=1.), 16,
     refused="the runtime has no kernel for Pad")
case("reflected", Padded("reflect"), 16,
     refused="the runtime has no kernel for Pad")
case("summed", Summed(), 4)
case("reordered", Reordered(), 2)
case("largest", Reordered(True), 2,
     refused="largest: TopK: the runtime has no kernel for TopK")
case("counted", Counted(), 12, tokens=30)
case("picked_rows", Picked("rows"), 12, tokens=30)
case("picked_elements", Picked("elements"), 12, tokens=30)
case("picked_end", Picked("end"), 12, tokens=30)
case("so_far", Picked("sums"), 12, tokens=30)
case("picked_of_batch", Picked("batch"), 12, tokens=30,
     refused="are x.gather(1, i)")
case("sums", Counted(True), 12, tokens=30)
case("places", Counted(places=True), 12, tokens=30,
     refused="(Add): the runtime does not know the values of the constant")
case("nearest", Enlarged("nearest"), 16)
case("linear", Enlarged("bilinear"), 16)
case("corners", Enlarged("bilinear", align_corners=True), 16)
case("other_size", Enlarged("bilinear", size=(11, 5)), 16)
case("cubic", Enlarged("bicubic"), 16)
case("cubic_corners", Enlarged("bicubic", align_corners=True), 16)
case("cubic_smaller", Enlarged("bicubic", size=(5, 11)), 16)
sys.exit(bad)
