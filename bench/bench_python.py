#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python adds: a plan against the program's own, projections a second.

    PYTHONPATH=python PARADL_LIBRARY=build/libparadl.so.0 \\
        bench/bench_python.py build/paradl
"""
import json
import random
import resource
import subprocess
import sys
import time
from itertools import product

import paradl

PLAN = ["gpt3-175b", "--system", "dgx-a100", "--pes", "256", "--batch", "512",
        "--details"]


def space(pes, batch):
    """Every mesh of pipe, data and tensor with some choices, in any order."""
    out = []
    for tensor, pipe, micro in product((1, 2, 4, 8, 16),
                                       (1, 2, 4, 8, 16, 32), (1, 2, 4)):
        data = pes // tensor // pipe
        m, rest = divmod(batch, data * micro)
        if rest:
            continue
        for zero, recompute, seq in product(range(4), ("none", "selective",
                                                       "full"), ("", "+seq")):
            if tensor > 1 or not seq:
                out.append((f"pipe={pipe}(m={m})," if pipe > 1 else "")
                           + f"data={data},tensor={tensor}{seq},zero={zero},"
                           f"recompute={recompute}"
                           + (f",accumulate={m}" if pipe == 1 else ""))
    random.Random(0).shuffle(out)
    return out


STRATEGIES = space(1024, 1536)


def cpu(who):
    use = resource.getrusage(who)
    return use.ru_utime + use.ru_stime


def best(f, who, times=5):
    """Least wall time, and the processor time of that one."""
    all_of = []
    for _ in range(times):
        start, used = time.perf_counter(), cpu(who)
        f()
        all_of.append((time.perf_counter() - start, cpu(who) - used))
    return min(all_of)


def main():
    program = sys.argv[1]
    c = best(lambda: subprocess.run([program, "plan", *PLAN, "--json"],
                                    stdout=subprocess.DEVNULL, check=True),
             resource.RUSAGE_CHILDREN)
    p = best(lambda: paradl.plan(PLAN[0], system="dgx-a100", pes=256,
                                 batch=512),
             resource.RUSAGE_SELF)
    print(f"plan: program {c[0]:.3f} s ({c[1]:.3f} of a processor), "
          f"Python {p[0]:.3f} s ({p[1]:.3f}): {p[1] / c[1] - 1:+.1%}")
    # the search has a thread of its own: what this one takes is Python's
    start, used = time.thread_time(), cpu(resource.RUSAGE_SELF)
    paradl.plan(PLAN[0], system="dgx-a100", pes=256, batch=512)
    own, used = (time.thread_time() - start,
                 cpu(resource.RUSAGE_SELF) - used)
    print(f"plan: Python's own {1e3 * own:.0f} ms of {1e3 * used:.0f} ms of a "
          f"processor, {own / used:.1%}")
    with paradl.Job(PLAN[0], system="dgx-a100", batch=1536) as job:
        for what in ("", " again"):
            start, used = time.perf_counter(), cpu(resource.RUSAGE_SELF)
            for s in STRATEGIES:
                job.project(s)
            wall = time.perf_counter() - start
            used = cpu(resource.RUSAGE_SELF) - used
            n = len(STRATEGIES)
            print(f"project{what}: {n} strategies, {n / wall:.0f} a second "
                  f"({n / used:.0f} a second of a processor)")
        text = job._answer.project(job._job, False)
        start = time.perf_counter()
        for _ in range(2000):
            json.loads(text)
        reading = (time.perf_counter() - start) / 2000
        start = time.perf_counter()
        for _ in range(2000):
            job._answer.project(job._job, False)
        asking = (time.perf_counter() - start) / 2000
        print(f"the same one again: {1e6 * asking:.0f} us, and "
              f"{1e6 * reading:.0f} us to read its JSON")


if __name__ == "__main__":
    main()
