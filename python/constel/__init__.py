"""Constel: real software over an emulated low-earth-orbit network.

* `Scenario`: load, build, edit, check and plan a scenario, with results as frames. Needs no root.
* `Scenario.run()`: a lab, as a context manager; `Scenario.up()`: one that stays. `constel.aio` has the same for asyncio. Needs
  root.
* `read_results`: the results of a run, as frames.
* `sweep`: a function over parameters and seeds, with labs in parallel, resumable.
* `gsl_policy`, `routing`, `failure_law`, `link_law`, `trajectory`, `topology`: your own rules, as functions.
* `Lab.policy`: a function that decides for a running lab, step by step.
* `find_binary`: the program `constel` of this package.
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
from .lab import Completed, Event, Lab, Link, Node, OwnLab, attach, labs
from .network import Network
from .policy import Decision, LivePolicy, State
from .results import Results, read_results, read_runs
from .rules import Choice, Joined, Rule, RuleFailed, Sky, failure_law, gsl_policy, link_law, routing, topology, trajectory
from .scenario import Check, Plan, Scenario, check
from .sweeps import Run, Sweep, sweep

__all__ = [
    "Check",
    "Choice",
    "CommandFailed",
    "Completed",
    "ConstelError",
    "Decision",
    "Diagnostic",
    "Event",
    "Frame",
    "HostError",
    "Joined",
    "Lab",
    "LabDied",
    "LabError",
    "LabRefused",
    "LabTimeout",
    "Link",
    "LivePolicy",
    "Network",
    "Node",
    "OwnLab",
    "Plan",
    "Results",
    "Rule",
    "RuleFailed",
    "Run",
    "Scenario",
    "ScenarioError",
    "Sky",
    "State",
    "Sweep",
    "UsageError",
    "__version__",
    "attach",
    "check",
    "failure_law",
    "find_binary",
    "gsl_policy",
    "labs",
    "link_law",
    "read_results",
    "read_runs",
    "routing",
    "sweep",
    "topology",
    "trajectory",
]
