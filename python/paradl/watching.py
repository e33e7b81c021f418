# SPDX-License-Identifier: Apache-2.0
"""A running job beside its projection."""
from __future__ import annotations

import os
import shlex
import sys
import time
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar, cast

from ._library import Answer
from .errors import InputError
from .kinds import Projection, result_of
from .questions import Path
from .results import Result

F = TypeVar("F", bound=Callable[..., Any])

# parts of a step that do not overlap, and what to do about one that is long
_CHANGE = {
    "computation": "another precision or kernels, or slower clocks than the "
                   "system's description has",
    "update": "a fused optimizer, or states cut (zero=1)",
    "exposed communication": "larger buckets that overlap with backward, or "
                             "an axis with less traffic",
    "idle: bubble, I/O, host": "more workers that load samples, fewer small "
                               "kernels, or more micro-batches",
}


def _median(values: List[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _now() -> float:
    """When a GPU has done what torch gave it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
    return time.perf_counter()


class Watch:
    """Measures steps and says how they compare with what was projected. Waits
    for the GPU before and after a step.

    >>> import paradl
    >>> p = paradl.project("lenet5", system="dgx-a100", strategy="serial",
    ...                    batch=32)
    >>> w = paradl.watch(p, skip=0)
    >>> for _ in range(3):
    ...     with w:
    ...         pass  # a training step
    >>> w.steps
    3
    >>> w.ratio < 1
    True
    """

    def __init__(self, projection: Projection, skip: int = 3) -> None:
        if not isinstance(projection, Projection):
            raise TypeError("watch() wants what project() returned, not "
                            f"{type(projection).__name__}")
        if skip < 0:
            raise ValueError("skip counts steps: 0 or more")
        self.projection = projection
        self._skip, self._start, self._end = skip, 0.0, 0.0
        self._times: List[float] = []
        self._between: List[float] = []

    # -- measuring -----------------------------------------------------------
    def __enter__(self) -> "Watch":
        self._start = _now()
        self._between.append(self._start - (self._end or self._start))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._end = time.perf_counter() if kind else _now()
        if kind is None:
            self._times.append(self._end - self._start)

    def __call__(self, step: F) -> F:
        """A function of one step, measured whenever it is called."""
        def measured(*args: Any, **more: Any) -> Any:
            with self:
                return step(*args, **more)
        return cast(F, measured)

    @property
    def times(self) -> List[float]:
        """Seconds of the steps, without the first ones (``skip``)."""
        return self._times[self._skip:]

    @property
    def steps(self) -> int:
        """How many were measured."""
        return len(self.times)

    @property
    def step_s(self) -> float:
        """The median; 0 before there is one."""
        return _median(self.times)

    @property
    def between_s(self) -> float:
        """The median of what passes from a step to the next."""
        return _median(self._between[max(self._skip, 1):])

    @property
    def ratio(self) -> float:
        """Measured over projected: 2 is twice as slow."""
        return self.step_s / self.projection.step_s

    # -- saying --------------------------------------------------------------
    def verdict(self) -> str:
        """One line: as projected, or how far off."""
        low, high = self.projection.get("interval_s") or (None, None)
        text = (f"{self.step_s:.4g} s a step, projected "
                f"{self.projection.step_s:.4g} s ({self.ratio - 1:+.0%})")
        if not self.steps:
            return "no step was measured yet"
        if low is None or high is None:
            return text
        if self.step_s > high:
            return text + ": slower than 80 % of such runs would be"
        if self.step_s < low:
            return text + ": faster than 80 % of such runs would be"
        return text + ": as projected"

    def _around(self) -> List[str]:
        """What is seen of the steps alone."""
        lines, step, between = [], self.step_s, self.between_s
        if between > .05 * (step + between):
            lines.append(f"- {between:.4g} s pass between steps "
                         f"({between / (step + between):.0%} of the time): "
                         "more workers that load samples, or less often what "
                         "else is done there")
        slow = sorted(self.times)[-(self.steps // 10):]
        if self.steps >= 10 and slow[0] > 1.5 * step:
            lines.append(f"- one step in ten takes {slow[0]:.4g} s or more: "
                         "what is done now and then (checkpoints, logs), or "
                         "other jobs on the machine")
        return lines

    def _beside(self, trace: Path) -> List[str]:
        """By phase, and the one that is farthest above its projection."""
        rows = [r for r in self.phases(trace) if r.projected_s is not None]
        lines = [f"  {r.phase}: projected {r.projected_s:.4g} s, measured "
                 f"{r.measured_s:.4g} s" for r in rows]
        parts = [r for r in rows if r.phase in _CHANGE]
        worst = max(parts, key=lambda r: float(r.measured_s - r.projected_s),
                    default=None)
        if worst is None:
            return lines
        more = worst.measured_s - worst.projected_s
        if more > .05 * self.projection.step_s:
            lines.insert(0, f"- {worst.phase} takes {more:.4g} s more than "
                         f"projected: {_CHANGE[worst.phase]}")
        return lines

    def report(self, trace: Optional[Path] = None) -> str:
        """The verdict, what limits the step, what more of each resource gives
        and, with a trace of PyTorch's profiler, projected beside measured by
        phase, and which of them to look at."""
        lines = [self.verdict(), *self._around()]
        lines += ["- " + limit.text
                  for limit in self.projection.get("limits") or []]
        gains = [g for g in self.projection.get("gains") or []
                 if g.step_s < self.projection.step_s]
        for g in sorted(gains, key=lambda g: float(g.step_s))[:3]:
            lines.append(f"- {g.factor:g} times {g.resource}: {g.step_s:.4g} s")
        return "\n".join(lines + ([] if trace is None else self._beside(trace)))

    def phases(self, trace: Path) -> List[Result]:
        """Projected beside measured, phase by phase (``--kineto``)."""
        if "command" not in self.projection:
            raise InputError("a row of a plan has no trace beside it",
                             "watch project() of its strategy")
        words = shlex.split(self.projection["command"])[1:]
        more = ["--json", f"--kineto={os.fspath(trace)}"]
        found = result_of(Answer().ask([words[0], *more, *words[1:]]))
        rows: List[Result] = found["kineto"]["phases"]
        return rows


def watch(projection: Projection, *, skip: int = 3) -> Watch:
    """Watches a job: ``with w:`` around each step, or ``step = w(step)``.

    ``projection`` is what ``project`` said; the first ``skip`` steps, which
    warm up, do not count. ``print(w.report())`` says the rest.
    """
    return Watch(projection, skip)
