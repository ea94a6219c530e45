"""Scenarios: constellations, stations and programs; and queries about them that need no lab and no root."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _yaml
from ._binary import find_binary
from ._time import Span, text_of
from .errors import ConstelError, Diagnostic, ScenarioError
from .frame import Frame

if TYPE_CHECKING:
    import networkx

    from .lab import Lab, OwnLab
    from .policy import Decide, LivePolicy
    from .rules import Rule


@dataclass(frozen=True)
class Check:
    """The result of checking a scenario. `ok` is false if the scenario is not valid; then `errors` has the reasons, and the
    rest is empty."""

    ok: bool
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[str, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    """The output of `constel check --json`."""

    def __bool__(self) -> bool:
        return self.ok


class Plan:
    """The links at an instant."""

    def __init__(self, native: _native.Plan) -> None:
        self._native = native

    @property
    def json(self) -> str:
        """The output of `constel plan --json`, byte for byte."""
        return self._native.json

    @property
    def document(self) -> dict[str, Any]:
        """The output as Python's values."""
        document: dict[str, Any] = json.loads(self.json)
        return document

    @property
    def nodes(self) -> Frame:
        """`node, kind, x_m, y_m, z_m` (ITRF)`, catalogue_name, norad_id`."""
        return Frame(self._native.nodes())

    @property
    def edges(self) -> Frame:
        """`from_node, from_port, to_node, to_port, kind, delay_ns, rate_bps, loss_ratio`: each direction is an edge."""
        return Frame(self._native.edges())

    def graph(self) -> networkx.MultiDiGraph[str]:
        """Returns a graph of networkx, which must be installed: nodes by name, an arc for each edge, `delay_ns` as its
        weight."""
        import networkx

        graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
        for node in self.nodes.rows():
            graph.add_node(node.pop("node"), **node)
        for edge in self.edges.rows():
            a, b = edge.pop("from_node"), edge.pop("to_node")
            graph.add_edge(a, b, key=(edge["from_port"], edge["to_port"]), **edge)
        return graph


@dataclass(frozen=True)
class Pairs:
    """Least-delay paths of pairs over time."""

    samples: Frame
    """`t_s, a_node, b_node, delay_ns, hops, changed`"""
    summary: Frame
    """A row for each pair: samples, with_path, minimum, mean and maximum delay, hops, changes."""


@dataclass(frozen=True)
class Coverage:
    """The coverage of stations and flows."""

    stations: Frame
    flows: Frame


class Scenario:
    """A scenario, checked and laid out. It is immutable: `replace` returns a new one.

    Times are texts with their unit (`"30 s"`) or `timedelta`s. Intervals are `[start, stop)`, sampled at intervals of
    `every`; the default is the scenario's whole duration at each of its steps.
    """

    def __init__(self, native: _native.Scenario, folder: Path, file: Path | None) -> None:
        self._native = native
        self._folder = folder
        self._file = file

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Reads a file; files that it names are relative to its folder.

        Raises `ScenarioError` with all errors.
        """
        path = Path(path)
        return cls(_native.Scenario.load(path), path.resolve().parent, path)

    @classmethod
    def from_text(cls, text: str, folder: str | Path = ".", name: str = "<text>") -> Scenario:
        """Returns the scenario of a YAML text; `name` is used in errors."""
        folder = Path(folder).resolve()
        return cls(_native.Scenario.of_text(name, text, folder, []), folder, None)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: str | Path = ".") -> Scenario:
        """Returns a scenario built from scratch: the keys of docs/reference/scenario/ as dictionaries and lists."""
        return cls.from_text(_yaml.dump(values), folder, "<dict>")

    def replace(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """Returns a scenario with changed values: `replace(seed=2, duration="60 s")`, `replace({"links.driver": "relay"})`.

        A key is a place in the file, as errors name it (`traffic[3].ping.to`; an item of a list also by its name). All other
        content is unchanged, comments too.
        """
        texts = [f"{key}={_yaml.flow(value)}" for key, value in {**(settings or {}), **more}.items()]
        shown = str(self._file) if self._file else "<text>"
        native = _native.Scenario.of_text(shown, self.text, self._folder, texts)
        return Scenario(native, self._folder, self._file if native.text == self.text else None)

    @property
    def text(self) -> str:
        """The scenario in YAML."""
        return self._native.text

    def to_yaml(self) -> str:
        """The scenario in YAML: as it was read, with comments, and with all changes."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys as dictionaries and lists; `from_dict` is the inverse."""
        values: dict[str, Any] = _native.parse_yaml(self.name, self.text)
        return values

    def save(self, path: str | Path) -> None:
        """Writes the YAML to a file."""
        Path(path).write_text(self.text, encoding="utf-8")

    @property
    def folder(self) -> Path:
        """The folder that relative file names refer to."""
        return self._folder

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._native.name

    @property
    def seed(self) -> int:
        """The scenario's seed."""
        return self._native.seed

    @property
    def start(self) -> str:
        """Lab time zero, UTC."""
        return self._native.start

    @property
    def duration_s(self) -> float:
        """The duration in seconds of lab time."""
        return self._native.duration_ns / 1e9

    @property
    def step_s(self) -> float:
        """The interval between two steps, seconds."""
        return self._native.step_ns / 1e9

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes, satellites first."""
        return self._native.nodes

    def check(self) -> Check:
        """Checks the scenario over its whole duration: whether the network can provide what the scenario needs. Takes seconds
        for large constellations."""
        # The program also checks the host's limits for a lab of it.
        call = [find_binary(), "check", "-", "--json"]
        done = subprocess.run(call, cwd=self._folder, input=self.text, capture_output=True, text=True)
        if done.returncode:
            raise ConstelError(done.stderr.strip() or f"`constel check` ended with {done.returncode}")
        document = json.loads(done.stdout)
        return Check(True, (), tuple(document["warnings"]), document)

    def plan(self, at: Span = "0 s") -> Plan:
        """Returns the links at a lab time."""
        return Plan(self._native.plan(text_of(at)))

    def positions(self, start: Span | None = None, stop: Span | None = None, every: Span | None = None) -> Frame:
        """`t_s, node, x_m, y_m, z_m` (ITRF) of every node at every sample."""
        return Frame(self._native.positions(_over(start, stop, every)))

    def edges(self, start: Span | None = None, stop: Span | None = None, every: Span | None = None) -> Frame:
        """`t_s` and the columns of `Plan.edges`, for every sample."""
        return Frame(self._native.edges(_over(start, stop, every)))

    def contacts(self, start: Span | None = None, stop: Span | None = None, every: Span | None = None) -> Frame:
        """Returns the times of contacts: `from_s, to_s, kind, a_node, a_port, b_node, b_port` and minimum and maximum range
        and delay."""
        return Frame(self._native.contacts(_over(start, stop, every)))

    def pairs(
        self,
        pairs: str | Iterable[tuple[str, str]] = "all",
        start: Span | None = None,
        stop: Span | None = None,
        every: Span | None = None,
    ) -> Pairs:
        """Returns delay, hops and changes of least-delay paths. `pairs`: `[("tokyo", "london"), ...]`, or `"all"` pairs of
        stations."""
        samples, summary = self._native.pairs(_pairs(pairs), _over(start, stop, every))
        return Pairs(Frame(samples), Frame(summary))

    def paths(
        self,
        pairs: str | Iterable[tuple[str, str]] = "all",
        start: Span | None = None,
        stop: Span | None = None,
        every: Span | None = None,
    ) -> Frame:
        """`t_s, a_node, b_node, delay_ns, hops, nodes`: least-delay paths node by node, separated by spaces."""
        return Frame(self._native.paths(_pairs(pairs), _over(start, stop, every)))

    def candidates(self, start: Span | None = None, stop: Span | None = None, every: Span | None = None) -> Frame:
        """`t_s, station, satellite, range_m, elevation_deg, remaining_s`: the satellites that stations could use, whatever
        they choose."""
        return Frame(self._native.candidates(_over(start, stop, every)))

    def with_rules(self, *rules: Rule[Any, Any], folder: str | Path | None = None) -> Scenario:
        """Returns a scenario with the decisions of functions: `constel.gsl_policy`, `routing`, `failure_law`, `link_law`.

        Each function is called at every step, now. Files with its results go to `folder` (default: `NAME-rules` beside the
        scenario), and the scenario names them: plans and labs of it, and of its YAML, no longer need Python. Raises
        `RuleFailed`.
        """
        from .rules import with_rules

        return with_rules(self, rules, folder)

    def coverage(self, start: Span | None = None, stop: Span | None = None, every: Span | None = None) -> Coverage:
        """Returns stations' dark times, handovers and satellites in view, and the share of time in which flows have a
        path."""
        stations, flows = self._native.coverage(_over(start, stop, every))
        return Coverage(Frame(stations), Frame(flows))

    def run(
        self,
        *,
        name: str | None = None,
        results: str | Path | None = None,
        duration: Span | None = None,
        traffic: bool = True,
        anyway: bool = False,
        profile_hz: int | None = None,
        up_within: Span = "300 s",
        virtual_time: bool = False,
        policy: Decide | LivePolicy | None = None,
    ) -> OwnLab:
        """Returns a lab of this scenario, to be entered with `with`; needs root, except in virtual time.

        `name`: default: the scenario's. `results`: a folder that must not exist; default: `results/NAME-TIME`. `duration`: in
        lab time, instead of the scenario's. `traffic`: whether to run the scenario's traffic. `anyway`: start even if the lab
        does not fit. `profile_hz`: samples of interfaces' counters per second (1 to 100). `up_within`: maximum time of
        starting. `virtual_time`: runs the lab in a guest whose clock waits (`docs/virtual-time.md`): `wait` returns its results,
        and there are no requests to it. `policy`: a function that decides from lab time zero on (`Lab.policy`), or a
        `LivePolicy`; not in virtual time.
        """
        from .lab import OwnLab

        return OwnLab(
            self,
            name=name,
            results=results,
            duration=duration,
            traffic=traffic,
            anyway=anyway,
            profile_hz=profile_hz,
            up_within=up_within,
            virtual_time=virtual_time,
            policy=policy,
        )

    def up(
        self,
        *,
        name: str | None = None,
        results: str | Path | None = None,
        duration: Span | None = None,
        stays: bool = False,
        traffic: bool = True,
        anyway: bool = False,
    ) -> Lab:
        """Starts a lab that stays in the background, also after the end of this interpreter (`constel up`); needs root. Returns
        when it is up; `Lab.down()` ends it.

        `stays`: ignore the scenario's duration. The other options are those of `run`.
        """
        from .lab import attach, command_line

        name = name or self.name
        call = ["up", "-", "--json", "--name", name, *["--no-end"] * stays, *["--no-traffic"] * (not traffic), *["--anyway"] * anyway]
        call += [] if results is None else ["--results", str(Path(results).absolute())]
        call += [] if duration is None else ["--for", text_of(duration)]
        command_line(call, input=self.text, folder=self.folder)
        return attach(name)

    def __repr__(self) -> str:
        return f"<Scenario {self.name}: {len(self.nodes)} nodes, {self.duration_s:g} s>"


def check(scenario: str | Path | Mapping[str, Any], folder: str | Path = ".") -> Check:
    """Checks a file, or a mapping as for `Scenario.from_dict`; invalid content does not raise an exception."""
    try:
        if isinstance(scenario, Mapping):
            return Scenario.from_dict(scenario, folder).check()
        return Scenario.load(scenario).check()
    except ScenarioError as error:
        return Check(False, error.diagnostics)


def _over(start: Span | None, stop: Span | None, every: Span | None) -> tuple[str | None, str | None, str | None]:
    first, last, between = (None if span is None else text_of(span) for span in (start, stop, every))
    return first, last, between


def _pairs(pairs: str | Iterable[tuple[str, str]]) -> str:
    if isinstance(pairs, str):
        return pairs
    return ",".join(f"{a}:{b}" for a, b in pairs)
