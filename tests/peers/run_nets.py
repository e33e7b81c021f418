"""Networks of the zoo in PyTorch, as functions of a dictionary of weights with
our names: T5 (its own scores, a table of distances a stack) and DeepSeek's
latent attention with experts (gates as doc/zoo.md says)."""
import math
import torch
import torch.nn.functional as F

EPS = 1e-6


def rms(w, name, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w[name + ".weight"]


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"])


def heads_of(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def whole(x):
    return x.transpose(1, 2).flatten(2)


def causal(t, dtype):
    return torch.full((t, t), -math.inf, dtype=dtype).triu(1)


def distance_rows(rows, one_way, t, s):
    """As Mesh TensorFlow has them: half one by one, half by ranges up to 128."""
    ahead = torch.arange(s)[None] - torch.arange(t)[:, None]
    row = torch.zeros_like(ahead)
    if one_way:
        n = (-ahead).clamp(min=0)
    else:
        rows //= 2
        row += (ahead > 0) * rows
        n = ahead.abs()
    near = rows // 2
    far = near + (torch.log(n.clamp(min=1).double() / near) / math.log(128 / near)
                  * (rows - near)).long()
    return row + torch.where(n < near, n, far.clamp(max=rows - 1))


def t5(w, ids, layers=2, heads=4):
    """ids: what the encoder reads, then what the decoder reads."""
    t = ids.shape[1] // 2
    table = w["encoder.embed.tokens.weight"]

    def attend(p, x, memory, shift):
        q, k, v = (heads_of(linear(w, p + c, z), heads) for c, z in (("q", x), ("k", memory), ("v", memory)))
        a = torch.softmax(q @ k.transpose(-1, -2) + shift, -1) @ v
        return linear(w, p + "out", whole(a))

    def stack(name, x, memory=None):
        rows = w[name + "relative.weight"]
        shift = rows[distance_rows(rows.shape[0], memory is not None, t, t)].permute(2, 0, 1)
        if memory is not None:
            shift = shift + causal(t, x.dtype)
        for i in range(layers):
            p = f"{name}layers.{i}."
            h = rms(w, p + "attn.norm", x)
            x = x + attend(p + "attn.", h, h, shift)
            if memory is not None:
                x = x + attend(p + "cross.", rms(w, p + "cross.norm", x), memory, 0)
            h = linear(w, p + "ffn.up", rms(w, p + "ffn.norm", x))
            x = x + linear(w, p + "ffn.down", F.relu(h))
        return rms(w, name + "norm", x)

    memory = stack("encoder.", F.embedding(ids[:, :t], table))
    return F.linear(stack("decoder.", F.embedding(ids[:, t:], table), memory), table)


def turn(x):
    """Rotary positions of [N, heads, T, d], pairs half of d apart."""
    t, half = x.shape[2], x.shape[3] // 2
    angle = torch.outer(torch.arange(t, dtype=torch.float64),
                        10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)).to(x.dtype)
    a, b, c, s = x[..., :half], x[..., half:], angle.cos(), angle.sin()
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def experts(w, p, x, topk):
    """Router with correction, topk gates by softmax, and the shared expert."""
    scores = linear(w, p + "router", x) + w[p + "correction.weight"]
    best, which = scores.topk(topk, -1)
    gates = torch.zeros_like(scores).scatter(-1, which, best.softmax(-1))
    g, u = torch.einsum("nth,efh->ntef", x, w[p + "experts.gate_up_proj"]).chunk(2, -1)
    y = torch.einsum("ntef,ehf->nteh", F.silu(g) * u, w[p + "experts.down_proj"])
    return (gates.unsqueeze(-1) * y).sum(2) + gated(w, p + "shared.", x)


def gated(w, p, x):
    return linear(w, p + "down", F.silu(linear(w, p + "gate", x)) * linear(w, p + "up", x))


def deepseek(w, ids, layers=2, dense=1, heads=4, topk=2, nope=8, rope=4):
    x = F.embedding(ids, w["embed.tokens.weight"])
    mask = causal(ids.shape[1], x.dtype)
    for i in range(layers):
        p = f"layers.{i}."
        h = rms(w, p + "attn.norm", x)
        q = linear(w, p + "attn.q_b", rms(w, p + "attn.q_a_norm", linear(w, p + "attn.q_a", h)))
        q = heads_of(q, heads)
        q = torch.cat([q[..., :nope], turn(q[..., nope:])], -1)
        low = linear(w, p + "attn.kv_a", h)
        shared = turn(low[..., -rope:].unsqueeze(1))
        kv = heads_of(linear(w, p + "attn.kv_b", rms(w, p + "attn.kv_a_norm", low[..., :-rope])), heads)
        k = torch.cat([kv[..., :nope], shared.expand(-1, heads, -1, -1)], -1)
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(nope + rope) + mask, -1) @ kv[..., nope:]
        x = x + linear(w, p + "attn.out", whole(a))
        part = "ffn." if i < dense else "moe."
        h = rms(w, p + part + "norm", x)
        x = x + (gated(w, p + part, h) if i < dense else experts(w, p + part, h, topk))
    return linear(w, "head", rms(w, "norm", x))
