# SPDX-License-Identifier: Apache-2.0
"""Networks that are Python objects."""
from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any, Mapping, Optional, Tuple

from ._export import export
from .errors import EnvironmentLacks, InputError


def _remove(folder: str, process: int) -> None:
    """By who made it: processes forked since then let it be."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Model(os.PathLike):  # type: ignore[type-arg]
    """A network in a file of its own, which goes when nobody refers to it."""

    def __init__(self, path: str, folder: Optional[str] = None) -> None:
        self.path = path
        if folder:
            weakref.finalize(self, _remove, folder, os.getpid())

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Model({os.path.basename(self.path)!r})"


def from_torch(module: Any, example: Any, *, opset: int = 13) -> Model:
    """Any ``torch.nn.Module`` as a model, through torch's ONNX export.

    ``example`` is one input (or a tuple or, by the names of arguments, a
    dictionary of them) with a batch of 1: shapes are taken from it. The module
    is exported as it is trained, so that batch norm and dropout are seen, and is
    left as it was. Drawing at random (stochastic depth) and adaptive pooling
    that ONNX does not know are priced by operators that are like them.

        net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(),
                                  torch.nn.Linear(256, 10))
        paradl.plan(paradl.from_torch(net, torch.zeros(1, 64)),
                    system="dgx-a100", pes=8, batch=512)
    """
    try:
        import torch  # only for this
    except ImportError as e:
        raise EnvironmentLacks(f"from_torch: {e}", "install PyTorch") from None
    if not isinstance(module, torch.nn.Module):
        raise InputError("from_torch: a torch.nn.Module is wanted, not "
                         f"{type(module).__name__}")
    named = isinstance(example, Mapping)
    inputs: Tuple[Any, ...] = (dict(example),) if named else \
        example if isinstance(example, tuple) else (example,)
    if not inputs or any(not isinstance(i, torch.Tensor) or
                         i.shape[:1] != (1,)
                         for i in (example.values() if named else inputs)):
        raise InputError("from_torch: the example is no batch of 1",
                         "give one sample, e.g. torch.zeros(1, 3, 224, 224)")
    folder = tempfile.mkdtemp(prefix="paradl-")
    path = os.path.join(folder, type(module).__name__.lower() + ".onnx")
    model = Model(path, folder)
    try:
        export(torch, module, inputs, path, opset)
    except Exception as e:
        raise InputError(f"from_torch: {type(module).__name__} cannot be "
                         f"exported: {str(e).splitlines()[0]}") from e
    return model
