"""Results of runs (docs/reference/results.md), as frames."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _native
from .errors import UsageError
from .frame import Frame, Kind, column_of

_FLOW: dict[str, Kind] = {
    "t_s": "float",
    "rtt_us": "float",
    "owd_us": "float",
    "owd_back_us": "float",
    "throughput_bps": "float",
    "fate": "text",
    "path": "integer",
    "marked": "integer",
}
_PATHS: dict[str, Kind] = {
    "t_s": "float",
    "flow": "text",
    "path": "integer",
    "path_rtt_us": "float",
    "shortest_rtt_us": "float",
}
_FLOWS: dict[str, Kind] = {
    "run": "text",
    "seed": "integer",
    "run_trustworthy": "bool",
    "flow": "text",
    "kind": "text",
    "from": "text",
    "to": "text",
    "at_s": "float",
    "status": "text",
    "trustworthy": "bool",
    "samples": "integer",
    "marked_samples": "integer",
    "handovers": "integer",
    "paths": "integer",
    **dict.fromkeys((f"rtt_{which}_us" for which in ("min", "p50", "p99", "max")), "float"),
    **dict.fromkeys((f"owd_{which}_us" for which in ("min", "mean", "p50", "p95", "p99", "max")), "float"),
    **dict.fromkeys((f"owd_back_{which}_us" for which in ("min", "p50", "p95", "max")), "float"),
    "path_rtt_p50_us": "float",
    "bound_rtt_min_us": "float",
    "throughput_bps": "float",
    "received_bytes": "integer",
    "sent_bytes": "integer",
    "sent_packets": "integer",
    "loss_ratio": "float",
    "retransmits": "integer",
    "client_cpu_s": "float",
    "server_cpu_s": "float",
    "run_failed": "bool",
}
"""The columns of `constel results RUN --csv`, in its order."""
_HANDOVERS: dict[str, Kind] = {
    "t_s": "float",
    "station": "text",
    "from": "text",
    "to": "text",
    "port": "text",
    "converged_after_ns": "integer",
    "lost_probes": "integer",
}
_EVENTS: dict[str, Kind] = {"seq": "integer", "t_s": "float", "wall": "text", "kind": "text"}
"""The columns that all events have."""


class Results:
    """A run's results folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`: versions, seed, hashes and age of inputs, driver, host."""
        return self._document("manifest.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """`summary.json`."""
        return self._document("summary.json")

    @property
    def finished(self) -> bool:
        """Whether the run was completed."""
        return (self.folder / "summary.json").is_file()

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.manifest["seed"])

    @property
    def trustworthy(self) -> bool:
        """Whether the emulator kept up, so that the figures are those of the scenario and not limits of the machine."""
        return bool(self.summary["verdict"]["trustworthy"])

    @property
    def reasons(self) -> list[str]:
        """The reasons why the run is not trustworthy."""
        return list(self.summary["verdict"]["reasons"])

    @property
    def failed(self) -> bool:
        """Whether software in the lab failed: exit codes, signals, containers, daemons, tools without a result. Independent
        of `trustworthy`."""
        return bool(self.summary.get("software", {}).get("failed", False))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The failures: `node`, `flow` if it is a flow's, `reason`."""
        return list(self.summary.get("software", {}).get("failures", []))

    @property
    def flows(self) -> Frame:
        """A row for each flow: its results, and whether it was affected by the emulator. The columns are those of `constel
        results RUN --csv`."""
        summary = self.summary
        run = {
            "run": self.folder.resolve().name,
            "seed": summary["seed"],
            "run_trustworthy": self.trustworthy,
            "run_failed": self.failed,
        }
        return Frame.of_rows(_FLOWS, [{**run, **_flow_row(flow)} for flow in summary["flows"]])

    def flow(self, name: str) -> Frame:
        """A flow's samples: `t_s, rtt_us, owd_us, owd_back_us, throughput_bps, fate, path, marked`."""
        path = self.folder / "flows" / f"{name}.csv"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.csv"))) or "none"
            raise UsageError(f"no flow called {name!r} has samples in {self.folder}: {known}")
        return _csv(path, _FLOW)

    def has_series(self, flow: str) -> bool:
        """Whether a flow has samples; flows of `http` and `run` have none."""
        return (self.folder / "flows" / f"{flow}.csv").is_file()

    def output(self, flow: str) -> str:
        """The output of a flow's tool."""
        return (self.folder / "flows" / f"{flow}.out").read_text(encoding="utf-8", errors="replace")

    @property
    def paths(self) -> Frame:
        """`t_s, flow, path, path_rtt_us, shortest_rtt_us`: round-trip times of flows' paths by geometry."""
        return _csv(self.folder / "paths.csv", _PATHS)

    @property
    def handovers(self) -> Frame:
        """`t_s, station, from, to, port, converged_after_ns, lost_probes`: all handovers of the run. The last two are missing
        for a run that did not finish, and for handovers beyond the first 10,000, which the summary leaves out."""
        counted: dict[tuple[Any, ...], dict[str, Any]] = {}
        if self.finished:
            counted = {_handover_key(row): row for row in self.summary["handovers"]}
        rows = [row for row in self._events() if row["kind"] == "handover" and row.get("t_ns") is not None]
        whole = [{**row, **counted.get(_handover_key(row), {}), "t_s": row["t_ns"] / 1e9} for row in rows]
        return Frame.of_rows(_HANDOVERS, whole)

    @property
    def events(self) -> Frame:
        """All events: `seq, t_s, wall, kind`, then a column for each field of any event, in the order of their first events. An
        event without the field has no value. A list of names is a text with spaces between them; other nested values are JSON,
        apart from mappings, whose fields have columns of their own (`effects_loss`)."""
        rows = []
        for event in self._events():
            t_ns = event.pop("t_ns", None)
            row = {name: event.pop(name) for name in ("seq", "wall", "kind")}
            rows.append({**row, "t_s": None if t_ns is None else t_ns / 1e9, **_flat(event)})
        names = dict.fromkeys(name for row in rows for name in row if name not in _EVENTS)
        head = {name: (kind, [row[name] for row in rows]) for name, kind in _EVENTS.items()}
        return Frame.of({**head, **{name: column_of([row.get(name) for row in rows]) for name in names}})

    @property
    def host(self) -> Frame:
        """A row per second: processor, memory, nodes built, daemons started, nodes converged."""
        return _csv(self.folder / "series.csv", {})

    def interfaces(self, nodes: Sequence[str] | None = None) -> Frame:
        """Interfaces' counters (`sample` of the scenario, or `profile_hz`): `t_s, node, port, rx_packets, tx_packets,
        rx_bytes, tx_bytes, rx_dropped, tx_dropped`, those that were requested, a row for each interface and instant; of all
        nodes, or of these."""
        folder = self.folder / "interfaces"
        if not folder.is_dir():
            raise UsageError(f"{self.folder} has no counters of interfaces: run with profile_hz, or with `sample` in the scenario")
        return Frame(_native.interfaces(folder, None if nodes is None else list(nodes)))

    def edges(self, nodes: Sequence[str] | None = None) -> Frame:
        """Edges' queues and counters (`sample` of the scenario): `t_s, from_node, from_port, to_node, to_port`, then the
        requested metrics. An edge has a row when any value other than the delay differs from its row before, so its last row
        has its final counters. The table has all edges, or the edges that leave these nodes."""
        folder = self.folder / "edges"
        if not folder.is_dir():
            raise UsageError(f"{self.folder} has no samples of edges: run with `sample` in the scenario")
        return Frame(_native.edges(folder, None if nodes is None else list(nodes)))

    def usage(self, nodes: Sequence[str] | None = None) -> Frame:
        """Resources that nodes use (`sample` of the scenario): `t_s, node, cpu_ns, memory_bytes, read_bytes, written_bytes,
        processes`, those that were requested and that the host counts, a row for each node and instant. Containers and nodes
        with `limits` are counted, others are not; the table has all of these, or these nodes."""
        folder = self.folder / "usage"
        if not folder.is_dir():
            raise UsageError(
                f"{self.folder} has no samples of used resources: run with `sample` in the scenario; "
                "containers and nodes with `limits` are counted"
            )
        return Frame(_native.usage(folder, None if nodes is None else list(nodes)))

    def _events(self) -> Iterator[dict[str, Any]]:
        with open(self.folder / "events.ndjson", encoding="utf-8") as lines:
            for line in lines:
                # The last line of a killed run may be incomplete.
                if line.endswith("\n"):
                    row: dict[str, Any] = json.loads(line)
                    yield row

    def _document(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{path} is not there: the run did not come to its end") from None
        return document

    def __repr__(self) -> str:
        return f"<Results {self.folder}>"


def read_results(path: str | Path) -> Results:
    """Returns the results folder of a run.

    Raises `UsageError` if it is not one.
    """
    folder = Path(path)
    if not (folder / "manifest.json").is_file():
        raise UsageError(f"{folder} has no manifest.json, so it is no run's results folder")
    return Results(folder)


def read_runs(path: str | Path) -> list[Results]:
    """Returns the runs in a folder, sorted by name; other content is ignored."""
    return [Results(folder) for folder in sorted(Path(path).iterdir()) if (folder / "manifest.json").is_file()]


def _flow_row(flow: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of a flow from its row in a summary."""
    row = {**flow, "flow": flow["name"], "at_s": flow["at_ns"] / 1e9, "paths": len(flow.get("paths", []))}
    for name in ("rtt", "owd", "owd_back", "path_rtt", "bound_rtt"):
        for which, value in (flow.get(name) or {}).items():
            row[f"{name}_{which.removesuffix('_ns')}_us"] = None if value is None else value / 1e3
    return row


def _handover_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["t_ns"], row["station"], row.get("port"), row["from"], row["to"]


def _flat(values: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Returns nested mappings as one, with `_` between the names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_flat(value, f"{head}{name}_") if isinstance(value, dict) else {head + name: value})
    return flat


def _csv(path: Path, kinds: Mapping[str, Kind]) -> Frame:
    """Reads a CSV file with a header; an unknown column is numeric if all its cells are numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        return _table(list(csv.reader(file)), kinds, str(path))


def _table(rows: list[list[str]], kinds: Mapping[str, Kind], path: str) -> Frame:
    if not rows:
        raise UsageError(f"{path} is empty")
    head, *body = rows
    # The last line of a killed run may be incomplete.
    if body and len(body[-1]) != len(head):
        body.pop()
    columns: dict[str, tuple[Kind, list[Any]]] = {}
    for place, name in enumerate(head):
        cells = [row[place] for row in body]
        columns[name] = _typed(cells, kinds[name]) if name in kinds else _guessed(cells)
    return Frame.of(columns)


def _typed(cells: list[str], kind: Kind) -> tuple[Kind, list[Any]]:
    reads: dict[Kind, Callable[[str], Any]] = {"integer": int, "float": float, "text": str, "bool": lambda cell: cell == "true"}
    read = reads[kind]
    return kind, [read(cell) if cell else None for cell in cells]


def _guessed(cells: list[str]) -> tuple[Kind, list[Any]]:
    try:
        return _typed(cells, "float")
    except ValueError:
        return _typed(cells, "text")
