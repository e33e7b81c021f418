#!/bin/bash
# Networks exported by PyTorch, read back: parameters and buffers must be those
# of the module, FLOPs twice the multiply-adds that hooks on its layers count.
# Needs Debian's python3-torch and python3-torchvision; exit 77 without them.
paradl=$1
python=/usr/bin/python3
$python "$(dirname "$0")/has.py" torch torchvision || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$python - "$dir" <<'PY' || exit 1
import logging, sys, warnings
import torch, torchvision
from torch import nn
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
torch.manual_seed(0)
M = torchvision.models

class Encoder(nn.Module):
    """Attention by hand, so that its products are seen by name below."""
    def __init__(self, layers=2, t=24, h=32, heads=4, ff=64, vocab=100):
        super().__init__()
        self.t, self.h, self.heads = t, h, heads
        self.wte, self.wpe = nn.Embedding(vocab, h), nn.Embedding(t, h)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(nn.ModuleDict(dict(
                ln1=nn.LayerNorm(h), qkv=nn.Linear(h, 3 * h),
                out=nn.Linear(h, h), ln2=nn.LayerNorm(h),
                up=nn.Linear(h, ff), down=nn.Linear(ff, h))))
        self.register_buffer("mask", torch.full((t, t), -1e9).triu(1))
        self.extra_macs = layers * 2 * t * t * h
    def forward(self, ids):
        b, t = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(t))
        for k in self.blocks:
            q, kk, v = k["qkv"](k["ln1"](x)).split(self.h, 2)
            cut = lambda z: z.view(b, t, self.heads, -1).transpose(1, 2)
            w = cut(q) @ cut(kk).transpose(-2, -1) + self.mask
            y = (w.softmax(-1) @ cut(v)).transpose(1, 2).reshape(b, t, self.h)
            x = x + k["out"](y)
            x = x + k["down"](nn.functional.gelu(k["up"](k["ln2"](x))))
        return x

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(16, 24, 2, bidirectional=True)
        self.f = nn.Linear(48, 5)
        self.extra_macs = 7 * 2 * 4 * 24 * (16 + 24 + 48 + 24)
    def forward(self, x):
        return self.f(self.l(x)[0][-1])

image = lambda n=64: torch.zeros(1, 3, n, n)
ids = torch.zeros(1, 24, dtype=torch.long)
# name, module, input, positions that the exporter stores as a constant
nets = [(n, getattr(M, n)(weights=None), image(224 if n == "swin_t" else 64), 0)
        for n in ("resnet18", "mobilenet_v3_large", "densenet121",
                  "shufflenet_v2_x1_0", "regnet_y_400mf", "squeezenet1_1",
                  "convnext_tiny")]
nets += [("encoder", Encoder(), ids, 24),
         ("recurrent", Recurrent(), torch.zeros(7, 1, 16), 0)]

def macs_of(m, x):
    total = [getattr(m, "extra_macs", 0)]
    def hook(mod, i, o):
        if isinstance(mod, nn.Conv2d):
            total[0] += o.numel() * mod.weight[0].numel()
        elif isinstance(mod, nn.Linear):
            total[0] += o.numel() * mod.in_features
    hooks = [z.register_forward_hook(hook) for z in m.modules()]
    m.eval()
    with torch.no_grad():
        m(x)
    for h in hooks:
        h.remove()
    return total[0]

with open(sys.argv[1] + "/expected", "w") as out:
    for name, m, x, positions in nets:
        with torch.no_grad():  # equal tensors would be merged by the exporter
            for q in m.parameters():
                q.copy_(torch.randn_like(q) * 0.02)
            for q in m.buffers():
                if q.dim() == 1 and q.dtype == torch.float32:
                    q.copy_(torch.rand_like(q) + 0.5)
        p = sum(q.numel() for q in m.parameters())
        b = positions + sum(q.numel() for k, q in m.named_buffers()
                            if not k.endswith("num_batches_tracked"))
        macs = macs_of(m, x)
        for params, opset in ((True, 11), (False, 14), (True, 16)):
            file = f"{name}-{opset}.onnx"
            # PRESERVE after eval keeps batch norm apart from convolution
            torch.onnx.export(m, x, sys.argv[1] + "/" + file,
                              export_params=params, opset_version=opset,
                              do_constant_folding=False,
                              training=torch.onnx.TrainingMode.PRESERVE)
            out.write(f"{file} {p} {b} {2 * macs}\n")
PY
bad=0 files=0
while read -r file parameters buffers flops; do
    got=$("$paradl" model show "$dir/$file" --json |
        sed -n 's/.*"\(parameters\|buffers\|forward_flops_per_sample\)": \([0-9]*\).*/\2/p' |
        head -n 3 | tr '\n' ' ')
    files=$((files + 1))
    if [ "$got" != "$parameters $buffers $flops " ]; then
        echo "$file: got $got, wanted $parameters $buffers $flops"
        bad=1
    fi
done <"$dir/expected"
echo "onnx_torch: $files files"
[ $bad = 0 ] && [ $files -ge 20 ]
