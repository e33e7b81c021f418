#!/bin/bash
# Training on two hosts with 1 Gb/s between them: the losses are those of
# virtual ranks bit by bit, dense and with every compression; bytes that are not
# sent are time that is not taken; a host that is cut off ends the run.
set -u
paradl=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/two_hosts.bash"
skip() { echo "SKIPPED: $*"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "no Open MPI's mpirun"
tmp=$(mktemp -d)
trap 'end_hosts; rm -rf "$tmp"' EXIT
two_hosts 1 "$tmp" || skip "no right to make network name spaces"
bad=0
fail() { echo "$*"; bad=1; }
sent() { ip netns exec "$host_a" cat "/sys/class/net/$host_a/statistics/tx_bytes"; }
cat >"$tmp/wide.yaml" <<'END'
format: paradl-model/1
name: wide
kind: cnn
inputs:
  - {name: input, shape: [3, 8, 8]}
layers:
  - {op: flatten, name: flat}
  - {op: linear, name: fc1, features: 4096}
  - {op: relu, name: relu1}
  - {op: linear, name: fc2, features: 1024}
  - {op: relu, name: relu2}
  - {op: linear, name: fc3, features: 10}
END
train() { # STRATEGY STEPS FLAGS...
    local strategy=$1 steps=$2
    shift 2
    "${run[@]}" timeout 120 "$paradl" train "$tmp/wide.yaml" --data synthetic \
        --strategy "$strategy" --samples 64 --batch 16 --epochs 1000 \
        --steps "$steps" --no-test --threads 1 --json "$@" 2>"$tmp/err"
}
both() { # STRATEGY: trained both ways; bytes of a step are in $bytes
    local before
    run=()
    train "$1" 4 --virtual >"$tmp/virtual" || fail "virtual ranks, $1: $(tail -2 "$tmp/err")"
    run=(on_hosts)
    before=$(sent)
    train "$1" 4 >"$tmp/hosts" || fail "two hosts, $1: $(tail -2 "$tmp/err")"
    bytes=$((($(sent) - before) / 4))
    for f in virtual hosts; do
        grep -o '"loss": [^,]*' "$tmp/$f" >"$tmp/$f.losses"
    done
    [ -s "$tmp/hosts.losses" ] && cmp -s "$tmp/virtual.losses" "$tmp/hosts.losses" ||
        fail "$1: other losses on two hosts: $(paste -sd' ' "$tmp/hosts.losses")"
}
both data=2
dense=$bytes
# 20 MB of gradients: half of them go to the other host, half of the sums come
[ "$dense" -ge 19000000 ] && [ "$dense" -le 24000000 ] ||
    fail "$dense bytes a step for 20 MB of gradients"
while read -r way most; do # per cent of the dense bytes
    both "data=2,compress=$way"
    [ "$bytes" -le $((dense * most / 100)) ] ||
        fail "$way sends $bytes bytes a step, more than $most % of $dense"
done <<'END'
int8 28
bf16 53
fp16 53
sign 6
topk:0.01 6
powersgd:2 4
lossless 103
END

run=(on_hosts)
train data=2 1000000 >"$tmp/cut" &
for _ in $(seq 300); do # until it trains
    grep -q '"loss"' "$tmp/cut" && break
    sleep .2
done
ip netns pids "$host_b" | xargs -r kill -9
wait $!
rc=$?
[ $rc = 4 ] && [ -s "$tmp/cut" ] && grep -q 'a rank was lost' "$tmp/err" ||
    fail "a host that is lost: exit code $rc, $(tail -1 "$tmp/err")"
[ $bad = 0 ] && echo "two hosts: the bits of virtual ranks, $dense bytes a step"
exit $bad
