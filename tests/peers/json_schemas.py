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
RANKS = ("train", "evaluate", "diff-run", "bench", "data")
RUN = ["plan", "run"]
UNITS = (("_bytes_per_s", "bytes a second"), ("_per_s", "a second"),
         ("_bytes", "bytes"), ("_s", "seconds"), ("_j", "joules"),
         ("_w", "watts"))


def samples(paradl, tmp):
    """(command line, its object)"""
    with open(os.path.join(HERE, "json_schemas.txt")) as f:
        lines = [l.strip() for l in f if l.strip() and l[0] != "#"]
    runs = os.path.exists(os.path.join(os.path.dirname(paradl), "paradl-run"))
    for line in lines:
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
            text = done.stdout
            if words[0] == "train" or words[:2] == RUN:  # a line a step
                text = text.splitlines()[-1]
            yield line, json.loads(text)
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
    for line, value in found:
        by_name.setdefault(value["schema"], []).append((line, value))
    for name, some in by_name.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema",
                  "$id": f"urn:{name.replace('/', ':')}", "title": name,
                  "description": "paradl " + " ".join(
                      w for w in some[0][0].split()[:2]
                      if w.isalpha() or w == "fit-in") + " --json"}
        schema.update(draft([v for _, v in some]))
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


def check(found):
    import jsonschema
    schemas, used, bad = {}, set(), 0
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".schema.json"):
            with open(os.path.join(FOLDER, name)) as f:
                schema = json.load(f)
            jsonschema.validators.validator_for(schema).check_schema(schema)
            schemas[schema["title"]] = schema
    count = 0
    for line, value in found:
        count += 1
        schema = schemas.get(value.get("schema"))
        if not schema:
            print(f"paradl {line}: no schema for {value.get('schema')}")
            bad += 1
            continue
        used.add(value["schema"])
        faults = [f"{'.'.join(map(str, e.path))}: {e.message[:100]}" for e in
                  jsonschema.Draft202012Validator(schema).iter_errors(value)]
        faults += [f"{w} is not in the schema"
                   for w in sorted(set(unknown(value, schema, "")))]
        for fault in faults[:5]:
            print(f"paradl {line}: {fault}")
        bad += len(faults)
    for name in set(schemas) - used - {f"paradl.{r}/1" for r in RANKS}:
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
    return check(found)


if __name__ == "__main__":
    sys.exit(main())
