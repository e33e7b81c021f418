#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allreduce of a PyTorch job on processors: ParaDL's beside gloo's.

    PYTHONPATH=python PARADL_LIBRARY=build/libparadl.so.0 \\
        /usr/bin/python3 bench/bench_ddp.py [RANKS]
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import paradl.ddp

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def median(f, times):
    all_of = []
    for _ in range(times):
        dist.barrier()
        start = time.perf_counter()
        f()
        all_of.append(time.perf_counter() - start)
    return sorted(all_of)[times // 2]


def run(rank, ranks, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank,
                            world_size=ranks)
    group = paradl.ddp.Group()
    for mib in (1, 4, 16, 64):
        x = torch.ones(mib << 18)
        times = 41 if mib < 16 else 15
        for _ in range(3):
            group.allreduce(x.fill_(1)), dist.all_reduce(x.fill_(1))
        ours = gloo = 1e9
        for _ in range(3):  # in turns: other load hits both
            ours = min(ours, median(lambda: group.allreduce(x), times))
            gloo = min(gloo, median(lambda: dist.all_reduce(x), times))
            x.fill_(1)
        if rank == 0:
            print(f"{mib:3d} MiB  ours {1e3 * ours:7.3f} ms  gloo "
                  f"{1e3 * gloo:7.3f} ms  {gloo / ours:5.2f} times as fast",
                  flush=True)
    dist.barrier()
    group.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as d:
        mp.spawn(run, (ranks, os.path.join(d, "init")), ranks)
