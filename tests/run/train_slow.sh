#!/bin/bash
# What runs in the reference kernels is said once, with its share of a step: in
# text, as a line of --json, and as a row of a log of JSON lines. Where nothing
# does, or where the reference was asked for, nothing is said.
set -u
paradl=$1
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
bad=0
fail() { echo "$1"; cat "$dir/out" "$dir/err"; bad=1; }
train() { # FLAGS...
    "$paradl" train "$dir/slow.yaml" --data synthetic --batch 4 --virtual --no-test \
        --threads 1 "$@" >"$dir/out" 2>"$dir/err" || fail "train $*: exit code $?"
}
# a product whose second operand is the same for all of the first one's matrices
cat >"$dir/slow.yaml" <<'EOF'
format: paradl-model/1
name: slow
kind: other
inputs:
  - {name: input, shape: [6, 8]}
layers:
  - {op: linear, name: a, features: 8}
  - {op: linear, name: b, in: [input], features: 8}
  - {op: transpose, name: bt, in: [b]}
  - {op: reshape, name: ar, in: [a], dims: [2, 3, 8]}
  - {op: matmul, name: product, in: [ar, bt]}
  - {op: flatten, name: f}
  - {op: linear, name: head, features: 10}
EOF
train --steps 1 --backend cpu >"$dir/said"
grep -q "backend" "$dir/err" && { echo "no fast backend here"; exit 77; }
said='no fast kernel for matmul ([0-9.e+-]* % of the step)'
train --steps 3
[ "$(grep -c "$said" "$dir/err")" = 1 ] || fail "not said once"
train --steps 1
[ "$(grep -c "$said" "$dir/err")" = 1 ] || fail "one step: not said once"
train --steps 3 --json
[ "$(grep -c "^{\"warning\": \"$said\"}" "$dir/out")" = 1 ] || fail "no line of JSON"
for kind in jsonl csv tfevents; do train --steps 3 --log "$dir/log.$kind"; done
[ "$(grep -c '^{"step": 2,"slow_kernel": "matmul","share": 0\.[0-9e-]*}$' "$dir/log.jsonl")" = 1 ] ||
    { cat "$dir/log.jsonl"; fail "no row in the log"; }
[ "$(wc -l <"$dir/log.jsonl") $(wc -l <"$dir/log.csv")" = "4 4" ] || fail "other rows"
train --steps 3 --backend ref
grep -q 'fast kernel' "$dir/err" && fail "the reference was asked for"
sed -i 's/in: \[ar, bt\]/in: [a, bt]/;/name: ar,/d' "$dir/slow.yaml"
train --steps 3
grep -q 'fast kernel' "$dir/err" && fail "nothing is slow, and something is said"
[ $bad = 0 ] && echo "what is slow is said once"
exit $bad
