# SPDX-License-Identifier: Apache-2.0
"""Gradients of DistributedDataParallel by ParaDL's allreduce, on processors.

    ddp = DistributedDataParallel(net)
    paradl.ddp.register(ddp)                         # one line
    paradl.ddp.register(ddp, compress="topk:0.01")   # sparse, error feedback

Ranks of one machine share memory (libparadl-comm.so.0, of the package
paradl-run). Dense sums have the bits of gloo's with two ranks.
"""
from __future__ import annotations

import ctypes
import os
import queue
import threading
import uuid
from ctypes import (POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int,
                    c_int64, c_uint32, c_uint64, c_void_p)
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._library import Err
from .errors import EnvironmentLacks, InputError

__all__ = ["Group", "register"]

_TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2,
          torch.float16: 3}
_SUM, _EXACT = 0, 0


class _Options(ctypes.Structure):
    """struct pdl_comm_options of paradl/comm.h."""

    _fields_ = [("transport", c_char_p), ("algorithm", c_char_p),
                ("fixed_order", c_bool), ("timeout_s", c_double),
                ("ranks_per_node", c_int), ("progress", c_bool),
                ("program", c_void_p), ("table", c_void_p)]


class _Sparse(ctypes.Structure):
    """struct pdl_sparse of paradl/comm.h."""

    _fields_ = [("dim", c_int64), ("n", c_int64), ("index", c_void_p),
                ("value", c_void_p)]


_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "pdl_comm_create_shared": (c_int, [c_char_p, c_int, c_int,
                                       POINTER(_Options), POINTER(c_void_p),
                                       POINTER(Err)]),
    "pdl_comm_destroy": (None, [c_void_p]),
    "pdl_comm_allreduce": (c_int, [c_void_p, c_void_p, c_void_p, c_int64,
                                   c_int, c_int, POINTER(Err)]),
    "pdl_comm_sparse_create": (c_int, [c_void_p, c_int64, c_int64, c_char_p,
                                       POINTER(c_void_p), POINTER(Err)]),
    "pdl_comm_sparse_destroy": (None, [c_void_p]),
    "pdl_comm_sparse_allreduce": (c_int, [c_void_p, POINTER(_Sparse),
                                          POINTER(_Sparse), POINTER(Err)]),
    "pdl_feedback_create": (c_int, [c_int64, c_int64, c_int, c_uint64,
                                    POINTER(c_void_p), POINTER(Err)]),
    "pdl_feedback_destroy": (None, [c_void_p]),
    "pdl_feedback_step": (None, [c_void_p, c_void_p, POINTER(_Sparse)]),
    "pdl_sparse_add": (None, [POINTER(_Sparse), c_float, c_void_p]),
}
_lib: Optional[ctypes.CDLL] = None


def _library() -> ctypes.CDLL:
    """Beside libparadl where that was named, else the system's."""
    global _lib
    if _lib is None:
        name = "libparadl-comm.so.0"
        beside = os.environ.get("PARADL_LIBRARY")
        if beside:
            name = str(Path(beside).with_name(name))
        try:
            found = ctypes.CDLL(name)
        except OSError as e:
            raise EnvironmentLacks(f"cannot use {name}: {e}",
                                   "install paradl-run") from None
        for function, (result, arguments) in _FUNCTIONS.items():
            at = getattr(found, function)
            at.restype, at.argtypes = result, arguments
        _lib = found
    return _lib


def _check(status: int, err: Err) -> None:
    if status != 0:
        raise EnvironmentLacks(err.msg.decode(), err.hint.decode())


class Group:
    """The ranks of a process group, sharing memory.

    All of them make it together; they must be on one machine. ``timeout_s``
    ends a wait for ranks that do not come.
    """

    def __init__(self, group: Any = None, *, timeout_s: float = 300) -> None:
        self._lib, self._at = _library(), c_void_p()
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        hosts: List[Any] = [None] * self.size
        dist.all_gather_object(  # type: ignore[no-untyped-call]
            hosts, (os.uname().nodename, uuid.uuid4().hex), group)
        if len({host for host, _ in hosts}) > 1:
            raise EnvironmentLacks("ranks are on several machines",
                                   "use gloo, or MPI with libparadl-mpi.so")
        err = Err()
        options = _Options(timeout_s=timeout_s)
        _check(self._lib.pdl_comm_create_shared(
            hosts[0][1].encode(), self.rank, self.size, byref(options),
            byref(self._at), byref(err)), err)

    def allreduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sums in place, over all ranks; waits for it."""
        kind = _TYPES.get(tensor.dtype)
        if kind is None or tensor.device.type != "cpu" or \
                not tensor.is_contiguous():
            raise InputError(f"no allreduce of {tensor.dtype} on "
                             f"{tensor.device}")
        err, at = Err(), tensor.data_ptr()
        _check(self._lib.pdl_comm_allreduce(
            self._at, at, at, tensor.numel(), kind, _SUM, byref(err)), err)
        return tensor

    def close(self) -> None:
        """Leaves; the others must not call it any more."""
        at, self._at = self._at, c_void_p()
        self._lib.pdl_comm_destroy(at)

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            self.close()


class _Sparsifier:
    """What a bucket keeps of what it has not sent yet."""

    def __init__(self, group: Group, dim: int, share: float) -> None:
        self.group, self.dim = group, dim
        k = max(1, int(dim * share))
        err, self._keep, self._sum = Err(), c_void_p(), c_void_p()
        _check(group._lib.pdl_feedback_create(dim, k, _EXACT, 0,
                                              byref(self._keep), byref(err)),
               err)
        _check(group._lib.pdl_comm_sparse_create(
            group._at, dim, k, None, byref(self._sum), byref(err)), err)

    def reduce(self, tensor: torch.Tensor) -> None:
        """The sum of every rank's largest elements."""
        err, mine, all_of, lib = Err(), _Sparse(), _Sparse(), self.group._lib
        lib.pdl_feedback_step(self._keep, tensor.data_ptr(), byref(mine))
        _check(lib.pdl_comm_sparse_allreduce(self._sum, byref(mine),
                                             byref(all_of), byref(err)), err)
        tensor.zero_()
        lib.pdl_sparse_add(byref(all_of), 1., tensor.data_ptr())

    def __del__(self) -> None:
        if getattr(self, "_sum", None):
            self.group._lib.pdl_comm_sparse_destroy(self._sum)
        if getattr(self, "_keep", None):
            self.group._lib.pdl_feedback_destroy(self._keep)


class Hook:
    """A communication hook of DDP. Buckets are summed one after another by a
    thread of its own, while backward goes on."""

    def __init__(self, group: Group, share: float = 0) -> None:
        self.group, self.share = group, share
        self._sparse: Dict[int, _Sparsifier] = {}
        self._work: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name="paradl-ddp",
                         daemon=True).start()

    def _reduce(self, index: int, tensor: torch.Tensor) -> None:
        tensor.div_(self.group.size)
        if not self.share:
            self.group.allreduce(tensor)
            return
        if tensor.dtype != torch.float32:
            raise InputError("compress is for float32")
        kept = self._sparse.get(index)
        if kept is None or kept.dim != tensor.numel():
            kept = _Sparsifier(self.group, tensor.numel(), self.share)
            self._sparse[index] = kept
        kept.reduce(tensor)

    def _run(self) -> None:
        while True:
            index, tensor, future = self._work.get()
            try:
                self._reduce(index, tensor)
                future.set_result(tensor)
            except Exception as e:
                future.set_exception(e)

    def __call__(self, state: Any, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        self._work.put((bucket.index(), bucket.buffer(), future))
        return future


def _share(compress: Optional[str]) -> float:
    if compress is None:
        return 0
    name, _, share = compress.partition(":")
    try:
        value = float(share)
    except ValueError:
        value = 0
    if name != "topk" or not 0 < value <= 1:
        raise InputError(f"compress: no '{compress}'", "write it topk:0.01")
    return value


def register(ddp: Any, *, compress: Optional[str] = None,
             timeout_s: float = 300) -> Hook:
    """Gives a DistributedDataParallel module ParaDL's allreduce."""
    share = _share(compress)
    away = sorted({p.device.type for p in ddp.parameters()} - {"cpu"})
    if away:
        raise InputError(f"parameters are on {', '.join(away)}: ranks share "
                         "memory of processors", "NCCL is for GPUs")
    hook = Hook(Group(ddp.process_group, timeout_s=timeout_s), share)

    def call(state: Any, bucket: Any) -> Any:
        return hook(state, bucket)

    # torch compares the annotations themselves, not their text
    call.__annotations__ = {"bucket": dist.GradBucket,  # type: ignore
                            "return": torch.futures.Future[torch.Tensor]}
    ddp.register_comm_hook(None, call)
    return hook
