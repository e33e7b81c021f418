#!/bin/bash
# Every network of the zoo in our own format, read by a second reader that was
# written from doc/formats/model.md: the same totals and the same shapes.
# model_reader.sh PARADL [MODEL...]
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
python3 -c 'import yaml' 2>/dev/null || { echo "no python3-yaml"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shift
[ $# -gt 0 ] ||
    set -- $("$paradl" model list --json | sed -n 's/.*{"name": "\([^"]*\)".*/\1/p')
for model; do
    "$paradl" model convert "$model" -o "$work/m.yaml" &&
        "$paradl" model show "$model" --layers --json >"$work/m.json" &&
        python3 "$here/model_reader.py" "$work/m.yaml" "$work/m.json" || exit 1
done
echo "$# models: a second reader reads the same"
[ $# -gt 0 ]
