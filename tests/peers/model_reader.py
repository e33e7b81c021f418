#!/usr/bin/env python3
"""A second reader of doc/formats/model.md, written from that page alone.

model_reader.py FILE.yaml SHOW.json reads a model, works out parameters,
buffers, forward FLOPs and the shape every layer makes, and compares them with
what `paradl model show --layers --json` says.
"""
import json
import math
import sys
from collections import Counter

import yaml

SPATIAL = "kernel stride dilation pad pad_end output_pad".split()
COMPARE = "equal less less_equal greater greater_equal and or xor".split()
BROADCAST = "add sub mul div pow mod min max mean where".split() + COMPARE
FLOATS = "f32 f64 f16 bf16 f8 f4".split()


def ints(value):
    return [int(v) for v in value]


class Tensor:
    def __init__(self, shape, dtype, kind, times):
        self.shape, self.dtype, self.kind, self.times = shape, dtype, kind, times


class Reader:
    def __init__(self, doc):
        assert doc["format"] == "paradl-model/1"
        self.tensors, self.layers, self.rows, self.flops = {}, {}, [], 0
        self.times, self.last = 1, None
        self.declare(doc.get("inputs"), "input")
        self.last = next(iter(self.tensors), None)
        self.declare(doc.get("tensors"), "weight")
        for item in doc["layers"]:
            self.block(item) if "repeat" in item else self.layer(item)

    def declare(self, items, kind):
        for t in items or []:
            self.add(t["name"], ints(t["shape"]), t.get("dtype", "f32"),
                     t.get("kind", kind))

    def add(self, name, shape, dtype, kind):
        assert name not in self.tensors, name
        self.tensors[name] = Tensor(shape, dtype, kind, self.times)
        return name

    def find(self, name):
        return name if name in self.tensors else self.layers[name]

    def block(self, item):
        assert self.times == 1
        carry = self.find(item["carry"]) if "carry" in item else self.last
        self.times = int(item["repeat"])
        self.last = carry
        self.declare(item.get("inputs"), "input")
        self.declare(item.get("tensors"), "weight")
        for layer in item["layers"]:
            self.layer(layer)
        self.last = self.find(item["out"]) if "out" in item else self.last
        assert self.tensors[self.last].shape == self.tensors[carry].shape
        self.times = 1

    def layer(self, item):
        op, name = item["op"], item["name"]
        ins = [self.find(n) for n in item["in"]] if "in" in item else [self.last]
        x = [self.tensors[n] for n in ins]
        a = attributes(item, len(x[0].shape) - 1 if x else 0)
        own = own_weights(op, a, x[0].shape) if x else []
        if "weights" in item:
            w = [self.find(n) for n in item["weights"]]
        else:
            dtype = x[0].dtype if x and x[0].dtype in FLOATS else "f32"
            w = [self.add(f"{name}.{n}", s, dtype, k) for n, k, s in own]
        for (_, _, shape), n in zip(own, w):
            assert math.prod(shape) == math.prod(self.tensors[n].shape), n
        w = [self.tensors[n] for n in w]
        shapes = infer(op, a, [t.shape for t in x], [t.shape for t in w])
        dtype = out_type(op, x, w)
        outs = item.get("out", [{"shape": s} for s in shapes or []])
        names = []
        for i, out in enumerate(outs):
            shape = ints(out["shape"])
            assert shapes is None or shape == shapes[i], (name, shape, shapes)
            default = f"{name}.y{i}" if i else f"{name}.y"
            names.append(self.add(out.get("name", default), shape,
                                  out.get("dtype", dtype), "activation"))
        self.flops += self.times * flops(
            op, a, [t.shape for t in x], self.tensors[names[0]].shape)
        self.rows.append((op, self.times, self.tensors[names[0]].shape))
        self.layers[name] = self.last = names[0]

    def total(self, kind):
        return sum(math.prod(t.shape) * t.times
                   for t in self.tensors.values() if t.kind == kind)


def attributes(item, spatial):
    a = {k: int(item.get(k, 0)) for k in
         "features vocab groups heads kv_heads head_dim v_head_dim window "
         "experts topk ffn axis".split()}
    a.update({k: item.get(k) == "true" for k in
              "ceil_mode count_pad keep_dims causal gated".split()})
    a["bias"] = item.get("bias", "true") == "true"
    a["scale"] = float(item.get("scale", 0))
    a["dims"] = ints(item.get("dims", []))
    for k in SPATIAL:
        v = item.get(k, item.get("pad", []) if k == "pad_end" else [])
        v = ints(v) if isinstance(v, list) else [int(v)] * spatial
        a[k] = v + [0] * (3 - len(v))
    if a["kernel"][0]:
        for k in ("stride", "dilation"):
            a[k] = [s or 1 for s in a[k]]
        a["groups"] = a["groups"] or 1
    return a


def own_weights(op, a, x):
    def both(first, shape, bias, n):
        return [(first, "weight", shape)] + \
            ([(bias, "weight", n)] if a["bias"] else [])

    c, e, f = (x[0], x[-1], a["features"]) if x else (0, 1, a["features"])
    k = a["kernel"][:len(x) - 1]
    if op == "conv":
        return both("weight", [f, c // a["groups"]] + k, "bias", [f])
    if op == "conv_transpose":
        return both("weight", [c, f // a["groups"]] + k, "bias", [f])
    if op == "linear":
        return both("weight", [f, e], "bias", [f])
    if op in ("embedding", "position_embedding"):
        return [("weight", "weight", [a["vocab"], f])]
    if op == "class_token":
        return [("weight", "weight", [1, e])]
    if op == "experts":
        n, up = a["experts"], (2 if a["gated"] else 1) * a["ffn"]
        return [("gate_up_proj", "weight", [n, up, e]),
                ("down_proj", "weight", [n, e, a["ffn"]])] + \
            ([("gate_up_proj_bias", "weight", [n, up]),
              ("down_proj_bias", "weight", [n, e])] if a["bias"] else [])
    if op == "batch_norm":
        return both("weight", [c], "bias", [c]) + [
            ("running_mean", "buffer", [c]), ("running_var", "buffer", [c])]
    if op in ("group_norm", "instance_norm"):
        return both("weight", [c], "bias", [c])
    if op == "layer_norm":
        return both("weight", [f or e], "bias", [f or e])
    if op == "rms_norm":
        return [("weight", "weight", [f or e])]
    if op == "prelu":
        return [("weight", "weight", [f or (c if len(x) > 1 else 1)])]
    if op == "scale":
        return [("weight", "weight", [f or (c if len(x) > 2 else e)])]
    return []


def out_type(op, x, w):
    if op in ("embedding", "position_embedding"):
        return w[0].dtype
    if op in COMPARE:
        return "bool"
    return x[0].dtype if x else "f32"


def windows(a, i, x, ceil):
    span = a["dilation"][i] * (a["kernel"][i] - 1) + 1
    room = x + a["pad"][i] + a["pad_end"][i] - span
    n = room // a["stride"][i] + 1
    if ceil and room % a["stride"][i] and n * a["stride"][i] < x + a["pad"][i]:
        n += 1
    return n


def broadcast(shapes):
    rank = max(len(s) for s in shapes)
    wide = [[1] * (rank - len(s)) + s for s in shapes]
    return [next((d for d in col if d != 1), 1) for col in zip(*wide)]


def infer(op, a, ins, w):
    """Output shapes; None where only `out` can say."""
    x = ins[0] if ins else []
    dims, axis, s = a["dims"], a["axis"], range(len(x) - 1)
    if op == "conv":
        return [[a["features"]] + [windows(a, i, x[i + 1], False) for i in s]]
    if op == "conv_transpose":
        return [[a["features"]] + [
            (x[i + 1] - 1) * a["stride"][i] + a["dilation"][i] *
            (a["kernel"][i] - 1) + 1 + a["output_pad"][i] - a["pad"][i] -
            a["pad_end"][i] for i in s]]
    if op in ("max_pool", "avg_pool"):
        return [[x[0]] + [windows(a, i, x[i + 1], a["ceil_mode"]) for i in s]]
    if op == "linear":
        return [x[:-1] + [a["features"]]]
    if op == "matmul":
        y = ins[1]
        lead = broadcast([x[:-2], y[:-2]]) if len(x) + len(y) > 4 else []
        return [lead + [x[-2], y[-1]]]
    if op == "attention":
        return [[x[0], a["heads"] * (a["v_head_dim"] or a["head_dim"])]]
    if op == "embedding":
        return [x + [a["features"]]]
    if op == "position_embedding":
        return [[x[0], a["features"]]]
    if op == "class_token":
        return [[x[0] + 1, x[1]]]
    if op in ("global_avg_pool", "global_max_pool"):
        return [[x[0]] + [1] * (len(x) - 1)]
    if op == "adaptive_avg_pool" or (op == "resize" and dims):
        return [[x[0]] + dims]
    if op == "resize":
        return [[x[0]] + [math.floor(v * a["scale"]) for v in x[1:]]] \
            if a["scale"] else None
    if op == "pad":
        return [[x[0]] + [x[i + 1] + a["pad"][i] + a["pad_end"][i]
                          for i in s]] if any(a["pad"] + a["pad_end"]) else None
    if op in BROADCAST:
        return [broadcast(ins + w)]
    if op == "concat":
        y = list(x)
        y[axis] = sum(t[axis] for t in ins + w)
        return [y]
    if op == "flatten":
        return [x[:axis] + [math.prod(x[axis:])]]
    if op == "gather" and (dims or len(ins) > 1):
        return [x[:axis] + (ins[1] if len(ins) > 1 else dims) + x[axis + 1:]]
    if not dims and op in ("reshape", "split", "slice", "gather", "squeeze",
                           "unsqueeze", "transpose", "constant", "other") or \
            op == "other" or (op.startswith("reduce_") and not dims):
        return None
    if op == "split":
        return [x[:axis] + [d] + x[axis + 1:] for d in dims]
    if op == "slice_heads":
        return [x[:-1] + [a["heads"] * (dims[1] - dims[0])]]
    if op == "join_heads":
        return [x[:-1] + [x[-1] + a["heads"] * ins[1][-1]]]
    if op == "slice":
        step = dims[2] if len(dims) > 2 else 1
        return [x[:axis] + [-(-(dims[1] - dims[0]) // step)] + x[axis + 1:]]
    if op == "reshape":
        rest = math.prod(d for d in dims if d != -1)
        return [[math.prod(x) // rest if d == -1 else d for d in dims]]
    if op == "squeeze":
        return [[d for i, d in enumerate(x) if i not in dims]]
    if op == "unsqueeze":
        rest = iter(x)
        return [[1 if i in dims else next(rest)
                 for i in range(len(x) + len(dims))]]
    if op == "transpose":
        return [[x[d] for d in dims]]
    if op.startswith("reduce_"):
        return [[1 if i in dims else d for i, d in enumerate(x)
                 if a["keep_dims"] or i not in dims]]
    if op == "constant":
        return [dims]
    return [x]


def flops(op, a, ins, y):
    k = math.prod(v for v in a["kernel"] if v)
    if op == "conv":
        return 2 * math.prod(y) * (ins[0][0] // a["groups"]) * k
    if op == "conv_transpose":
        return 2 * math.prod(ins[0]) * (a["features"] // a["groups"]) * k
    if op in ("linear", "matmul"):
        return 2 * math.prod(y) * ins[0][-1]
    if op == "attention":
        d = a["head_dim"] + (a["v_head_dim"] or a["head_dim"])
        return 2 * a["heads"] * ins[0][0] * ins[1][0] * d
    if op == "experts":
        return 2 * math.prod(ins[0]) * a["topk"] * a["ffn"] * \
            (3 if a["gated"] else 2)
    return 0


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        r = Reader(yaml.load(file, Loader=yaml.CBaseLoader))
    with open(sys.argv[2], encoding="utf-8") as file:
        said = json.load(file)
    ours = [r.total("weight"), r.total("buffer"), r.flops]
    theirs = [said["parameters"], said["buffers"],
              said["forward_flops_per_sample"]]
    mine, told = Counter(), Counter()
    for op, times, shape in r.rows:
        mine[op, tuple(shape)] += times
    for layer in said["layers"]:
        told[layer["op"], tuple(layer["y"])] += 1
    if ours != theirs or mine != told:
        sys.exit(f"{said['name']}: {ours}, the program says {theirs}; "
                 f"layers {mine - told}, the program says {told - mine}")


if __name__ == "__main__":
    main()
