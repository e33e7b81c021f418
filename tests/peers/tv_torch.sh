#!/bin/bash
# Networks of images, their weights and losses, against torchvision.
/usr/bin/python3 "$(dirname "$0")/has.py" torchvision || {
    echo "tv_torch: no python3-torchvision"; exit 77; }
exec /usr/bin/python3 "$(dirname "$0")/tv_torch.py" "$1"
