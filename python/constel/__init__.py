"""Constel: real software over a low-earth-orbit network that moves.

* `Scenario`: load, build, edit, check and plan a scenario; answers about it as frames. Needs no root.
* `Scenario.run()`: a lab, as a context manager; `constel.aio` has the same for asyncio. Needs root.
* `read_results`: what a run left behind, as frames.
* `sweep`: a function over parameters and seeds, labs side by side, resumable.
* `find_binary`: the program `constel` that came with this package.
"""

from ._binary import find_binary
from ._native import VERSION as __version__
from .errors import (
    CommandFailed,
    ConstelError,
    Diagnostic,
    HostError,
    LabDied,
    LabError,
    LabRefused,
    LabTimeout,
    ScenarioError,
    UsageError,
)
from .frame import Frame
from .lab import Completed, Event, Lab, Link, Node, OwnLab, attach
from .results import Results, read_results, read_runs
from .scenario import Check, Plan, Scenario, check
from .sweeps import Run, Sweep, sweep

__all__ = [
    "Check",
    "CommandFailed",
    "Completed",
    "ConstelError",
    "Diagnostic",
    "Event",
    "Frame",
    "HostError",
    "Lab",
    "LabDied",
    "LabError",
    "LabRefused",
    "LabTimeout",
    "Link",
    "Node",
    "OwnLab",
    "Plan",
    "Results",
    "Run",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "UsageError",
    "__version__",
    "attach",
    "check",
    "find_binary",
    "read_results",
    "read_runs",
    "sweep",
]
