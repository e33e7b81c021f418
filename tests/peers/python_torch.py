# SPDX-License-Identifier: Apache-2.0
"""See python_torch.sh."""
import gzip
import io
import json
import logging
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paradl
import paradl.torch

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
PARADL = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def digits():
    """The data set that ships with the program: 1797 of 8 x 8."""
    path = os.path.join(ROOT, "examples", "data", "digits.csv.gz")
    with gzip.open(path, "rt") as f:
        rows = [[float(v) for v in line.split(",")] for line in f
                if line[0].isdigit()]
    all_of = torch.tensor(rows)
    x, y = all_of[:, :-1] / 16, all_of[:, -1].long()
    return TensorDataset(x[:1500], y[:1500]), (x[1500:], y[1500:])


def small_net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def saved(state):
    """As from a checkpoint, which newer torch opens for plain data alone."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Models(unittest.TestCase):
    def test_parameters_are_the_modules(self):
        image = torch.zeros(1, 3, 64, 64)
        for net, x in ((torchvision.models.resnet18(), image),
                       (torchvision.models.mobilenet_v2(), image),
                       (small_net(), torch.zeros(1, 64))):
            net.train()
            model = paradl.from_torch(net, x)
            shown = paradl.ask("model show", model)
            self.assertEqual(shown.parameters,
                             sum(p.numel() for p in net.parameters()))
            self.assertTrue(net.training)
        found = paradl.plan(model, system="dgx-a100", pes=4, batch=64)
        self.assertTrue(found.best.feasible)
        path = model.path
        self.assertTrue(os.path.exists(path))
        del model
        self.assertTrue(os.path.exists(path))  # its answers refer to it
        del found, shown
        self.assertFalse(os.path.exists(path))

    def test_resnet50_costs_what_the_zoo_has(self):
        net = torchvision.models.resnet50().train()
        model = paradl.from_torch(net, torch.zeros(1, 3, 224, 224))
        self.assertLess(os.path.getsize(model.path), 1 << 20)  # no weights
        ask = dict(system="abci-v100", strategy="data=64", batch=2048)
        mine = paradl.project(model, **ask).step_s
        zoo = paradl.project("resnet50", **ask).step_s
        self.assertLess(abs(mine / zoo - 1), .02)

    def test_is_left_as_it_was(self):
        """In either mode it is priced as it is trained."""
        frozen = nn.BatchNorm2d(8).eval()
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
                            nn.Dropout(), frozen, nn.Flatten(),
                            nn.Linear(8 * 9, 4))
        state = {k: v.clone() for k, v in net.state_dict().items()}
        for training in (True, False):
            net.train(training)
            frozen.eval()
            random = torch.get_rng_state()
            shown = paradl.ask("model show", paradl.from_torch(
                net, torch.ones(1, 3, 5, 5)), layers=True)
            self.assertIn("dropout", [row.op for row in shown.layers])
            self.assertEqual([m.training for m in net],
                             [training and m is not frozen for m in net])
            self.assertTrue(torch.equal(random, torch.get_rng_state()))
            for name, value in net.state_dict().items():
                self.assertTrue(torch.equal(value, state[name]), name)

    def test_weights_that_are_shared(self):
        net = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000))
        net[1].weight = net[0].weight
        shown = paradl.ask("model show", paradl.from_torch(
            net, torch.zeros(1, 9, dtype=torch.long)))
        self.assertEqual(shown.parameters, 1000 * 64 + 1000)

    def test_arguments_by_name(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(50, 16)
                self.out = nn.Linear(16, 50)

            def forward(self, input_ids, bias=None, attention_mask=None):
                x = self.out(self.tokens(input_ids))
                if attention_mask is not None:
                    x = x * attention_mask.unsqueeze(-1)
                return {"logits": x}

        shown = paradl.ask("model show", paradl.from_torch(Net(), {
            "attention_mask": torch.ones(1, 9),
            "input_ids": torch.zeros(1, 9, dtype=torch.long)}))
        self.assertEqual(shown.parameters, 50 * 16 + 16 * 50 + 50)
        for wrong in ({}, {"input_ids": torch.zeros(4, 9)},
                      {"ids": torch.zeros(1, 9, dtype=torch.long)}):
            with self.assertRaises(paradl.InputError, msg=wrong):
                paradl.from_torch(Net(), wrong)

    def test_what_onnx_does_not_know(self):
        """Stochastic depth, adaptive pooling to sizes that do not divide,
        batch norm of one value; torch is left as it was."""
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3), torchvision.ops.StochasticDepth(.1, "row"),
            nn.AdaptiveAvgPool2d(7), nn.AdaptiveAvgPool2d((9, 3)),
            nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(8), nn.Flatten(),
            nn.Linear(8, 5))
        model = paradl.from_torch(net, torch.zeros(1, 3, 24, 24))
        shown = paradl.ask("model show", model)
        self.assertEqual(shown.parameters,
                         sum(p.numel() for p in net.parameters()))
        self.assertTrue(paradl.plan(model, system="dgx-a100", pes=4,
                                    batch=64).best.feasible)
        with self.assertRaises(ValueError):
            net(torch.zeros(1, 3, 24, 24))

    def test_wrong(self):
        with self.assertRaises(paradl.InputError):
            paradl.from_torch(small_net(), torch.zeros(4, 64))
        with self.assertRaises(paradl.InputError):
            paradl.from_torch(small_net(), torch.zeros(1, 3))
        for module, example in ((3, torch.zeros(1, 64)), (small_net(), 4),
                                (small_net(), ())):
            with self.assertRaises(paradl.InputError):
                paradl.from_torch(module, example)


class Watches(unittest.TestCase):
    def test_a_trace_of_this_torch(self):
        """With Kineto or, as Debian builds it, without."""
        net, (data, _) = small_net(), digits()
        opt = torch.optim.SGD(net.parameters(), lr=.1)
        w = paradl.watch(paradl.project(
            paradl.from_torch(net, torch.zeros(1, 64)), system="dgx-a100",
            strategy="serial", batch=256), skip=1)
        x, y = data[:256]

        @w
        def step():
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()

        step()
        with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(4):
                step()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "trace.json")
            profiler.export_chrome_trace(path)
            rows = {r.phase: r.measured_s for r in w.phases(path)}
            self.assertIn("computation takes", w.report(path))
        self.assertEqual(w.steps, 4)
        for phase in ("computation", "update", "step"):
            self.assertGreater(rows[phase], 0, phase)
        self.assertLess(rows["computation"] + rows["update"],
                        1.01 * rows["step"])


class Samplers(unittest.TestCase):
    def setUp(self):
        self.data = TensorDataset(torch.arange(100))

    def ids(self, loader):
        return [b[0].tolist() for b in loader]

    def test_loader_with_workers(self):
        """The same batches with and without forked workers."""
        for workers in (0, 2):
            s = paradl.torch.Sampler(self.data, batch_size=8, epochs=2, seed=3)
            loader = DataLoader(self.data, batch_size=8, sampler=s,
                                num_workers=workers)
            self.assertEqual(len(loader), 12)
            got = [self.ids(loader), self.ids(loader)]
            order = paradl.sampling.Order(100, 8, epochs=2, seed=3)
            for epoch in got:
                order.next()
                self.assertEqual(epoch, [order.batch(b)
                                         for b in range(order.batches)])
        b = paradl.torch.BatchSampler(
            paradl.torch.Sampler(self.data, batch_size=8, epochs=2, seed=3))
        self.assertEqual(
            self.ids(DataLoader(self.data, batch_sampler=b)), got[0])

    def test_ranks_share_an_epoch(self):
        parts = [list(paradl.torch.Sampler(self.data, 4, r, batch_size=5))
                 for r in range(4)]
        self.assertEqual(len({i for p in parts for i in p}), 100)

    def test_set_epoch(self):
        s = paradl.torch.Sampler(self.data, batch_size=10, epochs=5)
        s.set_epoch(0)
        first = list(s)
        s.set_epoch(1)
        second = list(s)
        self.assertNotEqual(first, second)
        s.set_epoch(1)  # once more, as DistributedSampler's
        self.assertEqual(list(s), second)
        s.set_epoch(1)
        half = s.batch_lists()
        next(half)
        s.set_epoch(1)
        self.assertEqual(list(s), second)
        with self.assertRaises(ValueError):
            s.set_epoch(0)

    def test_goes_on_behind_prefetching_workers(self):
        make = lambda: paradl.torch.Sampler(
            self.data, batch_size=8, epochs=3, hide="kakurenbo:f=0.3", seed=2)
        s = make()
        loader = DataLoader(self.data, batch_size=8, sampler=s, num_workers=2)
        for x, in loader:
            s.loss(x.float() / 100, x % 2 == 0)
        rest, state = [], None
        for i, (x,) in enumerate(loader):
            if state:
                rest.append(x.tolist())
            s.loss(x.float() / 100, x % 2 == 0)
            if i == 2:
                state = saved(s.state_dict())
        again = make()
        again.load_state_dict(state)
        got = self.ids(DataLoader(self.data, batch_size=8, sampler=again))
        self.assertEqual(got, rest)
        self.assertTrue(rest)

    def test_goes_on_between_epochs(self):
        make = lambda: paradl.torch.BatchSampler(paradl.torch.Sampler(
            self.data, batch_size=8, epochs=3, seed=2))
        s = make()
        epochs, states = [], []
        for _ in range(3):
            states.append(s.state_dict())
            epochs.append(list(s))
        for e, state in enumerate(states):  # none is left out, none is empty
            again = make()
            list(again)
            again.load_state_dict(state)
            self.assertEqual(again.sampler.epoch, e)
            self.assertEqual([list(again) for _ in range(e, 3)], epochs[e:])
        again = make()
        again.load_state_dict(states[1])
        again.set_epoch(0)  # who asks for the one that is over gets its rest
        self.assertEqual(list(again), [])
        again.set_epoch(1)
        self.assertEqual(list(again), epochs[1])

    def test_what_cannot_be(self):
        make = lambda **more: paradl.torch.Sampler(self.data, **{
            "batch_size": 8, "epochs": 3, **more})
        for wrong in (dict(num_replicas=2, rank=2), dict(rank=-1),
                      dict(batch_size=0), dict(shuffle="deck"),
                      dict(shuffle=3), dict(hide=None), dict(seed=-1),
                      dict(seed=2**64)):
            with self.assertRaises(ValueError, msg=wrong):
                make(**wrong)
        s = make()
        next(s.batch_lists())
        state = s.state_dict()
        for wrong in ({}, {"order": {}, "batches": 0},
                      {**state, "batches": 13}, {**state, "batches": -1},
                      {**state, "order": {**state["order"], "epoch": "x"}}):
            with self.assertRaises(paradl.InputError):
                make().load_state_dict(wrong)
        s = make(hide="kakurenbo:f=0.3")
        for losses in (torch.ones(7), torch.ones(8, 1), torch.tensor(1.)):
            next(s.batch_lists())
            with self.assertRaises(ValueError) as caught:
                s.loss(losses)
            self.assertIn("batch_size", str(caught.exception))
        with self.assertRaises(ValueError) as caught:
            s.loss(torch.ones(8))  # it would hide nothing, and not say so
        self.assertIn("correct", str(caught.exception))

    def test_pickle(self):
        s = paradl.torch.Sampler(self.data, batch_size=8, epochs=3)
        list(s)
        self.assertEqual(list(pickle.loads(pickle.dumps(s))), list(s))


def train(rank, ranks, hide, epochs, path):
    """Digits by DDP; rank 0 writes accuracy and how many were trained."""
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{path}.init",
                                rank=rank, world_size=ranks)
    data, (x, y) = digits()
    net = small_net()
    ddp = nn.parallel.DistributedDataParallel(net) if ranks > 1 else net
    sampler = paradl.torch.Sampler(data, batch_size=32 // ranks, seed=5,
                                   epochs=epochs, hide=hide)
    loader = DataLoader(data, batch_size=32 // ranks, sampler=sampler)
    opt = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
    trained = 0
    for _ in range(epochs):
        for a, b in loader:
            for g in opt.param_groups:
                g["lr"] = .1 * sampler.rate
            out = ddp(a)
            each = F.cross_entropy(out, b, reduction="none")
            loss = sampler.loss(each, out.argmax(1) == b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            trained += len(a)
        with torch.no_grad():
            for indices in sampler.refresh():
                a, b = data[indices]
                out = net(a)
                sampler.saw(indices, F.cross_entropy(out, b, reduction="none"),
                            out.argmax(1) == b)
    with torch.no_grad():
        right = (net(x).argmax(1) == y).float().mean().item()
    if rank == 0:
        with open(path, "w") as f:
            f.write(f"{right} {trained * ranks}")
    if ranks > 1:
        dist.destroy_process_group()


def accuracy(hide, ranks, epochs=12):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out")
        if ranks == 1:
            train(0, 1, hide, epochs, path)
        else:
            mp.spawn(train, (ranks, hide, epochs, path), ranks)
        with open(path) as f:
            right, trained = f.read().split()
        return float(right), int(trained)


class Training(unittest.TestCase):
    def test_hiding_under_ddp(self):
        plain = accuracy("none", 2)
        print(f"digits, 2 ranks: {plain[0]:.4f} with {plain[1]} samples")
        for hide in ("kakurenbo:f=0.3", "infobatch"):
            one, two = accuracy(hide, 1), accuracy(hide, 2)
            print(f"  {hide}: {two[0]:.4f} with {two[1]}; 1 rank {one[0]:.4f} "
                  f"with {one[1]}")
            self.assertLess(two[1], plain[1])
            self.assertEqual(two[1], one[1])
            self.assertLess(abs(two[0] - one[0]), .011)
            self.assertGreater(two[0], plain[0] - .03)


# -- beside paradl train -----------------------------------------------------

def write_idx(folder):
    """The digits as files that both read: images, labels, train and test."""
    data, (x, y) = digits()
    parts = {"train": data.tensors, "t10k": (x, y)}
    for name, (a, b) in parts.items():
        with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, len(a), 8, 8) +
                    (a * 240).round().to(torch.uint8).numpy().tobytes())
        with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, len(b)) +
                    b.to(torch.uint8).numpy().tobytes())
    return [((a * 240).round().view(-1, 1, 8, 8) / 255, b)
            for a, b in parts.values()]


def load(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = (8 + n + o for o in t["data_offsets"])
            out[name] = torch.frombuffer(bytearray(raw[a:b]),
                                         dtype=torch.float32
                                         ).reshape(t["shape"]).clone()
    return out


RUN = dict(batch=32, epochs=5, lr=.05, seed=3)


class Net(nn.Module):
    """examples/digits.yaml."""

    def __init__(self, weights):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(512, 64), nn.Linear(64, 10)
        self.load_state_dict(weights)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


def program(folder, hide, *more):
    """paradl train on two ranks: losses of steps, accuracy."""
    done = subprocess.run(
        [PARADL, "train", os.path.join(ROOT, "examples", "digits.yaml"),
         "--data", folder, "--batch", str(RUN["batch"]), "--epochs",
         str(RUN["epochs"]), "--lr", str(RUN["lr"]), "--seed",
         str(RUN["seed"]), "--optimizer", "sgd:momentum=0.9", "--raw",
         "--json", "--threads", "1", "--virtual", "--strategy", "data=2",
         "--hide", hide, *more], stdout=subprocess.PIPE, check=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [r["loss"] for r in rows if "step" in r and
            not r.get("epoch_ended")], rows[-1]["accuracy"]


def ddp(rank, ranks, hide, folder):
    """The same with torch; rank 0 keeps what it saw."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/init",
                            rank=rank, world_size=ranks)
    (x, y), (test_x, test_y) = torch.load(f"{folder}/data")
    data, size = TensorDataset(x, y), RUN["batch"] // ranks
    net = Net(load(f"{folder}/first.safetensors"))
    wrapped = nn.parallel.DistributedDataParallel(net)
    sampler = paradl.torch.Sampler(data, batch_size=size, hide=hide,
                                   seed=RUN["seed"], epochs=RUN["epochs"])
    opt = torch.optim.SGD(net.parameters(), lr=RUN["lr"], momentum=.9)
    losses = []
    for _ in range(RUN["epochs"]):
        for a, b in DataLoader(data, batch_size=size, sampler=sampler):
            opt.param_groups[0]["lr"] = RUN["lr"] * sampler.rate
            out = wrapped(a)
            each = F.cross_entropy(out, b, reduction="none")
            loss = sampler.loss(each, out.argmax(1) == b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            mean = each.detach().mean()
            dist.all_reduce(mean)
            losses.append(mean.item() / ranks)
        with torch.no_grad():
            for indices in sampler.refresh():
                a, b = data[indices]
                out = net(a)
                sampler.saw(indices, F.cross_entropy(out, b, reduction="none"),
                            out.argmax(1) == b)
    with torch.no_grad():
        right = (net(test_x).argmax(1) == test_y).float().mean().item()
    if rank == 0:
        torch.save((losses, right), f"{folder}/out")
    dist.destroy_process_group()


class BesideTheProgram(unittest.TestCase):
    """The same first weights, order and hiding: the same training, until a
    rounding falls the other way."""

    def run_both(self, folder, hide):
        program(folder, "none", "--steps", "1", "--lr", "1e-38", "--save",
                f"{folder}/first.safetensors")
        want, accuracy_c = program(folder, hide)
        mp.spawn(ddp, (2, hide, folder), 2)
        got, accuracy_t = torch.load(f"{folder}/out")
        self.assertEqual(len(got), len(want), hide)
        apart = max(abs(a - b) for a, b in zip(got[:90], want))
        print(f"{hide}: {len(want)} steps; first 90 losses {apart:.1e} apart; "
              f"accuracy {accuracy_c:.4f}, torch {accuracy_t:.4f}", flush=True)
        self.assertLess(apart, 1e-4)
        return abs(accuracy_c - accuracy_t)

    def test_digits(self):
        for hide in ("none", "kakurenbo:f=0.3", "infobatch"):
            with tempfile.TemporaryDirectory() as d:
                torch.save(write_idx(d), f"{d}/data")
                # of 297 images: a third of a per cent each
                self.assertLess(self.run_both(d, hide), .03)


if __name__ == "__main__":
    PARADL = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
