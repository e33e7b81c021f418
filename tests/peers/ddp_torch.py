# SPDX-License-Identifier: Apache-2.0
"""See ddp_torch.sh."""
import os
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import paradl
import paradl.ddp


def net_of(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(40, 700), nn.ReLU(), nn.Linear(700, 700),
                         nn.ReLU(), nn.Linear(700, 1))


def gradients(rank, how, steps=3):
    """Of a few steps; buckets of 1 MB, so that there are several."""
    ddp = nn.parallel.DistributedDataParallel(net_of(), bucket_cap_mb=1)
    if how != "gloo":
        paradl.ddp.register(ddp, compress=how if ":" in how else None)
    opt = torch.optim.SGD(ddp.parameters(), lr=.01)
    torch.manual_seed(100 + rank)
    x = torch.randn(64, 40)
    y = x.sum(1, keepdim=True).sin()
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = ((ddp(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return [p.grad.clone() for p in ddp.parameters()], losses


def apart(a, b):
    return max((x - y).abs().max().item() for x, y in zip(a, b))


def work(rank, ranks, path, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank,
                            world_size=ranks)
    gloo, _ = gradients(rank, "gloo")
    ours, _ = gradients(rank, "paradl")
    sparse, losses = gradients(rank, "topk:0.05", 40)
    same = [g.clone() for g in sparse]
    for g in same:
        dist.broadcast(g, 0)
    kinds = 0.0
    group = paradl.ddp.Group()
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.full((1001,), rank + 1., dtype=kind)
        kinds += (group.allreduce(x) - ranks * (ranks + 1) / 2).abs().sum()
    if rank == 0:
        torch.save((apart(gloo, ours), apart(same, sparse), losses[0],
                    losses[-1], float(kinds)), out)
    dist.barrier()
    group.close()
    dist.destroy_process_group()


def lone(rank, ranks, path, out):
    """The other rank never comes: an error, soon."""
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank,
                            world_size=ranks)
    try:
        if rank == 0:
            group = paradl.ddp.Group.__new__(paradl.ddp.Group)
            gather = dist.all_gather_object
            dist.all_gather_object = lambda hosts, mine, g: hosts.__setitem__(
                slice(None), [mine, mine])
            try:
                group.__init__(timeout_s=.3)
            except paradl.EnvironmentLacks as e:
                torch.save(str(e), out)
            dist.all_gather_object = gather
        dist.barrier()
    finally:
        dist.destroy_process_group()


class Hook(unittest.TestCase):
    def run_on(self, ranks, what):
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "out")
            mp.spawn(what, (ranks, os.path.join(d, "init"), out), ranks)
            return torch.load(out)

    def test_two_ranks_have_the_bits_of_gloo(self):
        dense, same, first, last, kinds = self.run_on(2, work)
        print(f"2 ranks: gradients {dense} apart from gloo's; sparse loss "
              f"{first:.4f} to {last:.4f}")
        self.assertEqual(dense, 0)
        self.assertEqual(same, 0)
        self.assertEqual(kinds, 0)
        self.assertLess(last, .8 * first)

    def test_three_ranks(self):
        dense, same, first, last, _ = self.run_on(3, work)
        print(f"3 ranks: gradients {dense} apart from gloo's")
        self.assertLess(dense, 1e-6)
        self.assertEqual(same, 0)

    def test_who_does_not_come(self):
        self.assertIn("not all ranks have come", self.run_on(2, lone))

    def test_wrong(self):
        for bad in ("topk", "topk:0", "topk:2", "random:0.1"):
            with self.assertRaises(paradl.InputError):
                paradl.ddp.register(None, compress=bad)
        with self.assertRaises(paradl.InputError) as caught:
            paradl.ddp.register(nn.Linear(1, 1, device="meta"))
        self.assertIn("meta", str(caught.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
