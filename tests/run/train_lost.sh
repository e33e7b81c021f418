#!/bin/bash
# What a user sees when things go wrong: a rank killed from outside (paradl
# starts again), SIGTERM (saves and stops, 130), a damaged checkpoint (the one
# before is used), a loss that is no number (names the layer, 1), a file that is
# wrong on all ranks or on one (3).
set -u
paradl=$1
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
model=$(dirname "$0")/../../examples/digits.yaml
bad=0
fail() { echo "$*"; bad=1; }

train() { # NAME FLAGS...
    local name=$1; shift
    "$paradl" train "$model" --data digits --batch 16 --lr 0.05 --backend ref \
        --strategy data=2 --threads 1 --json "$@" \
        >"$dir/$name.json" 2>"$dir/$name.err"
}
# the last loss told for each step: a step done twice must agree with itself
losses() {
    sed -n 's/.*"step": \([0-9]*\),.*"loss": \([^,]*\),"lr".*_s": [0-9.e+]*}$/\1 \2/p' \
        "$dir/$1.json" | sort -n | uniq
}

reached() { # NAME STEPS: waits until that many are told, at most 60 s
    for _ in $(seq 3000); do
        [ "$(losses "$1" 2>/dev/null | wc -l)" -ge "$2" ] && return
        sleep 0.02
    done
    fail "$1: no $2 steps"
}

train whole --steps 30 || fail "undisturbed: exit code $?"
losses whole >"$dir/whole.loss"
[ "$(wc -l <"$dir/whole.loss")" = 30 ] || fail "undisturbed: not 30 steps"

# ranks killed while it runs: nobody notices but for a line on stderr
train killed --steps 30 --checkpoint "$dir/ck" --every 1 --restarts 5 &
pid=$!
for i in 1 2; do
    reached killed $((i * 6)) # it has come some way
    # the ranks of this very run: their command line names the folder
    victim=$(grep -laz -- "$dir/ck" /proc/[0-9]*/cmdline 2>/dev/null |
        sed 's|/proc/\([0-9]*\)/.*|\1|' | while read -r p; do
            [ "$(cat /proc/"$p"/comm 2>/dev/null)" = paradl-run ] && echo "$p"
        done | shuf -n 1)
    [ -n "$victim" ] && kill -9 "$victim"
    sleep 0.5
done
wait $pid || fail "killed: exit code $?"
losses killed >"$dir/killed.loss"
cmp -s "$dir/whole.loss" "$dir/killed.loss" || {
    fail "killed: another trace of losses"
    diff "$dir/whole.loss" "$dir/killed.loss" | head -5
}
n=$(grep -c "a rank was lost; starting again" "$dir/killed.err")
[ "$n" -ge 1 ] || fail "killed: no restart was told"

# told to stop, in a run that would not end by itself: saves, says so, and goes
# on from there
"$paradl" train "$model" --data digits --batch 16 --lr 0.05 --backend ref \
    --strategy data=2 --threads 1 --json --steps 100000 --checkpoint "$dir/st" \
    --every 100000 >"$dir/stopped.json" 2>"$dir/stopped.err" &
pid=$!
reached stopped 5
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 130 ] || fail "SIGTERM: exit code $rc"
grep -q '"stopped": true' "$dir/stopped.json" || fail "SIGTERM: no summary"
all=$(($(losses stopped | tail -1 | cut -d' ' -f1) + 5))
train resumed --steps $all --checkpoint "$dir/st" --resume || fail "resume: $?"
train straight --steps $all || fail "undisturbed: exit code $?"
cat "$dir/stopped.json" "$dir/resumed.json" >"$dir/both.json"
cmp -s <(losses straight) <(losses both) || fail "SIGTERM and resume: another trace"

# a damaged checkpoint is passed over
train twice --steps 20 --checkpoint "$dir/dm" --every 10 || fail "twice: $?"
file=$(ls -S "$dir"/dm/step-20/data-* | head -1)
printf 'x' | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
train damaged --steps 30 --checkpoint "$dir/dm" --resume || fail "damaged: $?"
grep -q "resumed from $dir/dm/step-10" "$dir/damaged.err" ||
    fail "damaged: $(cat "$dir/damaged.err")"

# not a number
train nan --steps 30 --lr 1e20
rc=$?
[ $rc = 1 ] || fail "a loss that is no number: exit code $rc"
grep -q "the first bad number is in" "$dir/nan.err" || fail "$(cat "$dir/nan.err")"
# a wrong file is one line, however many ranks read it
echo 'no,number' >"$dir/wrong.csv"
train wrong --steps 1 --load "$dir/wrong.csv"
rc=$?
[ $rc = 3 ] || fail "a wrong file: exit code $rc"
[ "$(grep -c . "$dir/wrong.err")" = 1 ] || fail "a wrong file: $(cat "$dir/wrong.err")"

# wrong on one rank only: the others do not wait for ever
"$paradl" train "$model" --strategy data=2 --emit "$dir/one.plan" >"$dir/one.out" ||
    fail "--emit: $(cat "$dir/one.out")"
one="$(dirname "$paradl")/paradl-run train --plan $dir/one.plan --data digits \
    --steps 2 --backend ref --threads 1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
for how in "--load $dir/wrong.csv" "--data $dir/wrong.csv"; do
    # shellcheck disable=SC2086
    timeout 120 mpirun -n 1 $one : -n 1 $one $how >"$dir/one.out" 2>"$dir/one.err"
    rc=$?
    [ $rc = 3 ] || fail "wrong on one rank ($how): exit code $rc"
    grep -q "^paradl: $dir/wrong.csv" "$dir/one.err" || fail "$(cat "$dir/one.err")"
done
[ $bad = 0 ] && echo "lost ranks, signals, damage: all survived"
exit $bad
