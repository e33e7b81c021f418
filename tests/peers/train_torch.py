#!/usr/bin/python3
"""Recomputes with PyTorch what tests/peers/train_kernels.c wrote: forward and
both gradients of every operator, and the optimizers. Reads standard input."""
import json
import math
import sys

import torch
import torch.nn.functional as F

from run_nets import distance_rows

UNARY = {
    "relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu,
    "mish": F.mish, "hard_swish": F.hardswish,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "selu": F.selu, "softplus": F.softplus,
    "softsign": F.softsign, "exp": torch.exp, "log": torch.log,
    "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "erf": torch.erf,
    "sin": torch.sin, "cos": torch.cos, "abs": torch.abs, "neg": torch.neg,
    "identity": lambda x: x * 1, "cast": lambda x: x * 1,
}


def padded(x, c, value=0.0):
    n = x.dim() - 2
    pads = []
    for i in reversed(range(n)):
        pads += [c["pad"][i], c["pad_end"][i]]
    return F.pad(x, pads, value=value)


def spatial(c, key, n):
    return [v or 1 for v in c[key][:n]]


def conv(c, x, w):
    n = x.dim() - 2
    f = [F.conv1d, F.conv2d, F.conv3d][n - 1]
    return f(padded(x, c), w[0], w[1] if len(w) > 1 else None,
             stride=spatial(c, "stride", n), dilation=spatial(c, "dilation", n),
             groups=c["groups"])


def conv_transpose(c, x, w):
    n = x.dim() - 2
    f = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][n - 1]
    return f(x, w[0], w[1] if len(w) > 1 else None,
             stride=spatial(c, "stride", n), padding=c["pad"][:n],
             output_padding=c["output_pad"][:n], groups=c["groups"])


def max_pool(c, x, w):
    n = x.dim() - 2
    f = [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1]
    return f(padded(x, c, -math.inf), c["kernel"][:n],
             stride=spatial(c, "stride", n))


def avg_pool(c, x, w):
    n = x.dim() - 2
    f = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][n - 1]
    return f(x, c["kernel"][:n], stride=spatial(c, "stride", n),
             padding=c["pad"][:n], count_include_pad=c["count_pad"])


def layer_norm(c, x, w):
    n = c["features"] or x.shape[-1]
    rows = x.reshape(-1, n)
    y = F.layer_norm(rows, [n], w[0], w[1] if len(w) > 1 else None,
                     c["epsilon"] or 1e-5)
    return y.reshape(x.shape)


def rms_norm(c, x, w):
    n = c["features"] or x.shape[-1]
    rows = x.reshape(-1, n)
    y = rows / torch.sqrt((rows * rows).mean(-1, keepdim=True) +
                          (c["epsilon"] or 1e-6)) * w[0]
    return y.reshape(x.shape)


def rope_steps(c, d):
    """Angles of a position: all divided by scale, or, as in Llama 3.1, long waves
    are, short ones are not, and those between in part."""
    step = c["theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if not c["scale"]:
        return step
    if not c["offset"]:
        return step / c["scale"]
    turns = c["offset"] * step / (2 * math.pi)
    keep = ((turns - c["alpha"]) / (c["beta"] - c["alpha"])).clamp(0, 1)
    return keep * step + (1 - keep) * step / c["scale"]


def rope(c, x, w):
    """Pairs of the last d features of each head of width w."""
    w = c["head_dim"] or 4
    d, t = c["features"] or w, x.shape[1]
    y = x.reshape(x.shape[0], t, -1, w)
    fixed, y = y[..., :w - d], y[..., w - d:]
    angle = torch.outer(torch.arange(t, dtype=torch.float64), rope_steps(c, d)).to(x.dtype)
    cos, sin = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    a, b = y[..., :d // 2], y[..., d // 2:]
    return torch.cat([fixed, a * cos - b * sin, b * cos + a * sin],
                     -1).reshape(x.shape)


def heads_of(c, x):
    return x.reshape(x.shape[0], x.shape[1], c["heads"], -1)


def slice_heads(c, x, w):
    return heads_of(c, x)[..., c["dims"][0]:c["dims"][1]].flatten(2)


def join_heads(c, x, shared):
    each = shared.unsqueeze(2).expand(-1, -1, c["heads"], -1)
    return torch.cat([heads_of(c, x), each], -1).flatten(2)


def slopes(c, heads):
    """Of ALiBi (Press et al., 2022): a geometric sequence, the heads beyond a
    power of two between the others."""
    whole = 1 << (heads.bit_length() - 1)
    step = [c["given_alpha"] * (n + 1) / whole for n in range(whole)]
    step += [c["given_alpha"] * (2 * n + 1) / (2 * whole)
             for n in range(heads - whole)]
    return torch.tensor([2.0 ** -x * (c["given_beta"] or 1) for x in step],
                        dtype=torch.float64)


def cubic(c, x):
    """By four neighbours, those beyond an end as the end (Keys, 1981)."""
    a = c["given_alpha"]

    def weight(t):
        t = t.abs()
        return torch.where(t <= 1, ((a + 2) * t - (a + 3)) * t * t + 1, torch.where(
            t < 2, (((t - 5) * t + 8) * t - 4) * a, torch.zeros_like(t)))

    for d, n in enumerate(c["dims"]):
        m = x.shape[d + 2]
        i = torch.arange(n, dtype=torch.float64)
        at = i * (m - 1) / max(n - 1, 1) if c["offset"] else \
            (i + c["given_beta"]) * m / n - c["given_beta"]
        w = torch.zeros(n, m, dtype=torch.float64)
        for k in range(-1, 3):
            near = at.floor() + k
            w.index_put_((i.long(), near.clamp(0, m - 1).long()),
                         weight(at - near), accumulate=True)
        x = torch.tensordot(x, w.to(x), ([d + 2], [1])).movedim(-1, d + 2)
    return x


def resize(c, x):
    """Linear: along one dimension after the other, by a matrix each."""
    if c["given_alpha"] < 0:
        return cubic(c, x)
    if not c["given_alpha"] > 0:
        return F.interpolate(x, c["dims"], mode="nearest")
    for d, n in enumerate(c["dims"]):
        m = x.shape[d + 2]
        i = torch.arange(n, dtype=torch.float64)
        at = i * (m - 1) / max(n - 1, 1) if c["offset"] else \
            (i + c["given_beta"]) * m / n - c["given_beta"]
        at = at.clamp(0, m - 1)
        low = at.floor().long().clamp(max=m - 1)
        high = (low + 1).clamp(max=m - 1)
        w = torch.zeros(n, m, dtype=torch.float64)
        w[i.long(), low] += 1 - (at - low)
        w[i.long(), high] += at - low
        x = torch.tensordot(x, w.to(x), ([d + 2], [1])).movedim(-1, d + 2)
    return x


def attention(c, q, k, v, table=None):
    n, t, s = q.shape[0], q.shape[1], k.shape[1]
    h, g = c["heads"], c["heads"] // c["kv_heads"]
    cut = lambda z, m: z.reshape(n, z.shape[1], m, -1).transpose(1, 2)
    q, k, v = cut(q, h), cut(k, c["kv_heads"]), cut(v, c["kv_heads"])
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    w = q @ k.transpose(-2, -1) * (c["scale"] or 1 / math.sqrt(q.shape[-1]))
    if table is not None:
        w = w + table[distance_rows(table.shape[0], c["causal"], t, s)].permute(2, 0, 1)
    i, j = torch.arange(t)[:, None], torch.arange(s)[None]
    if c["given_alpha"] > 0:
        w = w - slopes(c, h).to(w)[:, None, None] * (j - i).abs()
    mask = torch.zeros(t, s, dtype=torch.bool)
    if c["causal"]:
        mask |= j > i
    if c["window"]:
        mask |= (j <= i - c["window"]) | (j >= i + c["window"])
    w = w.masked_fill(mask, -math.inf).softmax(-1)
    return (w @ v).transpose(1, 2).reshape(n, t, -1)


def perms(c, x):
    d = c["dims"] or list(reversed(range(x.dim() - 1)))
    return x.permute([0] + [v + 1 for v in d])


def prelu(c, x, w):
    return F.prelu(x, w[0])


def scale(c, x, w):
    if x.dim() > 3:
        return x * w[0].reshape([-1] + [1] * (x.dim() - 2))
    return x * w[0]


def pad(c, x, w):
    return padded(x, c)


def batch_norm(c, x, w):
    """Each of so many groups of samples by itself."""
    return torch.cat([F.batch_norm(part, None, None, w[0], w[1], training=True,
                                   eps=c["epsilon"] or 1e-5)
                      for part in x.chunk(c["apart"])])


def reduce(c, x, how):
    """Over the named axes of a sample; none: over all of them."""
    axes = [d + 1 for d in c["dims"]] or list(range(1, x.dim()))
    if how is torch.linalg.vector_norm:
        return how(x, 2, axes, keepdim=c["keep_dims"])
    return how(x, axes, keepdim=c["keep_dims"])


def prod(x, axes, keepdim):
    for a in sorted(axes, reverse=True):
        x = x.prod(a, keepdim=keepdim)
    return x


def class_token(c, x, w):
    return torch.cat([w[0].expand(x.shape[0], 1, -1), x], 1)


def cumsum(c, x, w):
    axis = c["axis"] + 1
    back, without = (c["dims"] + [0, 0])[:2]
    y = x.flip(axis) if back else x
    y = y.cumsum(axis) - (y if without else 0)
    return y.flip(axis) if back else y


def argmax(c, x, w):
    y = x.argmax(c["axis"] + 1, keepdim=c["keep_dims"])
    return y.to(x.dtype) + 0 * x.sum()


ONE = {
    "conv": conv, "conv_transpose": conv_transpose, "max_pool": max_pool,
    "avg_pool": avg_pool, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "rope": rope, "slice_heads": slice_heads, "prelu": prelu, "scale": scale, "pad": pad,
    "batch_norm": batch_norm, "class_token": class_token, "cumsum": cumsum,
    "argmax": argmax,
    "linear": lambda c, x, w: F.linear(x, *w),
    "group_norm": lambda c, x, w: F.group_norm(x, c["groups"], *w, eps=c["epsilon"] or 1e-5),
    "instance_norm": lambda c, x, w: F.instance_norm(x, None, None, *w, eps=c["epsilon"] or 1e-5),
    "leaky_relu": lambda c, x, w: F.leaky_relu(x, c["alpha"]),
    "elu": lambda c, x, w: F.elu(x, c["alpha"]),
    "hard_sigmoid": lambda c, x, w: (c["alpha"] * x + c["beta"]).clamp(0, 1),
    "clip": lambda c, x, w: x.clamp(c["alpha"], c["beta"]),
    "affine": lambda c, x, w: c["alpha"] * x + c["beta"],
    "power": lambda c, x, w: x ** c["alpha"],
    # torch has the longer half of an even window before the channel
    "lrn": lambda c, x, w: F.local_response_norm(x.flip(1), c["window"], c["alpha"], c["beta"]).flip(1),
    "global_avg_pool": lambda c, x, w: x.mean(list(range(2, x.dim())), True),
    "global_max_pool": lambda c, x, w: x.amax(list(range(2, x.dim())), True),
    "adaptive_avg_pool": lambda c, x, w: F.adaptive_avg_pool2d(x, c["dims"]),
    "flatten": lambda c, x, w: x.flatten(1),
    "reshape": lambda c, x, w: x.reshape([x.shape[0]] + c["dims"]),
    "expand": lambda c, x, w: x.expand([x.shape[0]] + c["dims"]),
    "squeeze": lambda c, x, w: x.squeeze(c["dims"][0] + 1),
    "unsqueeze": lambda c, x, w: x.unsqueeze(c["dims"][0] + 1),
    "transpose": lambda c, x, w: perms(c, x),
    "slice": lambda c, x, w: x[:, :, c["dims"][0]:c["dims"][1]:c["dims"][2]],
    "resize": lambda c, x, w: resize(c, x),
    "reduce_mean": lambda c, x, w: reduce(c, x, torch.mean),
    "reduce_sum": lambda c, x, w: reduce(c, x, torch.sum),
    "reduce_max": lambda c, x, w: reduce(c, x, torch.amax),
    "reduce_min": lambda c, x, w: reduce(c, x, torch.amin),
    "reduce_prod": lambda c, x, w: reduce(c, x, prod),
    "reduce_l2": lambda c, x, w: reduce(c, x, torch.linalg.vector_norm),
    "softmax": lambda c, x, w: x.softmax(c["axis"] + 1),
    "log_softmax": lambda c, x, w: x.log_softmax(c["axis"] + 1),
    "embedding": lambda c, x, w: F.embedding(x.long(), w[0]),
    "position_embedding":
        lambda c, x, w: w[0][:x.shape[1]].expand(x.shape[0], -1, -1) + 0 * x.sum(),
}
MANY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "max": torch.maximum,
    "min": torch.minimum, "mean": lambda a, b: (a + b) / 2,
    "matmul": torch.matmul, "pow": torch.pow,
}
COMPARED = {
    "equal": torch.eq, "less": torch.lt, "less_equal": torch.le,
    "greater": torch.gt, "greater_equal": torch.ge,
    "and": torch.logical_and, "or": torch.logical_or,
    "xor": torch.logical_xor,
}
SKIPPED = {"dropout"}  # its random numbers are our own


def experts(c, x, scores, up, down):
    """A token's gates are the softmax of its topk largest scores (Mixtral)."""
    best, which = scores.topk(c["topk"], -1)
    gates = torch.zeros_like(scores).scatter(-1, which, best.softmax(-1))
    gate, linear = torch.einsum("nth,efh->ntef", x, up).chunk(2, -1)
    y = torch.einsum("ntef,ehf->nteh", F.silu(gate) * linear, down)
    return (gates.unsqueeze(-1) * y).sum(2)


def chosen(c, x):
    """An operand that is not there is alpha; what decides has gradients of 0."""
    if c["op"] == "where":
        y = torch.where(x[0] != 0, x[1],
                        x[2] if len(x) > 2 else torch.full_like(x[1], c["alpha"]))
    elif c["op"] == "not":
        y = (x[0] == 0).to(x[0].dtype)
    else:
        y = COMPARED[c["op"]](x[0], x[1] if len(x) > 1 else
                              torch.full_like(x[0], c["alpha"])).to(x[0].dtype)
    return y + 0 * sum(a.sum() for a in x)


def placed(x, at, axis):
    """Whole numbers; those below 0 count from the end."""
    at = at.detach().long()
    return at + (at < 0) * x.shape[axis]


def taken(c, x, at):
    axis = c["axis"] + 1
    at = placed(x, at, axis)
    if c["op"] == "take":
        return x.gather(axis, at)
    return torch.stack([one[(slice(None),) * (axis - 1) + (where,)]
                        for one, where in zip(x, at)])


def run(c, x, w):
    op = c["op"]
    if op in ("take", "take_rows"):
        return [taken(c, *x)]
    if op == "gelu" and c["by_tanh"]:
        return [F.gelu(x[0], approximate="tanh")]
    if op in UNARY:
        return [UNARY[op](x[0])]
    if op in MANY:
        return [MANY[op](*(x + w))]
    if op in ("where", "not") or op in COMPARED:
        return [chosen(c, x)]
    if op == "concat":
        return [torch.cat(x, c["axis"] + 1)]
    if op == "split":
        return list(x[0].split(c["dims"], c["axis"] + 1))
    if op == "attention":
        return [attention(c, *x, *w)]
    if op == "join_heads":
        return [join_heads(c, *x)]
    if op == "experts":
        return [experts(c, *x, *w)]
    return [ONE[op](c, x[0], w)]


def tensor(v):
    return torch.tensor(v["data"], dtype=torch.float64).reshape(v["shape"])


def difference(a, b):
    size = b.norm().item()
    return (a - b).norm().item() / (size if size > 0 else 1.0)


def check_kernel(c):
    x = [tensor(v).requires_grad_() for v in c["x"]]
    w = [tensor(v).requires_grad_() for v in c["w"]]
    y = run(c, x, w)
    loss = sum((a * tensor(d)).sum() for a, d in zip(y, c["dy"]))
    loss.backward()
    worst = max(difference(tensor(v), a.detach()) for v, a in zip(c["y"], y))
    for name, mine in (("dx", x), ("dw", w)):
        for v, a in zip(c[name], mine):
            if a.grad is not None:
                worst = max(worst, difference(tensor(v), a.grad))
    return worst


def check_optimizer(c):
    wd = 0.05 if c["variant"] > 0 else 0
    w = torch.sin(torch.arange(50, dtype=torch.float64)).requires_grad_()
    made = {
        "sgd": lambda: torch.optim.SGD([w], 0.03, 0.9, weight_decay=wd,
                                       nesterov=c["variant"] == 2),
        "adam": lambda: torch.optim.Adam([w], 0.03, weight_decay=wd),
        "adamw": lambda: torch.optim.AdamW([w], 0.03, weight_decay=wd),
    }
    if c["optimizer"] not in made:
        return None  # torch has no LARS and no LAMB
    o = made[c["optimizer"]]()
    for t in range(1, 11):
        w.grad = torch.cos(torch.arange(50, dtype=torch.float64) * t) + w.detach() / 2
        o.step()
    return difference(torch.tensor(c["w"], dtype=torch.float64), w.detach())


def main():
    bad = kernels = optimizers = 0
    top = 0.0
    for line in sys.stdin:
        c = json.loads(line)
        if "optimizer" in c:
            d, name = check_optimizer(c), c["optimizer"]
            optimizers += d is not None
        elif c["op"] in SKIPPED:
            continue
        else:
            d, name = check_kernel(c), c["backend"] + ": " + c["name"]
            kernels += 1
        if d is None:
            continue
        top = max(top, d)
        if not d < 3e-6:
            bad += 1
            print(f"{name} differs from torch by {d:.2g}")
    print(f"{kernels} kernels and {optimizers} optimizers as torch's, "
          f"largest difference {top:.2g}")
    sys.exit(1 if bad or kernels < 150 or optimizers < 9 else 0)


main()
