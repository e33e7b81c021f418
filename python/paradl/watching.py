# SPDX-License-Identifier: Apache-2.0
"""A running job beside its projection."""
from __future__ import annotations

import shlex
import time
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar, cast

from ._library import Answer
from .results import Projection, Result, result_of

F = TypeVar("F", bound=Callable[..., Any])


class Watch:
    """Measures steps and says how they compare with what was projected.

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
        self.projection = projection
        self._skip, self._start = skip, 0.0
        self._times: List[float] = []

    # -- measuring -----------------------------------------------------------
    def __enter__(self) -> "Watch":
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self._times.append(time.perf_counter() - self._start)

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
        some = sorted(self.times)
        return some[len(some) // 2] if some else 0.0

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

    def report(self, trace: Optional[str] = None) -> str:
        """The verdict, what limits the step, what more of each resource gives
        and, with a trace of PyTorch's profiler, projected beside measured by
        phase."""
        lines = [self.verdict()]
        lines += ["- " + limit.text
                  for limit in self.projection.get("limits") or []]
        gains = [g for g in self.projection.get("gains") or []
                 if g.step_s < self.projection.step_s]
        for g in sorted(gains, key=lambda g: float(g.step_s))[:3]:
            lines.append(f"- {g.factor:g} times {g.resource}: {g.step_s:.4g} s")
        if trace is not None:
            phases = self.phases(trace)
            lines += [f"  {r.phase}: projected {r.projected_s:.4g} s, measured "
                      f"{r.measured_s:.4g} s" for r in phases
                      if r.projected_s is not None]
        return "\n".join(lines)

    def phases(self, trace: str) -> List[Result]:
        """Projected beside measured, phase by phase (``--kineto``)."""
        words = shlex.split(self.projection["command"])[1:]
        found = result_of(Answer().ask([*words, "--json", "--kineto", trace]))
        rows: List[Result] = found["kineto"]["phases"]
        return rows


def watch(projection: Projection, *, skip: int = 3) -> Watch:
    """Watches a job: ``with w:`` around each step, or ``step = w(step)``.

    ``projection`` is what ``project`` said; the first ``skip`` steps, which
    warm up, do not count. ``print(w.report())`` says the rest.
    """
    return Watch(projection, skip)
