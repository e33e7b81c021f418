# SPDX-License-Identifier: Apache-2.0
"""ParaDL in a PyTorch program: samplers for DataLoader.

Three lines of a training script change::

    sampler = paradl.torch.Sampler(data, batch_size=64, epochs=30,
                                   hide="kakurenbo:f=0.3")
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    for epoch in range(30):
        for x, y in loader:
            out = net(x)
            each = F.cross_entropy(out, y, reduction="none")
            loss = sampler.loss(each, out.argmax(1) == y)
            ...

Under DistributedDataParallel every rank makes the same call; rank and number
of ranks are those of the process group.
"""
from __future__ import annotations

from array import array
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import Sampler as _Sampler

from .errors import InputError
from .sampling import Order

__all__ = ["BatchSampler", "Sampler"]

_TYPES = {"B": torch.uint8, "f": torch.float32, "q": torch.int64}
_CODES = {kind: code for code, kind in _TYPES.items()}


def _group(num_replicas: Optional[int], rank: Optional[int]) -> Tuple[int, int]:
    on = dist.is_available() and dist.is_initialized()
    ranks = num_replicas or (dist.get_world_size() if on else 1)
    return ranks, rank if rank is not None else dist.get_rank() if on else 0


class Sampler(_Sampler):  # type: ignore[type-arg,misc]
    """A drop-in for ``DistributedSampler`` with the orders of ParaDL.

    ``batch_size`` is that of one rank, as DataLoader has it. ``shuffle`` and
    ``hide`` are those of ``paradl.sampling.Order`` (True: ``"global"``, False:
    ``"none"``). Each iteration is the next epoch, or the one that
    ``set_epoch`` says; orders with a state know an epoch only when the one
    before has been trained, and go forward only. A short last batch is
    dropped. DataLoader's workers get indices and never the sampler, which can
    be pickled all the same.
    """

    def __init__(self, dataset: Any, num_replicas: Optional[int] = None,
                 rank: Optional[int] = None, shuffle: Any = True,
                 seed: int = 0, drop_last: bool = True, *,
                 batch_size: int = 1, hide: str = "none", epochs: int = 1,
                 warmup_epochs: float = 0,
                 labels: Optional[Sequence[int]] = None) -> None:
        if not drop_last:
            raise ValueError("a short last batch is always dropped")
        self.num_replicas, self.rank = _group(num_replicas, rank)
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"no rank {self.rank} of {self.num_replicas}")
        self.batch_size = batch_size
        shuffle = {True: "global", False: "none", None: "none"}.get(shuffle,
                                                                    shuffle)
        self.order = Order(
            len(dataset), batch_size * self.num_replicas, epochs=epochs,
            shuffle=shuffle, hide=hide, seed=seed, workers=self.num_replicas,
            warmup_epochs=warmup_epochs, labels=labels)
        self._given = 0    # batches that were handed out in this epoch
        self._trained = 0  # batches of it that training has told of
        self._begun = False  # an iteration has used this epoch
        self._held = False   # set_epoch wants this one
        self._seen: List[Tuple[List[int], List[float], List[bool],
                               Optional[List[float]]]] = []

    # -- epochs --------------------------------------------------------------
    @property
    def epoch(self) -> int:
        """That is trained, or comes next before the first iteration."""
        return max(self.order.epoch, 0) + self._over()

    def _over(self) -> bool:
        """Was it loaded behind the last batch of its epoch?"""
        return self.order.epoch >= 0 and not self._begun and \
            not self._held and self._given >= self.order.batches

    def set_epoch(self, epoch: int) -> None:
        """As DistributedSampler's: the next iteration is this epoch, from its
        beginning where one has used it already."""
        while self.order.epoch < epoch:
            self._next()
        if self.order.epoch > epoch:
            raise ValueError(f"epoch {epoch} is over: the order is in "
                             f"{self.order.epoch}")
        if self._begun:
            self._given = self._trained = 0
        self._begun, self._held = False, True

    def _next(self) -> None:
        self._tell()
        self.order.next()
        self._given = self._trained = 0
        self._begun = self._held = False

    def _ready(self) -> None:
        if self.order.epoch < 0 or self._begun or self._over():
            self._next()
        self._begun = True

    def batch_lists(self) -> Iterator[List[int]]:
        """The indices of this rank, batch by batch, from where it stands."""
        self._ready()
        for b in range(self._given, self.order.batches):
            self._given = b + 1
            yield self.order.part(b, self.rank, self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        for batch in self.batch_lists():
            yield from batch

    @property
    def total_size(self) -> int:
        """Samples of the epoch, on all ranks."""
        if self.order.epoch < 0:
            self._next()
        return self.order.batches * self.batch_size * self.num_replicas

    @property
    def num_samples(self) -> int:
        """Samples of the epoch, on this rank."""
        return self.total_size // self.num_replicas

    def __len__(self) -> int:
        return self.num_samples

    # -- what training saw -----------------------------------------------------
    @property
    def rate(self) -> float:
        """What the learning rate is multiplied with in this epoch."""
        return self.order.rate

    def loss(self, losses: Any, correct: Optional[Any] = None,
             confidence: Optional[Any] = None) -> Any:
        """Takes note of the next batch's losses (one a sample, and whether it
        was right) and returns their mean, weighed as the order wants it.
        ``confidence`` is for ``conf_axis=batch``: what the authors of
        KAKURENBO take is ``out.softmax(0).max(1).values``."""
        batch = self.order.part(self._trained, self.rank, self.num_replicas)
        self.saw(batch, losses, correct, confidence)
        self._trained += 1
        weights = self.order.weights(batch)
        if weights is None:
            return losses.mean()
        return (losses * torch.tensor(weights, dtype=losses.dtype,
                                      device=losses.device)).mean()

    def step(self) -> None:
        """A batch was trained: what ``loss`` does for plain orders."""
        self._trained += 1

    def saw(self, indices: Sequence[int], losses: Any,
            correct: Optional[Any] = None,
            confidence: Optional[Any] = None) -> None:
        """What was seen of some samples: of ``refresh`` for instance."""
        if confidence is None and self.order.asks_confidence:
            raise ValueError("conf_axis=batch: confidence= is missing")
        if tuple(losses.shape) != (len(indices),):
            raise ValueError(
                f"losses of shape {tuple(losses.shape)} for {len(indices)} "
                "samples: one for each (reduction='none'), and DataLoader's "
                "batch_size must be the sampler's")
        if correct is None and self.order.asks_verdict:
            raise ValueError("kakurenbo hides what was predicted right: "
                             "correct= is missing")
        values = losses.detach().cpu().double().tolist()
        right = [False] * len(values) if correct is None else \
            [bool(c) for c in correct.detach().cpu().tolist()]
        sure = None if confidence is None else \
            confidence.detach().cpu().double().tolist()
        self._seen.append((list(indices), values, right, sure))

    def refresh(self) -> Iterator[List[int]]:
        """Hidden samples that want a forward pass at the end of the epoch:
        batches of this rank, to be told by ``saw``."""
        hidden = self.order.hidden if self.order.refreshes else []
        mine = hidden[self.rank::self.num_replicas]
        for at in range(0, len(mine), self.batch_size):
            yield mine[at:at + self.batch_size]

    def _tell(self) -> None:
        """Every rank's order gets what all ranks saw, in the same order."""
        seen, self._seen = self._seen, []
        if self.order._settings["hide"] == "none":
            return
        all_of: List[Any] = [seen]
        if self.num_replicas > 1 and dist.is_available() and \
                dist.is_initialized():
            all_of = [None] * self.num_replicas
            dist.all_gather_object(all_of, seen)  # type: ignore
        for of_rank in all_of:
            for indices, losses, correct, sure in of_rank:
                self.order.saw(indices, losses, correct, sure)

    # -- to go on -----------------------------------------------------------
    def state_dict(self) -> Dict[str, Any]:
        """To go on in the middle of an epoch: after the batches that ``loss``
        or ``step`` was told of, or else after those handed out (DataLoader's
        workers are ahead of training). Tensors and numbers, as ``torch.load``
        wants them. With ``hide``, all ranks must call it together."""
        self._tell()
        order = {k: torch.tensor(v.tolist(), dtype=_TYPES[v.typecode])
                 if isinstance(v, array) else v
                 for k, v in self.order.state_dict().items()}
        return {"order": order, "batches": self._trained or self._given}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration is the rest of the epoch, or where all of it
        was trained the next one (``epoch`` says which)."""
        done = state.get("batches")
        if "order" not in state or not isinstance(done, int) or done < 0:
            raise InputError("no state of a sampler")
        order = state["order"]
        if isinstance(order, dict):
            order = {k: array(_CODES[v.dtype], v.tolist())
                     if isinstance(v, torch.Tensor) and v.dtype in _CODES else v
                     for k, v in order.items()}
        self.order.load_state_dict(order)
        if done > (self.order.batches if self.order.epoch >= 0 else 0):
            raise InputError(f"an epoch has no {done} batches")
        self._given = self._trained = done
        self._begun, self._held, self._seen = False, False, []


class BatchSampler(_Sampler):  # type: ignore[type-arg,misc]
    """The same by batches: ``DataLoader(data, batch_sampler=...)``."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[List[int]]:
        return self.sampler.batch_lists()

    def __len__(self) -> int:
        return self.sampler.num_samples // self.sampler.batch_size

    def set_epoch(self, epoch: int) -> None:
        """The sampler's."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> Dict[str, Any]:
        """The sampler's."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The sampler's."""
        self.sampler.load_state_dict(state)
