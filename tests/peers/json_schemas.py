#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""json_schemas.py PARADL [--draft]: what commands print with --json is what
doc/formats/json says: valid, and with no field that is not written there
(fields may be added in a new version: then the schema is, too). No schema calls
a count what the program writes as a measure. --draft widens the schemas to what
the commands of json_schemas.txt print, to be looked at."""
import glob
import json
import os
import re
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


def every(paradl, line):
    """"system show EVERY": a line for each system."""
    if not line.endswith(" EVERY"):
        return [line]
    told = subprocess.run([paradl, line.split()[0], "list", "--json"],
                          stdout=subprocess.PIPE)
    rows = next(v for k, v in json.loads(told.stdout).items() if k != "schema")
    return [line.replace("EVERY", row["name"]) for row in rows]


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
    for line in [each for l in command_lines() for each in every(paradl, l)]:
        words = shlex.split(line.replace("(", "\\(").replace(")", "\\)"))
        words = [w.replace("DATA", os.path.join(ROOT, "tests", "data"))
                 .replace("EXAMPLES", os.path.join(ROOT, "examples"))
                 .replace("TMP", tmp) for w in words]
        ranks = words[0] in RANKS or words[:2] == RUN or (
            words[0] == "validate" and "--measured" not in words)
        if ranks and not runs:
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


def measures():
    """Names of fields that are written as numbers, and never as counts."""
    text = ""
    for name in glob.glob(os.path.join(ROOT, "src", "**", "*.c"),
                          recursive=True):
        with open(name) as f:
            text += f.read()
    number, count = (set(re.findall(
        r'pdl_json_k%s\([^,;]+,\s*"(\w+)"' % k, text)) for k in ("num", "int"))
    return number - count


MEASURES = measures()


def types(values, key, said):
    """Of a field that these values have, and those that were said of it."""
    kinds = said if isinstance(said, list) else [said] if said else []
    kinds = {kind(v) for v in values} | set(kinds)
    unit = any(key.endswith(end) for end, _ in UNITS if end != "_bytes")
    if "integer" in kinds and ("number" in kinds or unit or key in MEASURES):
        kinds = kinds - {"integer"} | {"number"}
    if kinds == {"null"}:  # not known in any of these
        kinds.add("number")
    names = sorted(kinds)
    return names[0] if len(names) == 1 else names


def draft(values, key="", said=None):
    """A schema that all of them obey, no stricter than what was said."""
    said = said or {}
    if "const" in said:
        return said
    out = {**said, "type": types(values, key, said.get("type"))}
    unit = next((u for end, u in UNITS if key.endswith(end)), None)
    if unit and {"integer", "number"} & set(
            [out["type"]] if isinstance(out["type"], str) else out["type"]):
        out.setdefault("description", unit)
    objects = [v for v in values if isinstance(v, dict)]
    if isinstance(said.get("additionalProperties"), dict):
        out["additionalProperties"] = draft(
            [v for o in objects for v in o.values()], "",
            said["additionalProperties"])
    elif objects:
        before = said.get("properties", {})
        keys = dict.fromkeys([*before, *(k for o in objects for k in o)])
        out["properties"] = {
            k: draft([o[k] for o in objects if k in o], k, before.get(k))
            for k in keys}
        must = said.get("required", []) if before else keys
        out["required"] = [k for k in must if all(k in o for o in objects)]
        if not out["required"]:
            del out["required"]
    items = [i for v in values if isinstance(v, list) for i in v]
    if items:
        out["items"] = draft(items, key, said.get("items"))
    return out


def write_drafts(found):
    by_name = {}
    for line, name, value in found:
        by_name.setdefault(name, []).append((line, value))
    for name, some in by_name.items():
        path = os.path.join(FOLDER, name.split(".")[1].replace("/1", "")
                            + ".schema.json")
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema",
                  "$id": f"urn:{name.replace('/', ':')}", "title": name,
                  "description": "paradl " + " ".join(
                      w for w in some[0][0].split()[:2]
                      if w.isalpha() or w == "fit-in") + " --json"}
        if os.path.exists(path):
            with open(path) as f:
                schema = json.load(f)
        schema = draft([v for _, v in some], "", schema)
        if "schema" in schema["properties"]:
            schema["properties"]["schema"] = {"const": name}
        with open(path, "w") as f:
            json.dump(schema, f, indent=1)
            f.write("\n")


# -- checks -----------------------------------------------------------------

def unknown(value, schema, where):
    """Fields that the schema does not have."""
    more = schema.get("additionalProperties")
    if isinstance(value, dict) and ("properties" in schema or more):
        for k, v in value.items():
            at = schema.get("properties", {}).get(k, more)
            if isinstance(at, dict):
                yield from unknown(v, at, f"{where}.{k}")
            elif not at:
                yield f"{where}.{k}"
    elif isinstance(value, list):
        for v in value:
            yield from unknown(v, schema.get("items", {}), where + "[]")


def counts(schema, name=""):
    """Names of fields that the schema has as counts."""
    if "integer" in schema.get("type", ""):
        yield name
    for k, v in schema.get("properties", {}).items():
        yield from counts(v, k)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from counts(inner)


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
            for field in sorted(set(counts(schema)) & MEASURES):
                print(f"{name}: {field} is a measure and no count")
                bad += 1
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
