# SPDX-License-Identifier: Apache-2.0
"""The kinds of answers, with their fields as doc/formats/json has them.

Times are seconds, sizes bytes, rates per second. Of a question that was not
asked the field is not there.
"""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Type

from .errors import UsageError
from .results import Result


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
    host_bytes: int
    gamma: Optional[float]
    note: str


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


class Evidence(Result):
    """How many measured runs are like it, and how far off they were."""

    runs: int
    error: Optional[float]
    same_framework_and_kind: int
    text: str


class Projection(Result):
    """What one strategy costs.

    >>> import paradl
    >>> p = paradl.project("resnet50", system="abci-v100",
    ...                    strategy="data=64", batch=2048)
    >>> p.feasible, round(p.step_s, 3), p.memory.peak_bytes
    (True, 0.1, 2936016608)
    """

    _schema = "project"
    command: str
    model: str
    system: str
    parameters: str
    framework: str
    strategy: str
    rank: int
    tie: int
    upper_s: float
    anchored_s: float
    measured_runs: int
    tokens: int
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
    evidence: Evidence
    notes: List[str]
    fallbacks: List[str]
    positions: str
    swapped: str
    out_of_core: Result
    precision: str
    optimizer: str
    contention: List[Result]
    limits: List[Limit]
    gains: List[Gain]
    operations: List[Result]
    measured: Result
    run: Result
    stages: List[Result]
    schedule: Result
    network: Result
    fits_with: List[Result]
    kineto: Result
    epochs: List[Result]


class Plan(Result):
    """The strategies of a search, best first: ``best`` is one that fits."""

    _schema = "plan"
    _rows = "plans"
    _common = ("model", "system")
    command: str
    model: str
    system: str
    parameters: str
    pes: int
    batch: int
    framework: str
    framework_why: str
    tokens: int
    precision: str
    optimizer: str
    evaluated: int
    pruned: int
    feasible_count: int
    decided: int
    search_s: float
    smallest_step_s: float
    epochs: List[Result]
    training: Result
    collectives: Result
    against: Result
    plans: List[Projection]
    front: List[Result]
    scaling: List[Projection]
    excluded: List[Result]
    axis_limits: List[Result]
    points: int
    pruned_by: Result
    unasked: int
    orders: int
    reordered: int
    space: List[Result]
    per_layer: Result

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
    _common = ("model", "system")
    command: str
    model: str
    system: str
    parameters: str
    strategy: str
    scaling: str
    points: List[Projection]


class Trial(Result):
    """One size that was searched: does it fit, and by which strategy?"""

    fits: bool
    pes: int
    batch: int
    tokens: int
    layers: int
    or_more: bool
    strategy: str
    step_s: float
    peak_bytes: int
    headroom: float
    tight: bool
    train_s: float
    cost: float


class Method(Result):
    """One way to train beyond memory, at one batch."""

    name: str
    batch: int
    fits: bool
    samples_per_s: Optional[float]


class FitIn(Result):
    """What fits: as asked, the largest batch, the fewest PEs, ..."""

    _schema = "fit-in"
    command: str
    model: str
    system: str
    framework: str
    framework_why: str
    searches: int
    as_asked: Trial
    largest_batch: Trial
    fewest_pes: Trial
    longest_sequence: Trial
    most_layers: Trial
    deadline: Trial
    budget: Trial
    methods: List[Method]
    notes: List[str]

    def to_records(self) -> List[Dict[str, Any]]:
        return [{"question": k, **v} for k, v in self.items()
                if isinstance(v, Trial)]


class Machine(Result):
    """One machine that was looked at: what its runs take and cost."""

    rank: int
    name: str
    system: str
    network: Optional[str]
    topology: Optional[str]
    pes: int
    sites: int
    local_steps: int
    feasible: bool
    excluded: Optional[str]
    front: bool
    time_s: float
    cost: float
    energy_kwh: float
    co2_kg: float
    rent_cost: float
    break_even_utilisation: float
    wins: float
    near_best: float
    keeps: float
    part: float
    then: List[Result]
    bill: Result
    runs: List[Result]


class Design(Result):
    """Machines, best first: ``best`` is one that meets all that was asked."""

    _schema = "design"
    _rows = "designs"
    command: str
    name: str
    goal: str
    money: str
    years: float
    utilisation: float
    rack_w: float
    region: str
    repair_s: float
    power_w: float
    budget: float
    delivery: int
    racks: int
    workloads: List[Result]
    stopped: bool
    tie: bool
    feasible_count: int
    designs: List[Machine]
    changes: List[Result]
    limits: List[Result]
    flips: List[Result]
    unpriced: str
    prices: Result
    search: Result

    @property
    def best(self) -> Optional[Machine]:
        """The first that meets it; None where nothing does."""
        designs: List[Machine] = self["designs"]
        return next((d for d in designs if d.feasible), None)


class Simulation(Result):
    """A collective on a network."""

    _schema = "simulate"
    collective: str
    algorithm: str
    topology: str
    size_bytes: int
    ranks: int
    groups: int
    messages: int
    time_s: float
    wall_s: float
    lower_bound_s: float
    bounds: Result
    bytes_on_wire: int
    max_link_bytes: int
    contention: List[int]
    energy_j: float
    critical_path: Result
    timeline: Result
    links: List[Result]
    chakra: Result


class Validation(Result):
    """Projected beside measured."""

    _schema = "validate"
    _rows = "rows"
    rows: List[Result]
    mean_accuracy: float
    mape: float
    median_error: float
    bias: float
    spearman: float
    regret: float
    coverage: float
    median_width: float
    ranking: List[int]
    fits: Result
    by: Result


class Runs(Result):
    """A file of measured runs (paradl.runs/1)."""

    _schema = "runs"
    _rows = "runs"
    title: str
    runs: List[Result]


_BY_SCHEMA: Dict[str, Type[Result]] = {
    k._schema: k for k in (Projection, Plan, Scaling, FitIn, Design,
                           Simulation, Validation)}


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
    return _BY_SCHEMA.get(schema, Result)(fields)
