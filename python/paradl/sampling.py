# SPDX-License-Identifier: Apache-2.0
"""Orders of samples: which ones an epoch trains, and when.

The orders of ``paradl train`` for any program. They are functions of the seed,
the epoch and what was seen of samples, never of the number of ranks: all ranks
have the same ``Order`` and take their part of each batch.
"""
from __future__ import annotations

import ctypes
from array import array
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._library import Err, SamplerOptions, lib
from .errors import InputError

_CODES = {1: "B", 4: "f", 8: "q"}


class Order:
    """The samples of epoch after epoch, batch by batch.

    ``batch`` counts the samples of all ranks together. ``shuffle`` is
    ``"global"``, ``"none"``, ``"local"``, ``"partial:q=0.3"`` or ``"pair"``
    (samples live on ``workers`` and are exchanged); ``hide`` leaves out what
    teaches nothing: ``"kakurenbo:f=0.3"``, ``"infobatch"``, ... ``epochs`` is
    how many there will be, which some of them need.

    >>> from paradl.sampling import Order
    >>> order = Order(samples=10, batch=4, epochs=2, seed=1)
    >>> order.next()
    >>> order.batches, len(order.batch(0)), len(set(order.batch(0)))
    (2, 4, 4)
    >>> sorted(order.part(0, 0, 2) + order.part(0, 1, 2)) == \\
    ...     sorted(order.batch(0))
    True
    """

    def __init__(self, samples: int, batch: int, *, epochs: int = 1,
                 shuffle: str = "global", hide: str = "none", seed: int = 0,
                 workers: int = 1, micros: int = 1, warmup_epochs: float = 0,
                 labels: Optional[Sequence[int]] = None) -> None:
        self._settings: Dict[str, Any] = dict(
            samples=samples, batch=batch, epochs=epochs, shuffle=shuffle,
            hide=hide, seed=seed, workers=workers, micros=micros,
            warmup_epochs=warmup_epochs,
            labels=None if labels is None else list(labels))
        self._at: Optional[int] = None
        self.epoch = -1  #: that is trained; -1 before the first
        self._create()

    def _create(self) -> None:
        s, err = self._settings, Err()
        labels = s["labels"]
        for name in ("shuffle", "hide"):
            if not isinstance(s[name], str):
                raise InputError(f"{name}: {s[name]!r} is no order",
                                 'write "none" for none')
        if not 0 <= s["seed"] < 2**64:
            raise InputError(f"seed {s['seed']} is outside 0 to 2^64-1")
        if labels is not None and len(labels) != s["samples"]:
            raise InputError(f"{len(labels)} labels of {s['samples']} samples")
        # kept: the sampler refers to them
        self._texts = s["shuffle"].encode(), s["hide"].encode()
        self._labels = labels and (ctypes.c_int32 * len(labels))(*labels)
        options = SamplerOptions(
            s["samples"], s["batch"], s["epochs"], s["micros"], s["workers"],
            s["warmup_epochs"], s["seed"], self._texts[0], self._texts[1],
            self._labels)
        at = ctypes.c_void_p()
        if lib.pdl_sampler_create(ctypes.byref(options), ctypes.byref(at),
                                  ctypes.byref(err)) != 0:
            raise InputError(err.msg.decode(), err.hint.decode())
        self._at = at.value

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            lib.pdl_sampler_destroy(self._at)

    # -- an epoch ----------------------------------------------------------
    def next(self) -> None:
        """Begins the next epoch, from what was seen in the one before."""
        lib.pdl_sampler_next(self._at)
        self.epoch += 1

    def _begun(self) -> None:
        if self.epoch < 0:
            raise ValueError("no epoch has begun: call next()")

    @property
    def batches(self) -> int:
        """Of this epoch; a short last one is dropped."""
        self._begun()
        return int(lib.pdl_sampler_batches(self._at))

    def positions(self, first: int, count: int) -> List[int]:
        """The samples at so many positions of the epoch."""
        if first < 0 or count < 0 or \
                first + count > self.batches * self._settings["batch"]:
            raise IndexError("no such position in this epoch")
        out = (ctypes.c_int64 * count)()
        lib.pdl_sampler_order(self._at, first, count, out)
        return list(out)

    def batch(self, index: int) -> List[int]:
        """The samples of one batch, of all ranks."""
        size = self._settings["batch"]
        return self.positions(index * size, size)

    def part(self, index: int, rank: int, ranks: int) -> List[int]:
        """What one of so many ranks trains of a batch: an equal part of each
        micro-batch, as a plan deals it."""
        size, micros = self._settings["batch"], self._settings["micros"]
        if not 0 <= rank < ranks or size % (micros * ranks):
            raise IndexError(f"a batch of {size} in {micros} micro-batches "
                             f"has no part {rank} of {ranks}")
        all_of, micro = self.batch(index), size // micros
        per = micro // ranks
        return [s for m in range(micros)
                for s in all_of[m * micro + rank * per:
                                m * micro + (rank + 1) * per]]

    # -- what training needs -----------------------------------------------
    @property
    def rate(self) -> float:
        """What the learning rate is multiplied with in this epoch."""
        return float(lib.pdl_sampler_rate(self._at))

    def weights(self, samples: Sequence[int]) -> Optional[List[float]]:
        """What their losses are multiplied with; None: all with 1."""
        at = lib.pdl_sampler_weights(self._at)
        if not at:
            return None
        weights = ctypes.cast(at, ctypes.POINTER(ctypes.c_float))
        self._known(samples)
        return [weights[s] for s in samples]

    @property
    def hidden(self) -> List[int]:
        """Samples that are not trained in this epoch."""
        at = ctypes.c_void_p()
        n = lib.pdl_sampler_hidden(self._at, ctypes.byref(at))
        if n == 0 or not at.value:
            return []
        return list((ctypes.c_int64 * n).from_address(at.value))

    @property
    def refreshes(self) -> bool:
        """Do hidden samples want a forward pass at the end of the epoch?"""
        return bool(lib.pdl_sampler_refreshes(self._at))

    def _known(self, samples: Sequence[int]) -> None:
        if any(not 0 <= s < self._settings["samples"] for s in samples):
            raise IndexError("no such sample")

    @property
    def asks_confidence(self) -> bool:
        """Must ``saw`` be told how sure a prediction was? Only where
        ``hide`` has ``conf_axis=batch``."""
        return bool(lib.pdl_sampler_asks_confidence(self._at))

    @property
    def asks_verdict(self) -> bool:
        """Does what is hidden depend on whether predictions were right?"""
        return str(self._settings["hide"]).partition(":")[0] == "kakurenbo"

    def saw(self, samples: Sequence[int], losses: Sequence[float],
            correct: Sequence[bool],
            confidence: Optional[Sequence[float]] = None) -> None:
        """What training, or the forward pass, saw of samples; the same on all
        ranks."""
        n = len(samples)
        if len(losses) != n or len(correct) != n or \
                (confidence is not None and len(confidence) != n):
            raise ValueError("a loss and a verdict for each sample")
        if confidence is None and self.asks_confidence:
            raise ValueError("conf_axis=batch: confidence= is missing")
        self._known(samples)
        if confidence is not None:
            lib.pdl_sampler_tell_confidence(
                self._at, n, (ctypes.c_int64 * n)(*samples),
                (ctypes.c_double * n)(*confidence))
        lib.pdl_sampler_saw_all(self._at, n, (ctypes.c_int64 * n)(*samples),
                                (ctypes.c_double * n)(*losses),
                                (ctypes.c_bool * n)(*correct))

    # -- to go on ------------------------------------------------------------
    def _parts(self) -> List[Tuple[str, Any]]:
        out: List[Tuple[str, Any]] = []
        while True:
            found = lib.pdl_sampler_part(self._at, len(out))
            if not found:
                return out
            out.append((found.contents.name.decode(), found.contents))

    def state_dict(self) -> Dict[str, Any]:
        """Everything that the rest of the run depends on; numbers and bytes."""
        state: Dict[str, Any] = {"epoch": self.epoch,
                                 "settings": dict(self._settings)}
        for name, part in self._parts():
            data = ctypes.string_at(part.data, part.count * part.bytes)
            state[name] = array(_CODES[part.bytes], data)
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where ``state_dict`` was taken."""
        settings = state.get("settings")
        if not isinstance(settings, dict) or \
                not isinstance(state.get("epoch"), int) or state["epoch"] < -1:
            raise InputError("no state of an order")
        if settings != self._settings:
            other = [k for k, v in settings.items()
                     if self._settings.get(k) != v]
            raise InputError("the state is of another order: "
                             + ", ".join(other))
        err = Err()
        if state["epoch"] < 0 <= self.epoch:  # a new one: none has begun
            lib.pdl_sampler_destroy(self._at)
            self._create()
        for name, part in self._parts():
            if name not in state:
                raise InputError(f"no state of an order: it lacks {name}")
            data = bytes(memoryview(state[name]).cast("B"))
            if len(data) != part.count * part.bytes:
                raise InputError(f"{name}: wrong size")
            ctypes.memmove(part.data, data, len(data))
        self.epoch = state["epoch"]
        if self.epoch >= 0 and lib.pdl_sampler_resume(
                self._at, self.epoch, ctypes.byref(err)) != 0:
            raise InputError(err.msg.decode(), err.hint.decode())

    def __getstate__(self) -> Dict[str, Any]:
        return self.state_dict()

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._settings, self._at, self.epoch = state["settings"], None, -1
        self._create()
        self.load_state_dict(state)
