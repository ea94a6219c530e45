"""Your own rules, as functions: which satellites serve stations, failures, properties of ground links, trajectories, the
topology.

A function is called for each step before the lab starts. The results are written to files that the scenario then names
(`Scenario.with_rules`). A lab therefore never waits for Python, and a run can be repeated exactly on a machine without
Python. A function that raises an exception, takes too long or returns an invalid value raises `RuleFailed` with its
traceback, and no file is left incomplete.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._time import Span, seconds_of
from .errors import ConstelError
from .frame import Frame

if TYPE_CHECKING:
    from .scenario import Scenario

_Asked = TypeVar("_Asked")
_Said = TypeVar("_Said")

# Steps per query: enough that the overhead is small, few enough that the result fits into memory.
_STEPS_AT_ONCE = 64


class RuleFailed(ConstelError):
    """A user's rule raised an exception, took too long, or returned an invalid value; `__cause__` is its own exception."""

    def __init__(self, rule: str, t_s: float, words: str) -> None:
        super().__init__(f"rule `{rule}` at {t_s:g} s: {words}")
        self.rule = rule
        self.t_s = t_s


@dataclass(frozen=True)
class Choice:
    """The argument of a policy at a step."""

    t_s: float
    """Lab time."""
    candidates: Frame
    """`t_s, station, satellite, range_m, elevation_deg, remaining_s`: the satellites that each station can use."""
    serving: Mapping[str, Sequence[str]]
    """The result of the step before, by station."""


@dataclass(frozen=True)
class Sky:
    """The argument of other rules at a step."""

    t_s: float
    """Lab time."""
    positions: Frame
    """`t_s, node, x_m, y_m, z_m` (ITRF) of every node."""
    edges: Frame
    """The links of the unchanged scenario, each direction a row: the columns of `Scenario.edges`."""


class Rule(Generic[_Asked, _Said]):
    """A function and its maximum time per step, seconds."""

    def __init__(self, function: Callable[[_Asked], _Said], within: Span = "10 s") -> None:
        self.function = function
        self.within_s = seconds_of(within)
        update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The rule's name in errors."""
        return getattr(self.function, "__name__", type(self).__name__)

    def __call__(self, asked: _Asked) -> _Said:
        return self.function(asked)

    def asked(self, t_s: float, what: _Asked) -> _Said:
        """Returns the function's result; raises `RuleFailed`."""
        began = time.monotonic()
        try:
            said = self.function(what)
        except Exception as error:
            raise RuleFailed(self.name, t_s, f"{type(error).__name__}: {error}") from error
        took_s = time.monotonic() - began
        if took_s > self.within_s:
            raise self.wrong(t_s, f"took {took_s:.3g} s, and {self.within_s:g} s are allowed (`within`)")
        return said

    def wrong(self, t_s: float, words: str) -> RuleFailed:
        return RuleFailed(self.name, t_s, words)

    def record(self, scenario: Scenario, folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
        """Returns the texts of files by name, and the settings of the scenario that name them."""
        raise NotImplementedError


class gsl_policy(Rule[Choice, Mapping[str, "str | Sequence[str] | None"]]):
    """A rule that chooses satellites for stations. Returns, for each station that can use any, one or several names, the
    preferred one first; `None` or an empty list leaves the station dark.

        @constel.gsl_policy
        def lowest(choice):
            best = {}
            for row in choice.candidates.rows():
                if row["station"] not in best or row["elevation_deg"] < best[row["station"]]["elevation_deg"]:
                    best[row["station"]] = row
            return {station: row["satellite"] for station, row in best.items()}

    Constel applies masks, obstacles, radio, failures, antennas, beams and the cost of handovers, as for built-in policies.
    """

    def record(self, scenario: Scenario, folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
        out = _Csv(["t_s", "station", "satellites"])
        serving: dict[str, list[str]] = {}
        for t_s, rows in _by_step(scenario, scenario.candidates):
            able: dict[str, set[str]] = {}
            for station, satellite in zip(rows["station"], rows["satellite"]):
                able.setdefault(station, set()).add(satellite)
            said = self.asked(t_s, Choice(t_s, rows, dict(serving)))
            now = self.checked(t_s, said, able)
            for station in sorted(now):
                if serving.get(station) != now[station]:
                    out.row([t_s, station, " ".join(now[station])])
            serving = now
        # A station without candidates is dark, whatever its last row contains.
        return {"choices.csv": out.text}, {"ground.choices": str(folder / "choices.csv")}

    def checked(self, t_s: float, said: Any, able: Mapping[str, set[str]]) -> dict[str, list[str]]:
        if not isinstance(said, Mapping):
            raise self.wrong(t_s, f"gave {type(said).__name__}, not a mapping of stations to satellites")
        if unknown := sorted(set(said) - set(able)):
            raise self.wrong(t_s, f"`{unknown[0]}` can use no satellite now, or is no station")
        if missing := sorted(set(able) - set(said)):
            raise self.wrong(t_s, f"says nothing of `{missing[0]}`; `None` would leave it dark")
        now = {}
        for station, wanted in said.items():
            names = [wanted] if isinstance(wanted, str) else list(wanted or ())
            if beyond := [name for name in names if name not in able[station]]:
                raise self.wrong(t_s, f"`{station}` cannot use `{beyond[0]}` now")
            now[station] = names
        return now


class routing(Rule[Sky, Mapping[str, Mapping[str, "str | None"]]]):
    """A rule that chooses paths. Returns, for each destination (`routing.destinations`: stations and hosts; all nodes with
    `all`), the neighbour to which each node forwards packets. A node without an entry, or with `None`, has no route to it.

        @constel.routing
        def eastward(sky):
            return {"london": {row["from_node"]: row["to_node"] for row in sky.edges.rows() if ...}}

    Paths must reach the destination: a loop, or a missing link, is an error. A link that fails in the lab removes the routes
    over it, and they are not replaced before the next step. Replaces `routing.metric` and `paths`; cannot be combined with
    daemons.
    """

    def record(self, scenario: Scenario, folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
        out = _Csv(["t_s", "node", "destination", "next"])
        known = set(scenario.nodes)
        before: dict[str, dict[str, str]] = {}
        for t_s, sky in _skies(scenario):
            links = set(zip(sky.edges["from_node"], sky.edges["to_node"]))
            now = self.checked(t_s, self.asked(t_s, sky), known, links)
            for destination in sorted({*before, *now}):
                old, new = before.get(destination, {}), now.get(destination, {})
                for node in sorted({*old, *new}):
                    if old.get(node) != new.get(node):
                        out.row([t_s, node, destination, new.get(node, "")])
            before = now
        return {"ways.csv": out.text}, {"routing.choices": str(folder / "ways.csv")}

    def checked(self, t_s: float, said: Any, known: set[str], links: set[tuple[str, str]]) -> dict[str, dict[str, str]]:
        if not isinstance(said, Mapping) or not all(isinstance(ways, Mapping) for ways in said.values()):
            raise self.wrong(t_s, "gave no mapping of destinations to mappings of nodes to their next ones")
        now = {destination: {node: next_ for node, next_ in ways.items() if next_} for destination, ways in said.items()}
        for destination, ways in now.items():
            if unknown := sorted({destination, *ways, *ways.values()} - known):
                raise self.wrong(t_s, f"no node is called `{unknown[0]}`")
            for node, next_ in ways.items():
                if (node, next_) not in links:
                    raise self.wrong(t_s, f"`{node}` has no link to `{next_}` now")
            arrives = {destination}
            for node in ways:
                way = [node]
                while way[-1] not in arrives:
                    onward = ways.get(way[-1])
                    if onward is None:
                        raise self.wrong(t_s, f"the way from `{node}` to `{destination}` ends at `{way[-1]}`")
                    if onward in way:
                        raise self.wrong(t_s, f"the way from `{node}` to `{destination}` comes round at `{onward}`")
                    way.append(onward)
                arrives.update(way)
        return now


class failure_law(Rule[Sky, "Iterable[str | tuple[str, str]]"]):
    """A rule for failures. Returns names of nodes, which then have no links, and pairs of satellites, whose link is then
    down."""

    def record(self, scenario: Scenario, folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
        known = set(scenario.nodes)
        since: dict[str | tuple[str, str], float] = {}
        spans: list[tuple[float, float, str | tuple[str, str]]] = []
        for t_s, sky in _skies(scenario):
            broken: set[str | tuple[str, str]] = set()
            for one in self.asked(t_s, sky):
                names = [one] if isinstance(one, str) else sorted(one)
                if unknown := [name for name in names if name not in known]:
                    raise self.wrong(t_s, f"no node is called `{unknown[0]}`")
                if len(names) not in (1, 2):
                    raise self.wrong(t_s, f"{names!r} is neither a node nor a link")
                broken.add((names[0], names[-1]) if len(names) == 2 else names[0])
            for whole in sorted(set(since) - broken, key=str):
                spans.append((since.pop(whole), t_s, whole))
            for new in broken - set(since):
                since[new] = t_s
        spans += [(began, scenario.duration_s, one) for one, began in since.items()]
        together: dict[tuple[float, float], list[str]] = {}
        entries: list[dict[str, Any]] = []
        for began, ended, what in sorted(spans, key=str):
            if isinstance(what, str):
                together.setdefault((began, ended), []).append(what)
            else:
                entries.append({**_for(began, ended), "link": {"from": what[0], "to": what[1]}})
        entries += [{**_for(began, ended), "nodes": nodes} for (began, ended), nodes in sorted(together.items())]
        before = scenario.to_dict().get("failures", [])
        named = [{"name": f"{self.name.replace('_', '-')}-{number}", **entry} for number, entry in enumerate(entries)]
        return {}, {"failures": [*before, *named]}


class link_law(Rule[Sky, Mapping[str, Mapping[str, float]]]):
    """A rule for stations' ground links. Returns, by station, any of `down_bit_per_s`, `up_bit_per_s` (instead of the
    scenario's), `loss_ratio` and `extra_delay_s` (in addition to the scenario's); the same ones at each step. Stations that
    it never names are unchanged."""

    COLUMNS = ("down_bit_per_s", "up_bit_per_s", "loss_ratio", "extra_delay_s")

    def record(self, scenario: Scenario, folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
        tables: dict[str, tuple[list[str], _Csv, list[float]]] = {}
        first = True
        for t_s, sky in _skies(scenario):
            said = self.asked(t_s, sky)
            for station in {**dict.fromkeys(tables), **said}:
                values = said.get(station)
                names = [name for name in self.COLUMNS if name in (values or {})]
                if values is None or not names or set(values) - set(self.COLUMNS):
                    raise self.wrong(t_s, f"`{station}` must have one or more of {', '.join(self.COLUMNS)}, and nothing else")
                if station not in tables:
                    if not first:
                        raise self.wrong(t_s, f"`{station}` was not named at the first step")
                    tables[station] = (names, _Csv(["t_s", *names]), [])
                own, out, last = tables[station]
                if own != names:
                    raise self.wrong(t_s, f"`{station}` had {', '.join(own)} before")
                now = [float(values[name]) for name in names]
                if now != last:
                    out.row([t_s, *now])
                    last[:] = now
            first = False
        files = {f"recording-{station}.csv": out.text for station, (_, out, _) in tables.items()}
        before = scenario.to_dict().get("recordings", [])
        entries = [{"stations": [station], "file": str(folder / f"recording-{station}.csv")} for station in tables]
        return files, {"recordings": [*before, *entries]}


class trajectory(Rule[datetime, Mapping[str, Sequence[float]]]):
    """A rule for positions. Returns positions by name, metres, ITRF, at an instant (UTC). `write` writes the file for
    `constellations.NAME.ephemeris.file`; Constel interpolates between its instants."""

    def write(self, path: str | Path, start: datetime, span: Span, every: Span = "10 s") -> Path:
        """Calls the rule from `start` to at least `span` after it, at intervals of `every`; the names must be the same each
        time."""
        out = _Csv(["t_utc", "sat_id", "x_m", "y_m", "z_m", "frame"])
        names: list[str] | None = None
        t_s, end_s, every_s = 0.0, seconds_of(span), seconds_of(every)
        # One instant beyond the end, because positions are interpolated only between instants.
        while t_s < end_s + 2 * every_s:
            at = start + timedelta(seconds=t_s)
            said = self.asked(t_s, at)
            names = names or list(said)
            if list(said) != names or not names:
                raise self.wrong(t_s, "must give the same names at each instant, at least one")
            for name, place in said.items():
                x, y, z = (float(metres) for metres in place)
                out.row([at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z", name, x, y, z, "itrf"])
            t_s += every_s
        path = Path(path)
        _write(path.parent, {path.name: out.text})
        return path


@dataclass(frozen=True)
class Joined:
    """One direction of a link in a user's topology."""

    a: str
    b: str
    delay_ms: float
    rate_bps: float | None = None
    loss_ratio: float = 0.0


class topology(Rule[float, Iterable[Joined]]):
    """A rule for the whole topology. Returns, for a lab time in seconds, each direction of every link as a `Joined`. `write`
    writes the table for `networks.NAME.law.matrix`, by which the network's members are linked."""

    def write(self, path: str | Path, span: Span, step: Span = "1 s") -> Path:
        """Calls the rule from 0 to `span`, at intervals of `step`; an instant equal to the one before has no rows."""
        out = _Csv(["from", "to", "delay_ms", "rate_bit_per_s", "loss_ratio", "t_s"])
        t_s, last = 0.0, None
        while t_s < seconds_of(span):
            now = sorted(self.asked(t_s, t_s), key=lambda link: (link.a, link.b))
            if not now:
                raise self.wrong(t_s, "gives no link; a network without any is none")
            if now != last:
                for link in now:
                    out.row([link.a, link.b, link.delay_ms, "" if link.rate_bps is None else round(link.rate_bps), link.loss_ratio, t_s])
            t_s, last = t_s + seconds_of(step), now
        path = Path(path)
        _write(path.parent, {path.name: out.text})
        return path


def with_rules(scenario: Scenario, rules: Sequence[Rule[Any, Any]], folder: str | Path | None) -> Scenario:
    """Implements `Scenario.with_rules`."""
    where = Path(folder) if folder is not None else scenario.folder / f"{scenario.name}-rules"
    for rule in rules:
        # Each rule gets the scenario as changed by the rules before it.
        files, settings = rule.record(scenario, where.resolve())
        _write(where, files)
        scenario = scenario.replace(settings)
    return scenario


class _Csv:
    """A CSV table under construction."""

    def __init__(self, head: Sequence[str]) -> None:
        self._file = io.StringIO()
        self._out = csv.writer(self._file, lineterminator="\n")
        self._out.writerow(head)

    def row(self, cells: Sequence[Any]) -> None:
        # The shortest form of each number, so that equal values always give equal bytes.
        self._out.writerow([repr(cell).removesuffix(".0") if isinstance(cell, float) else cell for cell in cells])

    @property
    def text(self) -> str:
        return self._file.getvalue()


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        part = folder / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


def _by_step(scenario: Scenario, ask: Callable[[str, str], Frame]) -> Iterator[tuple[float, Frame]]:
    """Yields for each step its time and its rows of a frame with a column `t_s`, in order."""
    steps = round(scenario.duration_s / scenario.step_s)
    for first in range(0, steps, _STEPS_AT_ONCE):
        last = min(first + _STEPS_AT_ONCE, steps)
        ns = [round(step * scenario.step_s * 1e9) for step in (first, last)]
        frame = ask(f"{ns[0]} ns", f"{ns[1]} ns")
        times, kinds = frame["t_s"], frame.kinds
        at = 0
        for step in range(first, last):
            t_s = round(step * scenario.step_s * 1e9) / 1e9
            begin = at
            while at < len(times) and times[at] < t_s + scenario.step_s / 2:
                at += 1
            yield t_s, frame.part(begin, at - begin)


def _skies(scenario: Scenario) -> Iterator[tuple[float, Sky]]:
    edges = _by_step(scenario, scenario.edges)
    for (t_s, places), (_, links) in zip(_by_step(scenario, scenario.positions), edges):
        yield t_s, Sky(t_s, places, links)


def _for(began_s: float, ended_s: float) -> dict[str, str]:
    return {"at": f"{round(began_s * 1e9)} ns", "for": f"{round((ended_s - began_s) * 1e9)} ns"}
