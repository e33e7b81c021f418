#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""json_schemas.py PARADL [--draft]: what commands print with --json is what
doc/formats/json says: valid, and with no field that is not written there
(fields may be added in a new version: then the schema is, too). --draft writes
schemas from what the commands of json_schemas.txt print, to be looked at."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
FOLDER = os.path.join(ROOT, "doc", "formats", "json")
RANKS = ("train", "evaluate", "diff-run", "bench", "data", "federate")
RUN = ["plan", "run"]
# what prints a line a step or a round, which has no name of its own
ROWS = {"train": "paradl.train-step/1", "plan": "paradl.train-step/1",
        "federate": "paradl.federate-round/1"}
EMITTED = "paradl.federate-tasks/1"  # of a round, with --emit
# takes too long here: tests/comm/calibrate.sh looks at it
ELSEWHERE = {"paradl.calibrate-machine/1"}
UNITS = (("_bytes_per_s", "bytes a second"), ("_per_s", "a second"),
         ("_bytes", "bytes"), ("_s", "seconds"), ("_j", "joules"),
         ("_w", "watts"))


def objects(words, text):
    """What it printed, an object or one a line, each behind its name."""
    try:
        rows = [json.loads(text)]
    except ValueError:
        rows = [json.loads(line) for line in text.splitlines()]
    name = EMITTED if "--emit" in words else ROWS.get(words[0])
    return [(row.get("schema", name), row) for row in rows]


def command_lines():
    with open(os.path.join(HERE, "json_schemas.txt")) as f:
        return [l.strip() for l in f if l.strip() and l[0] != "#"]


def forgotten(paradl):
    """Commands that take --json and that no line asks."""
    told = subprocess.run([paradl, "help", "--json"], stdout=subprocess.PIPE)
    for command in json.loads(told.stdout)["commands"]:
        words = command["name"].split()
        if any(o["name"] == "json" for o in command["options"]) and \
                not any(line.split()[:len(words)] == words
                        for line in command_lines()):
            yield command["name"]


def samples(paradl, tmp):
    """(command line, name of its schema, object)"""
    runs = os.path.exists(os.path.join(os.path.dirname(paradl), "paradl-run"))
    for line in command_lines():
        words = shlex.split(line.replace("(", "\\(").replace(")", "\\)"))
        words = [w.replace("DATA", os.path.join(ROOT, "tests", "data"))
                 .replace("EXAMPLES", os.path.join(ROOT, "examples"))
                 .replace("TMP", tmp) for w in words]
        if (words[0] in RANKS or words[:2] == RUN) and not runs:
            print(f"paradl {line}: no paradl-run here: skipped")
            continue
        done = subprocess.run([paradl, *words, "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            if done.returncode > 1:
                raise ValueError
            for name, value in objects(words, done.stdout):
                yield line, name, value
        except ValueError:
            sys.exit(f"paradl {line}: {done.returncode}: "
                     f"{done.stderr.decode()[:300]}")


# -- drafts -----------------------------------------------------------------

def kind(value):
    for python, name in ((bool, "boolean"), (int, "integer"),
                         (float, "number"), (str, "string"), (list, "array"),
                         (dict, "object")):
        if isinstance(value, python):
            return name
    return "null"


def draft(values, key=""):
    """A schema that all of them obey."""
    kinds = {kind(v) for v in values}
    if {"integer", "number"} <= kinds:
        kinds.discard("integer")
    unit = next((u for end, u in UNITS if key.endswith(end)), None)
    if unit and unit != "bytes" and "integer" in kinds:
        kinds = kinds - {"integer"} | {"number"}
    if kinds == {"null"}:  # not known in any of these
        kinds.add("number")
    names = sorted(kinds)
    out = {"type": names[0] if len(names) == 1 else names}
    if unit and kinds & {"integer", "number"}:
        out["description"] = unit
    objects = [v for v in values if isinstance(v, dict)]
    if objects:
        keys = list(dict.fromkeys(k for o in objects for k in o))
        out["properties"] = {
            k: draft([o[k] for o in objects if k in o], k) for k in keys}
        out["required"] = [k for k in keys if all(k in o for o in objects)]
    items = [i for v in values if isinstance(v, list) for i in v]
    if items:
        out["items"] = draft(items, key)
    return out


def write_drafts(found):
    by_name = {}
    for line, name, value in found:
        by_name.setdefault(name, []).append((line, value))
    for name, some in by_name.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema",
                  "$id": f"urn:{name.replace('/', ':')}", "title": name,
                  "description": "paradl " + " ".join(
                      w for w in some[0][0].split()[:2]
                      if w.isalpha() or w == "fit-in") + " --json"}
        schema.update(draft([v for _, v in some]))
        if "schema" in schema["properties"]:
            schema["properties"]["schema"] = {"const": name}
        path = os.path.join(FOLDER, name.split(".")[1].replace("/1", "")
                            + ".schema.json")
        with open(path, "w") as f:
            json.dump(schema, f, indent=1)
            f.write("\n")


# -- checks -----------------------------------------------------------------

def unknown(value, schema, where):
    """Fields that the schema does not have."""
    if isinstance(value, dict) and "properties" in schema:
        for k, v in value.items():
            if k in schema["properties"]:
                yield from unknown(v, schema["properties"][k], f"{where}.{k}")
            elif not schema.get("additionalProperties"):
                yield f"{where}.{k}"
    elif isinstance(value, list):
        for v in value:
            yield from unknown(v, schema.get("items", {}), where + "[]")


def check(found, untold):
    import jsonschema
    schemas, used, bad = {}, set(), len(untold)
    for name in untold:
        print(f"paradl {name} --json: no line of json_schemas.txt")
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".schema.json"):
            with open(os.path.join(FOLDER, name)) as f:
                schema = json.load(f)
            jsonschema.validators.validator_for(schema).check_schema(schema)
            schemas[schema["title"]] = schema
    count = 0
    for line, name, value in found:
        count += 1
        schema = schemas.get(name)
        if not schema:
            print(f"paradl {line}: no schema for {name}")
            bad += 1
            continue
        used.add(name)
        faults = [f"{'.'.join(map(str, e.path))}: {e.message[:100]}" for e in
                  jsonschema.Draft202012Validator(schema).iter_errors(value)]
        faults += [f"{w} is not in the schema"
                   for w in sorted(set(unknown(value, schema, "")))]
        for fault in faults[:5]:
            print(f"paradl {line}: {fault}")
        bad += len(faults)
    runs = any(line.split()[0] in RANKS for line, _, _ in found)
    for name in set(schemas) - used - ELSEWHERE:
        if not runs and name.split(".")[1].split("-")[0].split("/")[0] in (
                *RANKS, "partition"):
            continue
        print(f"{name}: no command of json_schemas.txt prints it")
        bad += 1
    print(f"json_schemas: {count} results, {len(schemas)} schemas, "
          f"{bad} faults")
    return 1 if bad else 0


def main():
    with tempfile.TemporaryDirectory() as tmp:
        found = list(samples(sys.argv[1], tmp))
    if sys.argv[2:] == ["--draft"]:
        return write_drafts(found)
    return check(found, list(forgotten(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
