"""Networks that measurements want and the zoo does not have, as model files.

  networks_yaml.py NAME FILE

Shapes are those of torchvision (Howard et al. 2019; Iandola et al. 2016;
Szegedy et al. 2015; Radosavovic et al. 2020). GoogLeNet is without its two
auxiliary classifiers."""
import sys


class Net:
    def __init__(self, name, image):
        self.lines = ["format: paradl-model/1", f"name: {name}", "kind: cnn", "inputs:",
                      f"  - {{name: input, shape: [3, {image}, {image}]}}", "layers:"]
        self.n, self.channels = 0, {"input": 3}

    def add(self, op, x, channels=None, **attr):
        self.n += 1
        name = f"{op}{self.n}"
        xs = x if isinstance(x, list) else [x]
        fields = "".join(f", {k}: {v}" for k, v in attr.items())
        self.lines.append(f"  - {{op: {op}, name: {name}, in: [{', '.join(xs)}]{fields}}}")
        self.channels[name] = channels or self.channels[xs[0]]
        return name

    def conv(self, x, f, k=1, s=1, groups=1, act=None, norm=True):
        p = (k - 1) // 2
        x = self.add("conv", x, f, features=f, kernel=k, stride=s, pad=p, groups=groups,
                     bias="false" if norm else "true")
        x = self.add("batch_norm", x) if norm else x
        return self.add(act, x) if act else x

    def gate(self, x, squeezed, inner, outer):
        c = self.channels[x]
        g = self.add("global_avg_pool", x)
        g = self.conv(g, squeezed, act=inner, norm=False)
        g = self.conv(g, c, act=outer, norm=False)
        return self.add("mul", [x, g])

    def head(self, x, features):
        x = self.add("flatten", self.add("global_avg_pool", x))
        return self.add("linear", x, features, features=features)


def divisible(v):
    new = max(8, int(v + 4) // 8 * 8)
    return new + 8 if new < 0.9 * v else new


def mobilenet_v3_large(image=224):
    # kernel, expanded, out, gate, activation, stride
    rows = [(3, 16, 16, 0, "relu", 1), (3, 64, 24, 0, "relu", 2), (3, 72, 24, 0, "relu", 1),
            (5, 72, 40, 1, "relu", 2), (5, 120, 40, 1, "relu", 1), (5, 120, 40, 1, "relu", 1),
            (3, 240, 80, 0, "hard_swish", 2), (3, 200, 80, 0, "hard_swish", 1),
            (3, 184, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1),
            (3, 480, 112, 1, "hard_swish", 1), (3, 672, 112, 1, "hard_swish", 1),
            (5, 672, 160, 1, "hard_swish", 2), (5, 960, 160, 1, "hard_swish", 1),
            (5, 960, 160, 1, "hard_swish", 1)]
    return mobilenet_v3("mobilenet_v3_large", rows, 960, 1280, image)


def mobilenet_v3_small(image=224):
    rows = [(3, 16, 16, 1, "relu", 2), (3, 72, 24, 0, "relu", 2), (3, 88, 24, 0, "relu", 1),
            (5, 96, 40, 1, "hard_swish", 2), (5, 240, 40, 1, "hard_swish", 1),
            (5, 240, 40, 1, "hard_swish", 1), (5, 120, 48, 1, "hard_swish", 1),
            (5, 144, 48, 1, "hard_swish", 1), (5, 288, 96, 1, "hard_swish", 2),
            (5, 576, 96, 1, "hard_swish", 1), (5, 576, 96, 1, "hard_swish", 1)]
    return mobilenet_v3("mobilenet_v3_small", rows, 576, 1024, image)


def mobilenet_v3(name, rows, last, hidden, image):
    n = Net(name, image)
    x = n.conv("input", 16, 3, 2, act="hard_swish")
    for k, wide, out, gate, act, s in rows:
        c, y = n.channels[x], x
        y = n.conv(y, wide, act=act) if wide != c else y
        y = n.conv(y, wide, k, s, groups=wide, act=act)
        y = n.gate(y, divisible(wide // 4), "relu", "hard_sigmoid") if gate else y
        y = n.conv(y, out)
        x = n.add("add", [x, y]) if s == 1 and out == c else y
    x = n.conv(x, last, act="hard_swish")
    x = n.add("hard_swish", n.head(x, hidden))
    n.add("linear", x, 1000, features=1000)
    return n


def squeezenet1_1(image=224):
    n = Net("squeezenet1_1", image)
    pool = dict(kernel=3, stride=2, ceil_mode="true")
    x = n.add("conv", "input", 64, features=64, kernel=3, stride=2)
    x = n.add("max_pool", n.add("relu", x), **pool)
    for i, (s, e) in enumerate([(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192),
                                (64, 256), (64, 256)]):
        x = n.conv(x, s, act="relu", norm=False)
        a = n.conv(x, e, act="relu", norm=False)
        b = n.conv(x, e, 3, act="relu", norm=False)
        x = n.add("concat", [a, b], 2 * e, axis=0)
        x = n.add("max_pool", x, **pool) if i in (1, 3) else x
    x = n.conv(x, 1000, act="relu", norm=False)
    n.add("flatten", n.add("global_avg_pool", x))
    return n


def googlenet(image=224):
    n = Net("googlenet", image)
    pool = dict(kernel=3, stride=2, ceil_mode="true")
    x = n.add("max_pool", n.conv("input", 64, 7, 2, act="relu"), **pool)
    x = n.conv(n.conv(x, 64, act="relu"), 192, 3, act="relu")
    x = n.add("max_pool", x, **pool)
    rows = [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
            (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
            (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128),
            (384, 192, 384, 48, 128, 128)]
    for r in rows:
        if r is None:
            x = n.add("max_pool", x, kernel=2 if n.channels[x] == 832 else 3, stride=2,
                      ceil_mode="true")
            continue
        parts = [n.conv(x, r[0], act="relu"),
                 n.conv(n.conv(x, r[1], act="relu"), r[2], 3, act="relu"),
                 n.conv(n.conv(x, r[3], act="relu"), r[4], 3, act="relu"),
                 n.conv(n.add("max_pool", x, kernel=3, stride=1, pad=1), r[5], act="relu")]
        x = n.add("concat", parts, r[0] + r[2] + r[4] + r[5], axis=0)
    n.head(x, 1000)
    return n


def regnet(name, widths, depths, group, gate, image):
    n = Net(name, image)
    x = n.conv("input", 32, 3, 2, act="relu")
    for w, d in zip(widths, depths):
        for i in range(d):
            c, s = n.channels[x], 2 if i == 0 else 1
            y = n.conv(x, w, act="relu")
            y = n.conv(y, w, 3, s, groups=w // group, act="relu")
            y = n.gate(y, c // 4, "relu", "sigmoid") if gate else y
            y = n.conv(y, w)
            x = x if c == w and s == 1 else n.conv(x, w, 1, s)
            x = n.add("relu", n.add("add", [y, x]))
    n.head(x, 1000)
    return n


def regnet_x_400mf(image=224):
    return regnet("regnet_x_400mf", (32, 64, 160, 400), (1, 2, 7, 12), 16, False, image)


def regnet_y_400mf(image=224):
    return regnet("regnet_y_400mf", (48, 104, 208, 440), (1, 3, 6, 6), 8, True, image)


def text(name, **options):
    return "\n".join(globals()[name](**options).lines) + "\n"


if __name__ == "__main__":
    open(sys.argv[2], "w").write(text(sys.argv[1]))
