#!/usr/bin/env python3
"""The questions of doc/questions.md: can their first answers be acted on?

Usage: questions.py PARADL. Five of them; PDL_LONG=1: all."""
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "..", "..", "doc", "questions.md")
FRAMEWORK = {"megatron": "megatron", "torchtitan": "torchtitan",
             "nanotron": "nanotron", "accelerate": "pytorch",
             "deepspeed": "megatron-deepspeed"}
READER = {"megatron": "megatron-args", "nanotron": "nanotron",
          "torchtitan": "torchtitan",
          "accelerate": "accelerate", "deepspeed": "deepspeed"}
HEADROOM = .1


def questions():
    with open(LIST, encoding="utf-8") as f:
        rows = [[c.strip() for c in line.strip("|\n ").split("|")]
                for line in f if line.startswith("| ")]
    return rows[1:]


def run(paradl, *args):
    done = subprocess.run([paradl, *args], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(args)}: exit {done.returncode}: "
                         f"{done.stderr.strip()}")
    return done.stdout, done.stderr


def back(paradl, path, export, model, question, first):
    """Step and memory of the file that was written."""
    ask = ["project", "--from", READER[export], path]
    if export in ("deepspeed", "accelerate", "torchtitan"):
        ask.append(model)
    if export == "accelerate":  # accumulation is the script's
        ask += ["--strategy", first["strategy"], "--batch", question[3]]
    x = json.loads(run(paradl, *ask, "--system", question[1], "--pes",
                       question[2], "--headroom", "10%", "--json")[0])
    return x["step_s"], x["memory"]["peak_bytes"]


def ask(paradl, question, where):
    model, system, pes, batch, export = question
    path = os.path.join(where, "job")
    out, said = run(paradl, "plan", model, "--system", system, "--pes", pes,
                    "--batch", batch, "--export", export, "-o", path,
                    "--top", "1", "--json")
    x = json.loads(out)
    first = x["plans"][0]
    bad = []
    if x["framework"] != FRAMEWORK[export]:
        bad.append(f"is for {x['framework']}")
    if "cannot express" in said:
        bad.append("not the first is exported: " + said.strip())
    if first["memory"]["peak_bytes"] > first["memory"]["capacity_bytes"]:
        bad.append("does not fit with headroom")
    if export in READER:
        step, peak = back(paradl, path, export, model, question, first)
        # Megatron pads vocabularies
        if not math.isclose(step, first["step_s"], rel_tol=.01) or \
                not math.isclose(peak, first["memory"]["peak_bytes"],
                                 rel_tol=.02):
            bad.append(f"reads back as {step:.4g} s, not "
                       f"{first['step_s']:.4g}")
    says = any("more than to be expected" in n for n in first["notes"])
    print(f"{model[:34]:34} {system:14} {pes:>5} {export:11} "
          f"{first['strategy']}, {100 * first['mfu']:.0f} %"
          f"{' (says so)' if says else ''}"
          f"{'  BAD: ' + '; '.join(bad) if bad else ''}")
    return len(bad)


def counted(paradl, question, where):
    try:
        return ask(paradl, question, where)
    except ValueError as e:
        print("BAD:", e)
        return 1


def main():
    rows = questions()
    assert len(rows) == 20
    if not os.environ.get("PDL_LONG"):
        rows = [rows[i] for i in (0, 7, 12, 14, 16)]
    with tempfile.TemporaryDirectory() as where:
        return 1 if sum(counted(sys.argv[1], r, where)
                        for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
