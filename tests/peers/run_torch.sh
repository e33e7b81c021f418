#!/bin/bash
# Whole training runs against PyTorch from the same first weights: gradients
# of the first step and ten losses of LeNet, ResNet-18, a small GPT, DeepSeek
# and T5.
command -v /usr/bin/python3 >/dev/null && /usr/bin/python3 "$(dirname "$0")/has.py" torch || {
    echo "run_torch: no python3-torch"; exit 77; }
exec /usr/bin/python3 "$(dirname "$0")/run_torch.py" "$1"
