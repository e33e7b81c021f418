# SPDX-License-Identifier: Apache-2.0
"""Questions: the commands of the program as functions.

Keyword arguments are the options of the command: ``gradient_dtype="bf16"`` is
``--gradient-dtype bf16``, ``True`` is a flag. ``paradl.options("plan")`` lists
them; one that does not exist raises UsageError and says which was meant.
"""
from __future__ import annotations

import json
import os
import threading
from types import TracebackType
from typing import (Any, Dict, List, Optional, Sequence, Type, Union, cast)

from ._library import Answer, Progress, lib
from .errors import InputError, UsageError
from .kinds import (Design, FitIn, Plan, Projection, Runs, Scaling, Simulation,
                    Validation, result_of)
from .results import Result

Path = Union[str, "os.PathLike[str]"]
Value = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[str],
              Sequence[int]]


def _text(value: Value) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if not hasattr(value, "__index__") and not hasattr(value, "__float__"):
        raise UsageError(
            f"{type(value).__name__} is no name, file or number",
            "a torch.nn.Module goes through paradl.from_torch"
            if hasattr(value, "state_dict") else "")
    return str(value)


def _list(texts: Union[None, str, Sequence[str]]) -> Optional[str]:
    """Of texts that have commas themselves."""
    return texts if texts is None or isinstance(texts, str) else ";".join(texts)


def _words(command: str, arguments: Sequence[Value],
           options: Dict[str, Value]) -> List[str]:
    """As the program gets them: no text of an argument is an option."""
    words = command.split()
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        words.append(option if value is True else f"{option}={_text(value)}")
    return words + ["--"] + [_text(a) for a in arguments]


def ask(command: str, *arguments: Value, progress: Optional[Progress] = None,
        **options: Any) -> Result:
    """Any command that answers in JSON.

    >>> import paradl
    >>> paradl.ask("topology show", "torus:4x4").hosts
    16
    """
    words = _words(command, arguments, {**options, "json": True})
    found = result_of(Answer().ask(words, progress))
    found._asked = arguments  # a module's file is there as long as its answers
    return found


def text(command: str, *arguments: Value, **options: Any) -> str:
    """The same for people, as the program prints it.

    >>> import paradl
    >>> print(paradl.text("model show", "lenet5").split()[1])
    lenet5
    """
    return Answer().ask(_words(command, arguments, options)).decode()


def options(command: str) -> str:
    """What a command can be asked: its help."""
    return Answer().ask(["help", *command.split()]).decode()


def plan(model: Path, *, system: Path, pes: int, batch: int,
         top: Optional[int] = None, goal: Optional[str] = None,
         strategies: Optional[str] = None, per_layer: bool = False,
         seconds: Optional[str] = None, framework: Optional[str] = None,
         precision: Optional[str] = None, optimizer: Optional[str] = None,
         progress: Optional[Progress] = None, **options: Any) -> Plan:
    """Which strategy, ranked.

    ``model`` is a name ("gpt3-175b"), a name with parameters
    ("gpt:layers=24,hidden=2048,heads=16"), a file (config.json, .onnx, .yaml,
    .safetensors) or what ``from_torch`` returns; ``system`` a name
    ("dgx-h100:nodes=16") or a file. Ctrl-C ends the search.
    ``progress(done, total)`` is called ten times a second.

    >>> import paradl
    >>> found = paradl.plan("resnet50", system="abci-v100", pes=64, batch=2048)
    >>> found.best.strategy
    'data=64'
    >>> [limit.id for limit in found.best.limits][:1]
    ['gradient-exchange']
    """
    return cast(Plan, ask(
        "plan", model, system=system, pes=pes, batch=batch, top=top, goal=goal,
        strategies=strategies, per_layer=per_layer, seconds=seconds,
        framework=framework, precision=precision, optimizer=optimizer,
        details=True, progress=progress, **options))


def project(model: Path, *, system: Path, strategy: str, batch: int,
            framework: Optional[str] = None, precision: Optional[str] = None,
            optimizer: Optional[str] = None, details: bool = True,
            **options: Any) -> Projection:
    """What one strategy costs, and why; ``Job`` is for many of them.

    >>> import paradl
    >>> p = paradl.project("gpt2", system="dgx-a100", strategy="data=8",
    ...                    batch=64)
    >>> p.pes, p.feasible, p.time.update_s < p.step_s
    (8, True, True)
    """
    return cast(Projection, ask(
        "project", model, system=system, strategy=strategy, batch=batch,
        framework=framework, precision=precision, optimizer=optimizer,
        details=details, **options))


def fit_in(model: Path, *, system: Path, pes: int, batch: Optional[int] = None,
           progress: Optional[Progress] = None, **options: Any) -> FitIn:
    """Does it fit; the largest batch and sequence, the fewest PEs.

    >>> import paradl
    >>> f = paradl.fit_in("resnet50", system="abci-v100", pes=16, batch=512)
    >>> f.as_asked.fits, f.fewest_pes.pes
    (True, 2)
    """
    return cast(FitIn, ask("fit-in", model, system=system, pes=pes,
                           batch=batch, progress=progress, **options))


def scale(model: Path, *, system: Path, strategy: str, pes: str, batch: int,
          weak: bool = False, **options: Any) -> Scaling:
    """How far a strategy scales: one axis is written ``=p``.

    >>> import paradl
    >>> s = paradl.scale("vgg16", system="abci-v100", strategy="data=p",
    ...                  pes="1..4", batch=64)
    >>> [p.pes for p in s.points]
    [1, 2, 4]
    """
    return cast(Scaling, ask("scale", model, system=system, strategy=strategy,
                             pes=pes, batch=batch, weak=weak, **options))


def design(question: Optional[Path] = None, *, model: Optional[Path] = None,
           batch: Optional[int] = None, tokens: Optional[str] = None,
           systems: Optional[Sequence[str]] = None,
           pes: Optional[Sequence[int]] = None,
           networks: Optional[Sequence[str]] = None,
           goal: Optional[str] = None, top: Optional[int] = None,
           progress: Optional[Progress] = None, **options: Any) -> Design:
    """Which machine to build, buy or rent: a file with the question, or one
    workload and the machines to look at.

    >>> import paradl
    >>> found = paradl.design(model="gpt2", batch=64, tokens="1G",
    ...                       systems=["dgx-a100", "dgx-h100"], pes=[8])
    >>> [d.pes for d in found.designs], found.best.feasible
    ([8, 8], True)
    """
    return cast(Design, ask(
        "design", *([] if question is None else [question]), model=model,
        batch=batch, tokens=tokens, systems=_list(systems), pes=pes,
        networks=_list(networks), goal=goal, top=top, progress=progress,
        **options))


def simulate(collective: str, *, topology: str, size: str,
             algorithm: Optional[str] = None, ranks: Optional[int] = None,
             **options: Any) -> Simulation:
    """How long a collective takes on a network, and where it is hot.

    >>> import paradl
    >>> paradl.simulate("allreduce", topology="torus:4x4", size="1MiB",
    ...                 algorithm="ring").messages
    480
    """
    return cast(Simulation, ask("simulate", collective, topology=topology,
                                size=size, algorithm=algorithm, ranks=ranks,
                                **options))


def collective(what: str, *arguments: Value, **options: Any) -> Result:
    """Collective algorithms: "list", "show", "verify" or "compare".

    >>> import paradl
    >>> paradl.collective("verify", algorithm="shd", ranks="1..8").right
    True
    """
    return ask(f"collective {what}", *arguments, **options)


def validate(measured: Path, *, select: Optional[str] = None,
             system: Optional[Path] = None, **options: Any) -> Validation:
    """Projected beside measured, for a file of runs (``read_runs``)."""
    return cast(Validation, ask("validate", measured=measured, select=select,
                                system=system, **options))


def read_runs(path: Path) -> Runs:
    """A file of measured runs (paradl.runs/1), for tables and ``validate``."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as f:
            fields = json.load(f)
    except json.JSONDecodeError as e:
        raise InputError(f"{name}:{e.lineno}:{e.colno}: {e.msg}") from None
    except (UnicodeDecodeError, RecursionError) as e:
        raise InputError(f"{name}:1:1: no JSON: {e}") from None
    except OSError as e:
        raise InputError(f"{name}: {e.strerror}") from None
    if not isinstance(fields, dict) or \
            fields.get("schema") != "paradl.runs/1" or \
            not isinstance(fields.get("runs"), list):
        raise InputError(f"{name}:1:1: no file of measured runs",
                         'it begins with "schema": "paradl.runs/1"')
    return Runs(fields)


def report(result: Result, path: Path) -> None:
    """Writes the page of an answer, with charts."""
    result.save_html(path)


class Job:
    """A model on a system, held, to be asked about many strategies.

    >>> import paradl
    >>> with paradl.Job("gpt2", system="dgx-a100", batch=64) as job:
    ...     steps = {s: job.project(s).step_s
    ...              for s in ("data=8", "data=4,tensor=2")}
    >>> min(steps, key=steps.get)
    'data=8'

    Settings are those of paradl/job.h. Threads may share a job: one is
    answered after the other.
    """

    def __init__(self, model: Path, *, system: Path, **settings: Any) -> None:
        self._lock = threading.RLock()
        self._answer = Answer()
        self._job: Optional[int] = lib.pdl_job_create()
        if not self._job:
            raise MemoryError
        self.set(model=_text(model), system=_text(system), **settings)

    def set(self, **settings: Any) -> None:
        """Changes settings; None takes one back."""
        for name, value in settings.items():
            if isinstance(value, bool):
                value = "yes" if value else None
            with self._lock:
                self._answer.set(self._open(), name.replace("_", "-"),
                                 None if value is None else _text(value))

    def project(self, strategy: str, *, batch: Optional[int] = None,
                whole: bool = False) -> Projection:
        """What it costs; ``whole`` adds interval, limits and gains, which
        are several prices more."""
        with self._lock:
            job = self._open()
            self._answer.set(job, "strategy", _text(strategy))
            if batch is not None:
                self._answer.set(job, "batch", str(batch))
            found = self._answer.project(job, whole)
        return Projection(json.loads(found))

    def __reduce__(self) -> Any:
        raise TypeError("a job is of this process: make another one")

    def _open(self) -> int:
        if not self._job:
            raise ValueError("the job is closed")
        return self._job

    def close(self) -> None:
        """Gives model and system back."""
        with self._lock:
            job, self._job = self._job, None
            lib.pdl_job_destroy(job)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_job", None):
            self.close()
