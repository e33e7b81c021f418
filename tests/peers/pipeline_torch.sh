#!/bin/bash
# Schedules written by --export pipeline-csv, read by PyTorch's own parser of
# tasks and turned by its own pass into sends and receives, which refuses an
# order that cannot run. Needs a torch with torch.distributed.pipelining (2.5
# and later; Debian 12's 1.13 has none): exit 77 without it.
paradl=$1
python=${PYTHON:-/usr/bin/python3}
$python -c 'from torch.distributed.pipelining.schedules import _Action' \
    2>/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for s in 1f1b gpipe interleaved zb-h1 zb-h2 zb-v; do
    "$paradl" project gpt2 --system dgx-a100 --batch 16 --quiet \
        --strategy "pipe=4($s,m=16)" --export pipeline-csv -o "$dir/$s" \
        >/dev/null || [ $? = 1 ] || exit 1
done
$python - "$dir" <<'PY'
import csv, os, sys
from torch.distributed.pipelining.schedules import _Action, _add_send_recv
for name in sorted(os.listdir(sys.argv[1])):
    rows = csv.reader(open(os.path.join(sys.argv[1], name)))
    order = {r: [_Action.from_str(c) for c in row if c]
             for r, row in enumerate(rows)}
    stages = 1 + max(a.stage_index for row in order.values() for a in row)
    rank = {a.stage_index: r for r, row in order.items() for a in row}
    _add_send_recv(order, lambda s: rank[s], stages)
    print(name, sum(map(len, order.values())), "tasks in order")
PY
