"""The networks of train_vs_torch.py in PyTorch: torchvision's where it has them,
else written here, with the shapes and losses of ours."""


def lenet():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10))


def resnet18():
    from torch import nn
    import torchvision
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return net


def gpt(layers=6, hidden=384, heads=6, vocab=65, seq=256):
    import math
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.register_buffer("mask", torch.full((seq, seq), -math.inf).triu(1))

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (z.view(n, t, heads, -1).transpose(1, 2)
                       for z in self.qkv(self.n1(x)).split(hidden, 2))
            a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.mask, -1)
            x = x + self.out((a @ v).transpose(1, 2).reshape(n, t, -1))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(hidden)

        def forward(self, ids):
            x = self.blocks(self.tokens(ids) + self.positions.weight)
            return self.norm(x) @ self.tokens.weight.t()

    return Net()


def mixture(layers=2, hidden=256, heads=4, ffn=512, experts=8, topk=2, vocab=65, seq=256):
    """Mixtral's block: tokens gathered by expert, as its published code does."""
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Norm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    half = hidden // heads // 2
    angle = torch.outer(torch.arange(seq).float(), 10000.0 ** (-torch.arange(half) / half))
    cos, sin = angle.cos(), angle.sin()

    def turn(x):
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = Norm(hidden), Norm(hidden)
            self.q, self.k, self.v, self.out = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
            self.router = nn.Linear(hidden, experts, bias=False)
            self.up = nn.ModuleList(nn.Linear(hidden, 2 * ffn, bias=False) for _ in range(experts))
            self.down = nn.ModuleList(nn.Linear(ffn, hidden, bias=False) for _ in range(experts))
            self.register_buffer("mask", torch.full((seq, seq), float("-inf")).triu(1))

        def experts(self, x):
            best, which = self.router(x).topk(topk, -1)
            gates, y = best.softmax(-1), torch.zeros_like(x)
            for e in range(experts):
                token, choice = torch.where(which == e)
                g, u = self.up[e](x[token]).chunk(2, -1)
                y = y.index_add(0, token, self.down[e](F.silu(g) * u) * gates[token, choice, None])
            return y

        def forward(self, x):
            n, t, _ = x.shape
            z = self.n1(x)
            q, k, v = (p(z).view(n, t, heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
            a = torch.softmax(turn(q) @ turn(k).transpose(-1, -2) / (2 * half) ** 0.5 + self.mask, -1)
            x = x + self.out((a @ v).transpose(1, 2).reshape(n, t, -1))
            return x + self.experts(self.n2(x).reshape(n * t, -1)).reshape(n, t, -1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(layers)]), Norm(hidden)

        def forward(self, ids):
            return self.head(self.norm(self.blocks(self.tokens(ids))))

    return Net()


def vision(name, **options):
    import torchvision
    return getattr(torchvision.models, name)(**options)


def vgg_like():
    from torch import nn
    layers, c = [], 3
    for f in (64, "M", 128, "M", 256, 256, "M", 512, 512):
        layers += [nn.MaxPool2d(2)] if f == "M" else [nn.Conv2d(c, f, 3, padding=1), nn.ReLU()]
        c = c if f == "M" else f
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 64, 1024), nn.ReLU(),
                         nn.Linear(1024, 100))


def vit(layers, hidden, heads, image=224, patch=16):
    """As the zoo has it: the class token's features are what is classified."""
    from torch import nn
    import torchvision
    net = torchvision.models.VisionTransformer(image, patch, layers, heads, hidden, 4 * hidden)
    net.heads = nn.Identity()
    return net


def unet(base, channels=1, classes=2, norm=False, three=False):
    import torch
    from torch import nn
    conv = nn.Conv3d if three else nn.Conv2d
    turned = nn.ConvTranspose3d if three else nn.ConvTranspose2d
    pool = nn.MaxPool3d(2) if three else nn.MaxPool2d(2)

    def double(c, f, g):
        parts = []
        for i, o in ((c, f), (f, g)):
            parts += [conv(i, o, 3, padding=1)] + ([nn.BatchNorm3d(o)] if norm else []) + [nn.ReLU()]
        return nn.Sequential(*parts)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.turn, self.up, c = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), channels
            depth, wide = (4, 2) if three else (5, 1)
            for i in range(depth):
                self.down.append(double(c, base << i, wide * base << i))
                c = wide * base << i
            for i in reversed(range(depth - 1)):
                f = base << (i + 2) if three else base << i
                g = base << (i + 1) if three else base << i
                self.turn.append(turned(c, f, 2, 2, bias=not norm))
                self.up.append(double(f + (wide * base << i), g, g))
                c = g
            self.out = conv(c, classes, 1)

        def forward(self, x):
            skip = []
            for d in self.down:
                x = d(pool(x) if skip else x)
                skip.append(x)
            skip.pop()
            for t, u in zip(self.turn, self.up):
                x = u(torch.cat([skip.pop(), t(x)], 1))
            return self.out(x)

    return Net()


def bert(layers, hidden, heads, vocab, seq):
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.types, self.norm = nn.Embedding(2, hidden), nn.LayerNorm(hidden)
            self.blocks = nn.Sequential(*[nn.TransformerEncoderLayer(
                hidden, heads, 4 * hidden, 0.0, "gelu", batch_first=True) for _ in range(layers)])
            self.pooler = nn.Linear(hidden, hidden)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions.weight + self.types.weight[0]
            return torch.tanh(self.pooler(self.blocks(self.norm(x))[:, 0]))

    return Net()


def llama(layers, hidden, heads, ffn, vocab, seq):
    import torch
    from torch import nn
    import torch.nn.functional as F
    half = hidden // heads // 2
    angle = torch.outer(torch.arange(seq).float(), 10000.0 ** (-torch.arange(half) / half))
    cos, sin = angle.cos(), angle.sin()

    class Norm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def turn(x):
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def plain(a, b):
        return nn.Linear(a, b, bias=False)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = Norm(hidden), Norm(hidden)
            self.q, self.k, self.v, self.out = (plain(hidden, hidden) for _ in range(4))
            self.gate, self.up, self.down = plain(hidden, ffn), plain(hidden, ffn), plain(ffn, hidden)
            self.register_buffer("mask", torch.full((seq, seq), float("-inf")).triu(1))

        def forward(self, x):
            n, t, _ = x.shape
            z = self.n1(x)
            q, k, v = (p(z).view(n, t, heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
            a = torch.softmax(turn(q) @ turn(k).transpose(-1, -2) / (2 * half) ** 0.5 + self.mask, -1)
            x = x + self.out((a @ v).transpose(1, 2).reshape(n, t, -1))
            z = self.n2(x)
            return x + self.down(F.silu(self.gate(z)) * self.up(z))

    return nn.Sequential(nn.Embedding(vocab, hidden), *[Block() for _ in range(layers)], Norm(hidden),
                         plain(hidden, vocab))
