# SPDX-License-Identifier: Apache-2.0
"""torch's ONNX export, and what stands for operators that it has no ONNX for.

Nothing of what is exported is run: an operator that moves and computes as much
is as good.
"""
from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any, Dict, Iterator, Tuple

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


def _try(torch: Any, module: Any, inputs: Tuple[Any, ...], path: str,
         opset: int) -> None:
    settings: Dict[str, Any] = {
        "opset_version": opset, "do_constant_folding": False,
        "training": torch.onnx.TrainingMode.PRESERVE}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        settings["dynamo"] = False  # the other one knows no training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, path, **settings)


def export(torch: Any, module: Any, inputs: Tuple[Any, ...], path: str,
           opset: int) -> None:
    """Writes the file, with younger operators where the old ones do not do,
    and with what is like them where none does."""
    with _one_sample(torch):
        for version in sorted({opset, max(opset, _OPSET)}):
            with contextlib.suppress(Exception):
                return _try(torch, module, inputs, path, version)
        with _stand_ins(torch):
            _try(torch, module, inputs, path, _OPSET)
