#!/bin/bash
# paradl train --memory decides by itself: the losses are those of a run that
# keeps everything, a rank takes no more than it may, and what cannot be made to
# fit is one line.
set -u
paradl=$1
bad=0
fail() { echo "$*"; bad=1; }
number() { # KEY of the JSON on standard input
    sed -n "s/.*\"$1\": \([0-9.e-]*\)[,}].*/\1/p" | tail -1
}
gpt=gpt:layers=6,hidden=32,heads=4,ffn=64,vocab=32,seq=32
cnn=resnet-cifar:depth=20,width=8,input=16,classes=4

train() { # MODEL FLAGS...
    "$paradl" train "$@" --data synthetic --samples 32 --steps 2 --no-test \
        --threads 1 --batch 16 --json
}
for model in $gpt $cnn; do
    for how in "" "--far ${TMPDIR:-/tmp}" "--device twin:3"; do
        # shellcheck disable=SC2086
        plain=$(train $model ${how##--far*} | tail -1)
        loss=$(number final_loss <<<"$plain") all=$(number taken_bytes <<<"$plain")
        [ -n "$loss" ] && [ -n "$all" ] || fail "$model $how: $plain"
        limit=$((all * 85 / 100))
        # shellcheck disable=SC2086
        got=$(train $model --memory ${limit}B $how | tail -1)
        [ "$(number final_loss <<<"$got")" = "$loss" ] ||
            fail "$model $how: loss $(number final_loss <<<"$got"), not $loss"
        took=$(number taken_bytes <<<"$got")
        [ "${took:-0}" -gt 0 ] && [ "$took" -le "$limit" ] ||
            fail "$model $how: takes $took, not $limit"
    done
    # nothing to decide, nothing changed
    got=$(train $model --memory $((4 * all))B | tail -1)
    hash='"plan_hash": "[0-9a-f]*"'
    [ "$(grep -o "$hash" <<<"$got")" = "$(grep -o "$hash" <<<"$plain")" ] ||
        fail "$model: another plan though it fits"
    out=$(train $model --memory 10kB 2>&1) && fail "$model: 10 kB are enough"
    [ "$(wc -l <<<"$out")" = 1 ] && grep -q 'needs .* and more, --memory is' <<<"$out" ||
        fail "$model: $out"
done
# what is no limit, and no folder
nothing() { # SAYS FLAGS...
    local says=$1 out
    shift
    out=$("$paradl" train $gpt --data synthetic --samples 32 --steps 1 --no-test \
        --threads 1 --batch 16 --json "$@" 2>&1) && fail "$*: it trains"
    [ "$(wc -l <<<"$out")" = 1 ] && grep -q -- "$says" <<<"$out" || fail "$*: $out"
}
nothing "--memory: more than 0" --memory 0
nothing "--memory: more than 0" --memory 0MiB
nothing "is too large" --memory 9223372036854775808B
# the most that is a number reaches the ranks as it is
"$paradl" train $gpt --data synthetic --samples 16 --batch 16 --steps 1 --no-test \
    --virtual --memory 9223372036854775807B >all.txt 2>&1 ||
    fail "all there is: $(cat all.txt)"
for far in "" nothere/at/all "$paradl"; do
    nothing "--far '$far'" --far "$far"
    nothing "--far '$far'" --far "$far" --strategy serial,offload=activations
    nothing "--far '$far'" --far "$far" --memory 4MB
done
[ -z "$(find . -maxdepth 1 -name 'nothere*')" ] || fail "a file beside the folder"
# what is said beforehand is what is taken, with as many threads
wide=resnet-cifar:depth=20,width=32,input=16,classes=4
for n in 1 2; do
    said=$(train $wide --size --threads $n | number most_bytes)
    took=$(train $wide --threads $n | number taken_bytes)
    [ -n "$said" ] && [ "$said" = "$took" ] || fail "--size with $n: $said, not $took"
done
"$paradl" train $gpt --data synthetic --batch 16 --memory 4MB --steps 1 --no-test |
    grep -q 'decided by the rates of here' || fail "it is not said what was decided"
"$paradl" train $gpt --data synthetic --batch 16 --memory 4MB --steps 1 --no-test \
    --system abci-v100 --far . | tr '\n' ' ' | sed 's/  */ /g' |
    grep -q 'copies [^ ]* [GM]B/s out, [^ ]* [GM]B/s in, by which a step takes' ||
    fail "it is not said what a file does each way, nor what a step takes"
# who says that the optimizer's states are on the host is decided on as well
out=$("$paradl" train $gpt --data synthetic --samples 32 --batch 16 --steps 1 \
    --no-test --memory 4MB --strategy serial,offload=optimizer 2>&1) ||
    fail "with the optimizer on the host: $out"
# what a plan leaves on the host is foretold: the states, weights and gradients
for precision in fp32 bf16; do
    said=$("$paradl" project $gpt --batch 16 --precision $precision --json \
        --system dgx-a100 --optimizer adam --strategy serial,offload=optimizer |
        number host_bytes)
    far=$(train $gpt --size --precision $precision --optimizer adamw \
        --strategy serial,offload=optimizer | number far_bytes)
    [ -n "$said" ] && [ $((100 * (far - said))) -ge 0 ] &&
        [ $((100 * (far - said))) -le "$said" ] ||
        fail "on the host $far B in $precision, $said foretold"
done
# memory that may not be locked: slower, the same losses, one line
for lock in "" :1000; do
    "$paradl" train $gpt --data synthetic --samples 32 --batch 16 --steps 3 --no-test \
        --threads 1 --strategy serial,offload=optimizer,offload=activations \
        --device twin:3$lock >locked$lock.txt 2>&1 || fail "twin:3$lock: $(cat locked$lock.txt)"
done
[ "$(grep -c 'may not be locked' locked:1000.txt)" = 1 ] &&
    ! grep -q 'may not be locked' locked.txt || fail "locked memory: $(cat locked*.txt)"
[ "$(grep -o 'loss [0-9.]*' locked.txt)" = "$(grep -o 'loss [0-9.]*' locked:1000.txt)" ] ||
    fail "locked memory: $(cat locked*.txt)"
# neither the device nor the host has room
out=$("$paradl" train $gpt --data synthetic --batch 16 --optimizer adamw --memory 1600kB \
    --system dgx-h100:node.pes=1,node.host.memory=200kB --emit no.plan 2>&1) &&
    fail "it fits on a host of 200 kB: $out"
[ "$(wc -l <<<"$out")" = 1 ] && grep -q 'wait on the host than its 195 KiB' <<<"$out" ||
    fail "no room on the host: $out"
exit $bad
