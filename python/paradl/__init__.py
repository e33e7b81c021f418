# SPDX-License-Identifier: Apache-2.0
"""ParaDL: how to train a network on a parallel machine, before it is booked.

>>> import paradl
>>> found = paradl.plan("resnet50", system="abci-v100", pes=64, batch=2048)
>>> found
Plan('resnet50' on 64 PEs of 'abci-v100', 42 priced, 34 fit, best 'data=64': \
0.09992 s)
>>> found.plans[1].strategy
'data=32,spatial=2'

In a notebook the last line of a cell shows the page with charts. With PyTorch:
``paradl.from_torch(module, example)`` is a model like any other, and
``paradl.torch`` has samplers and a communication hook.
"""
from ._library import lib as _lib
from ._version import __version__
from .errors import (EnvironmentLacks, Error, InputError, InternalError,
                     UsageError)
from .kinds import (Design, Evidence, FitIn, Gain, Limit, Machine, Memory,
                    Method, Plan, Projection, Runs, Scaling, Simulation, Time,
                    Trial, Validation)
from .models import Model, from_torch
from .questions import (Job, ask, collective, design, fit_in, options, plan,
                        project, read_runs, report, scale, simulate, text,
                        validate)
from .results import Result
from .watching import Watch, watch

library_version: str = _lib.pdl_version().decode()

__all__ = [
    "Design", "EnvironmentLacks", "Error", "Evidence", "FitIn", "Gain",
    "InputError", "InternalError", "Job", "Limit", "Machine", "Memory",
    "Method", "Model", "Plan", "Projection", "Result", "Runs", "Scaling", "Simulation", "Time", "Trial",
    "UsageError", "Validation", "Watch", "ask", "collective", "design",
    "fit_in", "from_torch", "library_version", "options", "plan", "project",
    "read_runs", "report", "scale", "simulate", "text", "validate", "watch",
    "__version__",
]
