#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python adds: a plan against the program's own, projections a second.

    PYTHONPATH=python PARADL_LIBRARY=build/libparadl.so.0 \\
        bench/bench_python.py build/paradl
"""
import json
import resource
import subprocess
import sys
import time

import paradl

PLAN = ["gpt3-175b", "--system", "dgx-a100", "--pes", "256", "--batch", "512",
        "--details"]


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
    strategies = [f"data={d},pipe={q}(1f1b,m={m}),tensor={t}"
                  for d in (1, 2, 4) for q in (8, 16) for t in (4, 8)
                  for m in (16, 32)]
    with paradl.Job(PLAN[0], system="dgx-a100", batch=512) as job:
        job.project(strategies[0])
        start, used = time.perf_counter(), cpu(resource.RUSAGE_SELF)
        for s in strategies:
            job.project(s)
        wall = time.perf_counter() - start
        used = cpu(resource.RUSAGE_SELF) - used
        print(f"project: {len(strategies) / wall:.0f} a second "
              f"({len(strategies) / used:.0f} a second of a processor)")
        text = job._answer.project(job._job, False)
        start = time.perf_counter()
        for _ in range(2000):
            json.loads(text)
        reading = (time.perf_counter() - start) / 2000
        start = time.perf_counter()
        for _ in range(2000):
            job._answer.project(job._job, False)  # priced already
        asking = (time.perf_counter() - start) / 2000
        print(f"of which Python: {1e6 * (asking + reading):.0f} us")


if __name__ == "__main__":
    main()
