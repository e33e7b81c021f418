#!/bin/bash
# Networks exported by PyTorch train as PyTorch trains them, or are refused with
# the name of the layer. Needs Debian's python3-torch and python3-torchvision;
# exit 77 without them.
paradl=$1
python=/usr/bin/python3
$python "$(dirname "$0")/has.py" torch torchvision || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$python "$(dirname "$0")/onnx_train_torch.py" "$paradl" "$dir"
