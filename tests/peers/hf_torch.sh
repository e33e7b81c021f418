#!/bin/bash
# config.json and model.safetensors of Hugging Face's shape into paradl train
# and back into torch.
/usr/bin/python3 "$(dirname "$0")/has.py" torch || {
    echo "hf_torch: no python3-torch"; exit 77; }
exec /usr/bin/python3 "$(dirname "$0")/hf_torch.py" "$1"
