#!/bin/bash
# A network like LeNet reaches 99 % of MNIST in three epochs under every kind of
# strategy, with the same curve. Takes minutes: PDL_LONG=1 only. The data are
# not part of the project: MNIST names their folder. Usage: PARADL
set -u
paradl=$1
here=$(cd "$(dirname "$0")" && pwd)
data=${MNIST:-$here/../../../shared/data/datasets/mnist}
[ -n "${PDL_LONG:-}" ] || { echo "SKIPPED: MNIST takes minutes (PDL_LONG=1)"; exit 77; }
[ -d "$data" ] || { echo "SKIPPED: no MNIST at $data (set MNIST)"; exit 77; }
dir=$(mktemp -d) || exit 4
trap 'rm -rf "$dir"' EXIT
bad=0
number() { # KEY: its values in the lines that end an epoch
    grep epoch_ended "$1" | sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p"
}
steps() { # the loss of every step
    grep -v epoch_ended "$1" | sed -n 's/.*"step": .*"loss": \([0-9.e+-]*\),.*/\1/p'
}
apart() { # WHAT BOUND: of two columns
    awk -v what="$1" -v bound="$2" '
        { d = ($2 - $1) / $1; d = d < 0 ? -d : d; if (d > worst) worst = d }
        END { printf "%s differ from serial by %.1e\n", what, worst
              exit !(NR > 2 && worst <= bound) }'
}
n=0
for s in serial data=2 data=2,spatial=2 filter=2 "pipe=2(1f1b,m=4)"; do
    n=$((n + 1))
    "$paradl" train "$here/../../examples/mnist.yaml" --data "$data" --epochs 3 \
        --batch 64 --lr 0.05 --schedule cosine --strategy "$s" --threads 1 \
        --json >"$dir/$n" 2>"$dir/err" || { echo "$s: exit code $?"; cat "$dir/err"; bad=1; continue; }
    number "$dir/$n" accuracy | tail -1 | awk -v s="$s" \
        '{ printf "%s: %.2f %%\n", s, 100 * $1; exit !($1 >= 0.99) }' || bad=1
    # The same curve: equal at first; then rounding decides which rectifiers and
    # maxima switch, and only means can be compared (train_curves.sh compares
    # whole curves in float64).
    paste <(steps "$dir/1" | head -10) <(steps "$dir/$n" | head -10) | apart "$s: ten steps" 1e-5 || bad=1
    paste <(number "$dir/1" loss) <(number "$dir/$n" loss) | apart "$s: three epochs" 0.1 || bad=1
done
exit $bad
