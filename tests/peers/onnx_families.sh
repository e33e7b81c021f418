#!/bin/bash
# Transformers exported by PyTorch are their families. Needs Debian's
# python3-torch; 77 without.
/usr/bin/python3 -c 'import torch' 2>/dev/null || {
    echo "onnx_families: no python3-torch: skipped"
    exit 77
}
exec /usr/bin/python3 "$(dirname "$0")/onnx_families.py" "$1"
