# SPDX-License-Identifier: Apache-2.0
"""torch's ONNX export, and what stands for operators that it has no ONNX for.

Nothing of what is exported is run: an operator that moves and computes as much
is as good, and of weights the shapes are enough.
"""
from __future__ import annotations

import contextlib
import ctypes
import inspect
import itertools
import warnings
from typing import Any, Dict, Iterator, List, Tuple, Union

_OPSET = 17  # of stand-ins: the newest that Debian's torch exports


def _bernoulli(g: Any, x: Any, *_: Any) -> Any:
    """Stochastic depth and its like: a draw for each element."""
    return g.op("Bernoulli", x)


def _zero(g: Any, x: Any, *_: Any) -> Any:
    return g.op("Sub", x, x)


def _adaptive_pool(torch: Any) -> Any:
    """An ordinary pooling with results of the same size; of images that are
    smaller than that, of them enlarged."""
    helper = torch.onnx.symbolic_helper

    def pool(g: Any, x: Any, size: Any) -> Any:
        sizes = helper._get_tensor_sizes(x)
        had, want = sizes[2:], helper._parse_arg(size, "is")
        if set(want) == {1}:
            return g.op("GlobalAveragePool", x)
        if None in had:
            raise ValueError("adaptive pooling of an unknown size")
        if any(w > h for w, h in zip(want, had)):
            had = [max(w, h) for w, h in zip(want, had)]
            empty = g.op("Constant", value_t=torch.zeros(0))
            x = g.op("Resize", x, empty, empty, g.op(
                "Constant", value_t=torch.tensor(sizes[:2] + had)),
                mode_s="nearest")
        stride = [h // w for h, w in zip(had, want)]
        kernel = [h - (w - 1) * s for h, w, s in zip(had, want, stride)]
        return g.op("AveragePool", x, kernel_shape_i=kernel, strides_i=stride)

    return pool


@contextlib.contextmanager
def _one_sample(torch: Any) -> Iterator[None]:
    """Batch norms of single values do not mind that there is one sample."""
    functional = torch.nn.functional
    check = getattr(functional, "_verify_batch_size", None)
    if check is None:
        yield
        return
    functional._verify_batch_size = lambda size: None
    try:
        yield
    finally:
        functional._verify_batch_size = check


@contextlib.contextmanager
def _trained(torch: Any, module: Any) -> Iterator[None]:
    """In training mode, and then as it was: modes, buffers (batch norms count
    what they see), random numbers."""
    was = [(m, m.training) for m in module.modules()]
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() \
        else []
    if not module.training:  # else some of it may be frozen
        module.train()
    try:
        with torch.random.fork_rng(gpus):
            yield
    finally:
        if not was[0][1]:
            module.eval()
        for m, training in was:
            m.training = training
        with torch.no_grad():
            for b, before in buffers:
                b.copy_(before)


@contextlib.contextmanager
def _stand_ins(torch: Any) -> Iterator[None]:
    """As long as it lasts, torch's export knows them."""
    pool = _adaptive_pool(torch)
    known = {"aten::bernoulli": _bernoulli, "aten::zero": _zero,
             **{f"aten::adaptive_avg_pool{n}d": pool for n in (1, 2, 3)}}
    for name, symbolic in known.items():
        torch.onnx.register_custom_op_symbolic(name, symbolic, _OPSET)
    try:
        yield
    finally:
        for name in known:
            torch.onnx.unregister_custom_op_symbolic(name, _OPSET)


# -- weights by their shapes --------------------------------------------------

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7,
          "bool": 9, "float16": 10, "float64": 11, "bfloat16": 16}
_GRAPH, _INITIALIZER, _INPUT = 7, 5, 11  # fields of ONNX's messages


def _number(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def _field(number: int, value: Union[int, bytes]) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


def _fields(data: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """Of a message that torch wrote: numbers and what has a length."""
    at = 0

    def number() -> int:
        nonlocal at
        value = 0
        for shift in itertools.count(0, 7):
            at += 1
            value |= (data[at - 1] & 127) << shift
            if data[at - 1] < 128:
                break
        return value

    while at < len(data):
        key = number()
        if key & 7 not in (0, 2):
            raise ValueError("no message of ONNX")
        value = number()
        if key & 7 == 0:
            yield key >> 3, value
            continue
        at += value
        yield key >> 3, data[at - value:at]


def _initializer(name: str, tensor: Any, whole: bool) -> bytes:
    """With what is in it, or as one whose data are elsewhere."""
    kind = _TYPES[str(tensor.dtype).partition(".")[2]]
    out = b"".join(_field(1, n) for n in tensor.shape) + _field(2, kind) + \
        _field(8, name.encode())
    if not whole:
        where = _field(1, b"location") + _field(2, b"nowhere")
        return out + _field(13, where) + _field(14, 1)
    tensor = tensor.detach().cpu().contiguous()
    return out + _field(9, ctypes.string_at(
        tensor.data_ptr(), tensor.numel() * tensor.element_size()))


def _name_weights(module: Any, path: str) -> None:
    """Weights that are inputs of the exported graph become initializers:
    parameters by their shapes, buffers (masks, indices) with their data."""
    with open(path, "rb") as f:
        model = list(_fields(f.read()))
    graph = next(v for k, v in model if k == _GRAPH)
    assert isinstance(graph, bytes)
    wanted = {bytes(dict(_fields(v))[1]).decode()  # type: ignore[arg-type]
              for k, v in _fields(graph) if k == _INPUT}
    more: List[bytes] = []
    for tensors, whole in ((module.named_parameters(), False),
                           (module.named_buffers(), True)):
        more += [_field(_INITIALIZER, _initializer(
            name, t, whole and t.device.type != "meta"))
            for name, t in tensors if name in wanted]
    with open(path, "wb") as f:
        f.write(b"".join(_field(k, graph + b"".join(more) if k == _GRAPH else v)
                         for k, v in model))


def _try(torch: Any, module: Any, inputs: Tuple[Any, ...], path: str,
         opset: int) -> None:
    settings: Dict[str, Any] = {
        "opset_version": opset, "do_constant_folding": False,
        "export_params": False,
        "training": torch.onnx.TrainingMode.PRESERVE}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        settings["dynamo"] = False  # the other one knows no training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, path, **settings)
    _name_weights(module, path)


def export(torch: Any, module: Any, inputs: Tuple[Any, ...], path: str,
           opset: int) -> None:
    """Writes the file, with younger operators where the old ones do not do,
    and with what is like them where none does."""
    with _one_sample(torch), _trained(torch, module):
        for version in sorted({opset, max(opset, _OPSET)}):
            with contextlib.suppress(Exception):
                return _try(torch, module, inputs, path, version)
        with _stand_ins(torch):
            _try(torch, module, inputs, path, _OPSET)
