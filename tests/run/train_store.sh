#!/bin/bash
# Samples in the stores of ranks, exchanged while they train: the same losses,
# bit for bit, as when every rank reads the files; also when ranks are killed in
# the middle of it, when a store is lost or damaged, and when the run goes on
# with other ranks. What cannot be is one line.
set -u
paradl=$1
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
model=$(dirname "$0")/../../examples/digits.yaml
bad=0
fail() { echo "$*"; bad=1; }

train() { # NAME FLAGS...
    local name=$1; shift
    "$paradl" train "$model" --data digits --batch 24 --lr 0.05 \
        --threads 1 --json --shuffle partial:q=0.6,workers=4 --no-test "$@" \
        >>"$dir/$name.json" 2>>"$dir/$name.err"
}
losses() { # the last told of each step
    sed -n 's/.*"step": \([0-9]*\),.*"loss": \([^,]*\),"lr".*_s": [0-9.e+]*}$/\1 \2/p' \
        "$dir/$1.json" | sort -n | uniq
}
same() { # A B: every step of B as A has it
    losses "$1" >"$dir/a"
    losses "$2" >"$dir/b"
    [ -s "$dir/b" ] || fail "$2: no losses"
    cmp -s "$dir/a" "$dir/b" || {
        fail "$2: other losses than $1"
        diff "$dir/a" "$dir/b" | head -4
        tail -3 "$dir/$2.err"
    }
}

two="--strategy data=2 --virtual --epochs 3"
train plain $two || fail "plain: exit code $?"
train store $two --store "$dir/s" --hide none || fail "store: exit code $?"
same plain store
grep -q '"exchanged": [1-9]' "$dir/store.json" || fail "nothing was exchanged"
"$paradl" data check "$dir/s" >"$dir/check" || fail "$(cat "$dir/check")"

# a store that is lost, and a bit that is another: the samples come again
rm "$dir/s/rank-1.store"
printf '\377' | dd of="$dir/s/rank-0.store" bs=1 seek=9000 conv=notrunc 2>/dev/null
train again $two --store "$dir/s" || fail "again: exit code $?"
same plain again
"$paradl" data check "$dir/s" >"$dir/check" || fail "$(cat "$dir/check")"

# stopped in an epoch with two ranks, goes on with four: as without a store
for s in "" "--store $dir/r"; do
    name=on${s:+-store}
    ck="--checkpoint $dir/$name.ck --every 40"
    train "$name" --strategy data=2 --virtual --epochs 3 --steps 40 $ck $s &&
        train "$name" --strategy data=4 --virtual --epochs 3 --resume $ck $s ||
        fail "$name: exit code $?"
done
same on on-store
[ "$(losses on | wc -l)" = 177 ] || fail "on: $(losses on | wc -l) steps"

# killed with -9 while samples are under way, twice
mpi="--strategy data=3 --epochs 2 --hide kakurenbo:f=0.3"
mpi="$mpi --shuffle partial:q=0.6,workers=3"
train real $mpi || fail "real: exit code $?"
train killed $mpi --store "$dir/k" --checkpoint "$dir/k.ck" --every 4 \
    --restarts 9 &
pid=$!
for i in 1 2; do
    for _ in $(seq 1500); do
        [ "$(losses killed 2>/dev/null | wc -l)" -ge $((i * 20)) ] && break
        sleep 0.02
    done
    victim=$(grep -laz -- "$dir/k.ck" /proc/[0-9]*/cmdline 2>/dev/null |
        sed 's|/proc/\([0-9]*\)/.*|\1|' | while read -r p; do
            [ "$(cat /proc/"$p"/comm 2>/dev/null)" = paradl-run ] && echo "$p"
        done | shuf -n 1)
    [ -n "$victim" ] && kill -9 "$victim"
    sleep 0.3
done
wait $pid || fail "killed: exit code $? $(tail -2 "$dir/killed.err")"
same real killed
"$paradl" data check "$dir/k" >"$dir/check" || fail "$(cat "$dir/check")"

# what cannot be
refused() { # WHAT SAYS FLAGS...
    local what=$1 says=$2 rc; shift 2
    rm -f "$dir/no.err"
    train no --virtual --epochs 1 "$@"
    rc=$?
    [ $rc = 3 ] || fail "$what: exit code $rc"
    grep -q "$says" "$dir/no.err" || fail "$what: $(cat "$dir/no.err")"
    [ "$(wc -l <"$dir/no.err")" = 1 ] || fail "$what: $(cat "$dir/no.err")"
}
refused global "every rank reads every sample" --strategy data=2 \
    --store "$dir/g" --shuffle global
refused q "outside 0 to 1" --strategy data=2 --store "$dir/g" \
    --shuffle partial:q=2
refused workers "do not divide" --strategy data=2 --store "$dir/g" \
    --shuffle partial:workers=5
head -c 9000 "$dir/s/rank-0.store" >"$dir/t" && mv "$dir/t" "$dir/s/rank-0.store"
refused truncated "is truncated" --strategy data=2 --store "$dir/s"
rm "$dir/s/rank-0.store"
exec 9>>"$dir/s/rank-1.store"
flock 9
refused locked "another job" --strategy data=2 --store "$dir/s"
exec 9>&-
(ulimit -f 40 && refused full "no room" --strategy data=2 --store "$dir/f"
 exit $bad) || bad=1
exit $bad
