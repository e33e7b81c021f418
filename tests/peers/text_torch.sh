#!/bin/bash
# A small GPT learns Tiny Shakespeare as PyTorch does, from the same weights
# over the same batches; PDL_LONG=1: a larger one, a thousand steps. The text
# is not part of the project: TINY_SHAKESPEARE names it; exit 77 without.
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$(realpath "$1")")
text=${TINY_SHAKESPEARE:-$here/../../../shared/data/datasets/tinyshakespeare.txt}
[ -f "$text" ] || { echo "text_torch: no Tiny Shakespeare (set TINY_SHAKESPEARE)"; exit 77; }
/usr/bin/python3 "$(dirname "$0")/has.py" torch || { echo "text_torch: no python3-torch"; exit 77; }
[ -f "$build/build.ninja" ] || exit 77
flock "$build" ninja -C "$build" peer_train_batches >/dev/null 2>&1 || exit 77
exec /usr/bin/python3 "$here/text_torch.py" "$1" "$build/peer_train_batches" "$text"
