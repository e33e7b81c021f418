#!/usr/bin/env python3
"""make-evidence.py PARADL: writes src/oracle/measure/evidence_table.c.

A row is the runs of one campaign (tests/oracle/campaigns.py) that share all
features (src/oracle/measure/evidence.c), and their mean error with the program
as it is. Needs the published runs beside the sources; run it after anything
that changes what is projected."""
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "oracle"))
import campaigns  # noqa: E402

OUT = os.path.join(HERE, "..", "src", "oracle", "measure", "evidence_table.c")
HEAD = """/* SPDX-License-Identifier: Apache-2.0
 *
 * Made by tools/make-evidence.py: campaign, features, runs, mean error. */
#include "oracle/measure/measure.h"

// clang-format off
const struct oracle_evidence oracle_evidence[] = {
"""
BEST = """};
const int oracle_nevidence =
    (int)(sizeof oracle_evidence / sizeof oracle_evidence[0]);

const struct oracle_reached oracle_reached[] = {
"""
TAIL = """};
// clang-format on
const int oracle_nreached =
    (int)(sizeof oracle_reached / sizeof oracle_reached[0]);
"""


def rows(by):
    cells = {}
    for name, runs in by.items():
        for r in runs:
            cells.setdefault((name, r["features"]), []).append(
                abs(r["projected_s"] / r["measured_s"] - 1))
    for (name, key), errors in sorted(cells.items()):
        yield (f'    {{"{name}", "{key}", {len(errors)}, '
               f'{statistics.mean(errors):.3f}}},\n')


def best(by):
    """The largest measured part of the peak, by architecture and precision."""
    reached = {}
    for runs in by.values():
        for r in runs:
            arch, precision = r["features"].split("/")[1:4:2]
            mfu = r["mfu"] * r["projected_s"] / r["measured_s"]
            reached[arch, precision] = max(mfu, reached.get((arch, precision),
                                                            0))
    for (arch, precision), mfu in sorted(reached.items()):
        yield f'    {{"{arch}", "{precision}", {mfu:.3f}}},\n'


def main():
    by, refused = campaigns.collect(sys.argv[1],
                                    campaigns.FILES + campaigns.SHARED)
    if refused:
        sys.exit("\n".join(refused))
    text = HEAD + "".join(rows(by)) + BEST + "".join(best(by)) + TAIL
    with open(OUT, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
