# SPDX-License-Identifier: Apache-2.0
"""Answers: mappings as ``--json`` has them, with their fields as attributes.

Times are seconds, sizes bytes, rates per second.
"""
from __future__ import annotations

import html
import json
from typing import (Any, ClassVar, Dict, Iterator, List, Mapping, Optional,
                    Sequence, Type)

from ._library import Answer
from .errors import EnvironmentLacks, InputError, UsageError


class Result(Mapping[str, Any]):
    """One JSON object: ``result["step_s"]`` and ``result.step_s``.

    >>> import paradl
    >>> answer = paradl.ask("model show", "lenet5")
    >>> answer.name, answer["parameters"]
    ('lenet5', 61706)
    """

    _schema: ClassVar[str] = ""
    _rows: ClassVar[str] = ""  # the field that a table has a row for
    _parts: ClassVar[Dict[str, str]] = {}  # fields, by the class of their rows

    def __init__(self, fields: Dict[str, Any]) -> None:
        self._fields = fields
        self._kept: Dict[str, Any] = {}
        self._asked: Sequence[Any] = ()

    # -- a mapping ---------------------------------------------------------
    def __getitem__(self, key: str) -> Any:
        if key not in self._kept:
            self._kept[key] = self._wrap(key, self._fields[key])
        return self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; it has "
                + ", ".join(self._fields)) from None

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(),
                       *(k for k in self._fields if k.isidentifier())})

    def __reduce__(self) -> Any:
        return type(self), (self._fields,)

    def _wrap(self, key: str, value: Any) -> Any:
        kind = _CLASSES.get(self._parts.get(key, ""), Result)
        if isinstance(value, dict):
            return kind(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [kind(v) for v in value]
        return value

    # -- other forms -------------------------------------------------------
    def to_dict(self) -> Dict[str, Any]:
        """The object as plain dictionaries and lists."""
        fields: Dict[str, Any] = json.loads(self.to_json())
        return fields

    def to_json(self, indent: Optional[int] = None) -> str:
        """As ``paradl report`` reads it."""
        return json.dumps(self._fields, indent=indent)

    def to_records(self) -> List[Dict[str, Any]]:
        """One flat dictionary a row: ``"memory.peak_bytes"``.

        >>> import paradl
        >>> s = paradl.scale("lenet5", system="dgx-a100", strategy="data=p",
        ...                  pes="1..4", batch=64)
        >>> [r["pes"] for r in s.to_records()]
        [1, 2, 4]
        """
        rows = self._fields.get(self._rows or "rows", self._fields)
        others = [v for k, v in self._fields.items() if k != "schema"]
        if len(others) == 1 and isinstance(others[0], list):
            rows = others[0]  # a list of things
        return [_flat(r) for r in (rows if isinstance(rows, list) else [rows])]

    def to_dataframe(self) -> Any:
        """The rows as a pandas.DataFrame (pandas is needed for this alone)."""
        try:
            import pandas  # type: ignore[import]
        except ImportError as e:
            raise EnvironmentLacks(f"to_dataframe: {e}", "install pandas, or "
                                   "take to_records()") from None
        return pandas.DataFrame(self.to_records())

    def to_html(self) -> str:
        """The page with charts that ``--report`` writes."""
        return Answer().page(self.to_json().encode())

    def save_html(self, path: Any) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.to_html())

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame, or a table where there is no
        page for this kind of answer."""
        try:
            page = html.escape(self.to_html(), quote=True)
        except InputError:
            return _table(self.to_records())
        return ('<iframe sandbox="allow-scripts" style="width:100%;'
                f'height:640px;border:0" srcdoc="{page}"></iframe>')

    def __repr__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in self._fields.items()
                 if k != "schema" and not isinstance(v, (dict, list))]
        shown = shown or [f"{len(v)} {k}" for k, v in self._fields.items()
                          if isinstance(v, list)]
        return f"{type(self).__name__}({', '.join(shown[:8])})"


def _flat(row: Any, prefix: str = "") -> Dict[str, Any]:
    out: Dict[str, Any] = {}
    if not isinstance(row, dict):
        return {prefix or "value": row}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(_flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def _table(records: Sequence[Dict[str, Any]]) -> str:
    columns = [k for k, v in records[0].items()
               if not isinstance(v, list)] if records else []
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(r.get(c, '')))}</td>"
                         for c in columns) + "</tr>" for r in records)
    return f"<table><tr>{head}</tr>{body}</table>"


# -- the kinds of answers ---------------------------------------------------

class Time(Result):
    """Seconds of a step, phase by phase."""

    forward_s: float
    backward_s: float
    update_s: float
    recompute_s: float
    bubble_s: float
    gradient_comm_s: float
    layer_comm_s: float
    halo_s: float
    p2p_s: float
    exposed_comm_s: float
    io_s: float


class Memory(Result):
    """Bytes of the fullest processing element."""

    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    comm_buffers_bytes: int
    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    workspace_bytes: int
    capacity_bytes: int
    headroom: float


class Limit(Result):
    """What holds a step back: a limit of the strategy or a bottleneck."""

    id: str
    kind: str
    phase: str
    share: float
    text: str


class Gain(Result):
    """The step with ``factor`` times as much of a resource."""

    resource: str
    factor: float
    step_s: float


class Projection(Result):
    """What one strategy costs.

    >>> import paradl
    >>> p = paradl.project("resnet50", system="abci-v100",
    ...                    strategy="data=64", batch=2048)
    >>> p.feasible, round(p.step_s, 3), p.memory.peak_bytes
    (True, 0.1, 2936016608)
    """

    _schema = "project"
    _parts = {"time": "time", "memory": "memory", "limits": "limit",
              "gains": "gain"}
    model: str
    system: str
    strategy: str
    pes: int
    batch: int
    feasible: bool
    reasons: List[str]
    step_s: float
    epoch_s: float
    samples_per_s: float
    tokens_per_s: float
    mfu: float
    time: Time
    compute_s: float
    comm_s: float
    memory: Memory
    energy_j: Optional[float]
    cost: Optional[float]
    interval_s: List[Optional[float]]
    limits: List[Limit]
    gains: List[Gain]


class Plan(Result):
    """The strategies of a search, best first: ``best`` is one that fits."""

    _schema = "plan"
    _rows = "plans"
    _parts = {"plans": "project"}
    model: str
    system: str
    pes: int
    batch: int
    evaluated: int
    pruned: int
    feasible_count: int
    search_s: float
    plans: List[Projection]

    @property
    def best(self) -> Optional[Projection]:
        """The first that fits; None where nothing does."""
        plans: List[Projection] = self["plans"]
        return next((p for p in plans if p.feasible), None)

    def __repr__(self) -> str:
        best = self.best
        return (f"Plan({self.model!r} on {self.pes} PEs of {self.system!r}, "
                f"{self.evaluated} priced, {self.feasible_count} fit, best "
                + (f"{best.strategy!r}: {best.step_s:.4g} s)" if best
                   else "none)"))


class Scaling(Result):
    """One strategy on more and more processing elements."""

    _schema = "scale"
    _rows = "points"
    _parts = {"points": "project"}
    points: List[Projection]


class Trial(Result):
    """One size that was searched: does it fit, and by which strategy?"""

    fits: bool
    pes: int
    batch: int
    strategy: str
    step_s: float
    peak_bytes: int


class FitIn(Result):
    """What fits: as asked, the largest batch, the fewest PEs, ..."""

    _schema = "fit-in"
    _parts = {k: "trial" for k in ("as_asked", "largest_batch", "fewest_pes",
                                   "longest_sequence", "most_layers",
                                   "deadline", "budget")}
    as_asked: Trial
    largest_batch: Trial
    fewest_pes: Trial

    def to_records(self) -> List[Dict[str, Any]]:
        return [{"question": k, **self._fields[k]} for k in self._parts
                if k in self._fields]


class Machine(Result):
    """One machine that was looked at: what its runs take and cost."""

    rank: int
    name: str
    system: str
    pes: int
    feasible: bool
    time_s: float
    cost: float
    energy_kwh: float
    co2_kg: float
    runs: List[Result]


class Design(Result):
    """Machines, best first: ``best`` is one that meets all that was asked."""

    _schema = "design"
    _rows = "designs"
    _parts = {"designs": "machine"}
    goal: str
    tie: bool
    feasible_count: int
    designs: List[Machine]

    @property
    def best(self) -> Optional[Machine]:
        """The first that meets it; None where nothing does."""
        designs: List[Machine] = self["designs"]
        return next((d for d in designs if d.feasible), None)


class Simulation(Result):
    """A collective on a network."""

    _schema = "simulate"
    ranks: int
    messages: int
    time_s: float
    lower_bound_s: float
    bytes_on_wire: int
    max_link_bytes: int
    contention: List[int]


class Validation(Result):
    """Projected beside measured."""

    _schema = "validate"
    _rows = "rows"
    mean_accuracy: float
    mape: float


class Runs(Result):
    """A file of measured runs (paradl.runs/1)."""

    _schema = "runs"
    _rows = "runs"
    runs: List[Result]


def _all(kind: Type[Result]) -> List[Type[Result]]:
    return [kind] + [c for k in kind.__subclasses__() for c in _all(k)]


_CLASSES: Dict[str, Type[Result]] = {
    (k._schema or k.__name__.lower()): k for k in _all(Result)[1:]}


def result_of(text: bytes) -> Result:
    """The answer that a JSON text is, by its schema."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError("it does not answer in JSON",
                         "paradl.text() and paradl.options() are for people")
    schema = str(fields.get("schema", "")).partition(".")[2].partition("/")[0]
    kind = next((k for k in _all(Result) if k._schema == schema and schema),
                Result)
    return kind(fields)
