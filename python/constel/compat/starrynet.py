"""StarryNet's Python class over Constel: its scripts run with Constel's physics.

    python -m constel.compat.starrynet example.py      a script as it is; its imports of `starrynet` lead here
    from constel.compat.starrynet import StarryNet     in a script of your own

Results differ from StarryNet's where its physics or its clock is inaccurate; `StarryNet.differences` lists the differences,
which are printed when a network is made. The host is left as it was, and only this lab is changed.
"""

from __future__ import annotations

import json
import math
import os
import random
import runpy
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._binary import find_binary
from ..errors import ConstelError, ScenarioError, UsageError
from ..lab import OwnLab
from ..results import Results
from ..scenario import Plan, Scenario
from ._script import main

__all__ = ["StarryNet"]

_EPOCH = "2022-01-01T01:00:00Z"
"""The start of StarryNet's emulations."""
_PINGS = ("-c", "4", "-i", "0.01")
_PERF_S = 5
_SLACK_S = 60.0
"""The maximum time for programs to end after the lab, which ends them."""

_ALWAYS = (
    "delays are true distances at the speed of light, and glide; StarryNet divides by 0.587 c (1.70 times too long), and changes"
    " delays in steps of `update_time`",
    "time index t is lab time t s, from the moment at which routes stand; StarryNet waits 120 s, and falls behind where an update"
    " takes longer than a second",
    "satellites are a Walker pattern at lab time zero; StarryNet propagates elements that are two years old, so that other satellites"
    " are overhead",
    "rate and loss hold for every link at all times; StarryNet's ground links lose theirs at a handover, and loss ends with the"
    " first update",
    "a node has one address of its own beside those of its links, in private blocks; StarryNet takes public ones (9.0.0.0/8)",
    "a laser to the next plane leads to the satellite nearest in phase; StarryNet's to the one of the same number, also from the last"
    " plane to the first",
    "damage takes distinct satellites, chosen by the scenario's seed; StarryNet may draw one twice",
    "get_distance is the straight line between any two nodes; StarryNet has 0 for those that are not linked",
    "nothing is made before start_emulation, and afterwards nothing is left; StarryNet removes every container of the machine",
)


@dataclass(frozen=True)
class _Deed:
    """An action that is done while the lab runs."""

    at_s: float
    order: int
    node: int
    file: str | None
    """The file for its output."""
    what: Callable[[OwnLab], Sequence[str]]
    """Returns the command, when the lab is up."""


class StarryNet:
    """StarryNet's class: nodes are numbered from 1, satellites plane by plane, then the ground stations.

    `configuration_file_path`: StarryNet's `config.json`. `GS_lat_long`: latitude and longitude of stations, degrees.
    `hello_interval`: of OSPF, seconds. `AS`: `[[1, n]]`, one autonomous system; others are refused. Outputs are written as by
    StarryNet, to a folder beside the configuration.

    Raises `ScenarioError` for an invalid configuration, `UsageError` for functions without a counterpart.
    """

    def __init__(
        self,
        configuration_file_path: str | Path,
        GS_lat_long: Sequence[Sequence[float]],
        hello_interval: int = 10,
        AS: Sequence[Sequence[int]] = (),
    ) -> None:
        config = Path(configuration_file_path)
        table = _table(config)
        self.orbit_number, self.sat_number = int(table["# of orbit"]), int(table["# of satellites"])
        self.constellation_size = self.orbit_number * self.sat_number
        self.fac_num = len(GS_lat_long)
        self.node_size = self.constellation_size + self.fac_num
        if [list(of) for of in AS] not in ([], [[1, self.node_size]]):
            raise UsageError(f"AS={list(AS)}: one autonomous system of all nodes, [[1, {self.node_size}]], is what there is")
        self.hello_interval = hello_interval
        self.scenario, notes = _scenario(config, table, GS_lat_long, hello_interval)
        self.duration = self.scenario.duration_s
        words = ("Name", "# of orbit", "# of satellites", "Altitude (km)", "Inclination", "Satellite link", "Link policy")
        self.file_path = "-".join(str(table[word]) for word in words if word in table)
        self.folder = config.resolve().parent / self.file_path
        """The folder for outputs."""
        names = self.scenario.nodes
        self.nodes = names[: self.constellation_size] + [_station(self.constellation_size + 1 + n) for n in range(self.fac_num)]
        """Constel's names of nodes 1, 2, ..."""
        self.differences = [*_ALWAYS, *notes, *self._blocked()]
        """The differences from StarryNet's results, with reasons."""
        self._routing = False
        self._deeds: list[_Deed] = []
        self._damages: list[tuple[float, list[str]]] = []
        self._recoveries: list[float] = []
        self._plans: dict[float, Plan] = {}
        self._addresses: dict[str, str] = {}
        self._lab: OwnLab | None = None
        self.results: Results | None = None
        """The results of the emulation, after its end."""
        for line in self.differences:
            _say(f"unlike StarryNet: {line}")

    def create_nodes(self) -> None:
        """Does nothing: nodes are made when the emulation starts."""
        _say(f"{self.node_size} nodes will be made.")

    def create_links(self) -> None:
        """Does nothing: links are made when the emulation starts."""
        _say("Links will be made.")

    def run_routing_deamon(self) -> None:
        """Runs BIRD with OSPF in every node of the emulation; without this call there are no routes."""
        self._routing = True

    run_routing_daemon = run_routing_deamon

    def get_distance(self, sat1_index: int, sat2_index: int, time_index: float) -> float:
        """Returns the distance of two nodes in kilometres."""
        a, b = (self._place(index, time_index) for index in (sat1_index, sat2_index))
        return math.dist(a, b) / 1e3

    def get_neighbors(self, sat_index: int, time_index: float) -> list[int]:
        """Returns the satellites that a node is linked to."""
        return [index for index in self._linked(sat_index, time_index) if index <= self.constellation_size]

    def get_GSes(self, sat_index: int, time_index: float) -> list[int]:
        """Returns the ground stations that a node is linked to."""
        return [index for index in self._linked(sat_index, time_index) if index > self.constellation_size]

    def get_position(self, sat_index: int, time_index: float) -> str:
        """Returns `latitude,longitude,height`: degrees and kilometres, WGS84."""
        return "%f,%f,%f\n" % _geodetic(*self._place(sat_index, time_index))

    def get_IP(self, sat_index: int) -> list[str]:
        """Returns the addresses of a node. Addresses do not depend on time; before the emulation the lab is started once to
        read them."""
        name = self._name(sat_index)
        if not self._addresses:
            with self._scenario().run(name=f"{self._lab_name()}-ip", results=self._fresh(), traffic=False) as lab:
                self._addresses = {node["name"]: node["ipv4"] for node in lab.show()["node_list"]}
        return [self._addresses[name]]

    def get_utility(self, time_index: float) -> None:
        """Requests `vmstat` of this machine: `utility-info_TIME.txt`."""
        self._do(time_index, 0, 1, f"utility-info_{time_index}.txt", lambda lab: ["vmstat"])

    def set_damage(self, damaging_ratio: float, time_index: float) -> None:
        """Removes all links of this share of the satellites."""
        if not 0 <= damaging_ratio <= 1:
            raise UsageError(f"{damaging_ratio} is no share between 0 and 1")
        chance = random.Random(f"{self.scenario.seed} {time_index}")
        hit = chance.sample(self.nodes[: self.constellation_size], int(self.constellation_size * damaging_ratio))
        self._damages.append((self._within(time_index), sorted(hit)))

    def set_recovery(self, time_index: float) -> None:
        """Restores the links of all damaged satellites."""
        self._recoveries.append(self._within(time_index))

    def check_routing_table(self, sat_index: int, time_index: float) -> None:
        """Requests the kernel's routes: `route-NODE_TIME.txt`."""
        self._do(time_index, 4, sat_index, f"route-{sat_index}_{time_index}.txt", lambda lab: ["ip", "-4", "route"])

    def set_next_hop(self, sat_index: int, des: int, next_hop_sat: int, time_index: float) -> None:
        """Sends a node's packets for `des` to a neighbour from then on."""
        here, there, over = (self._name(index) for index in (sat_index, des, next_hop_sat))

        def command(lab: OwnLab) -> Sequence[str]:
            for route in lab.routes(here).rows():
                if route["via"] == over and route["gateway"] is not None and "." in route["gateway"]:
                    way = ["via", route["gateway"], "dev", route["port"], "onlink"]
                    return ["ip", "-4", "route", "replace", f"{lab[there].ipv4}/32", *way]
            raise UsageError(f"set_next_hop: node {next_hop_sat} is no next hop of node {sat_index} at {time_index} s")

        self._do(time_index, 2, sat_index, None, command)

    def set_ping(self, sat1_index: int, sat2_index: int, time_index: float) -> None:
        """Sends four echo requests, 10 ms apart: `ping-A-B_TIME.txt`."""
        there = self._name(sat2_index)
        file = f"ping-{sat1_index}-{sat2_index}_{time_index}.txt"
        self._do(time_index, 3, sat1_index, file, lambda lab: ["ping", lab[there].ipv4, *_PINGS])

    def set_perf(self, sat1_index: int, sat2_index: int, time_index: float) -> None:
        """Runs iperf3 over TCP for five seconds: `perf-A-B_TIME.txt`."""
        there, port = self._name(sat2_index), 5201 + len(self._deeds)
        file = f"perf-{sat1_index}-{sat2_index}_{time_index}.txt"
        serve = f"iperf3 -s -1 -D -p {port} >/dev/null"

        def command(lab: OwnLab) -> Sequence[str]:
            lab[there].exec(serve)
            return ["iperf3", "-c", lab[there].ipv4, "-t", str(_PERF_S), "-p", str(port)]

        self._do(time_index, 5, sat1_index, file, command)

    def start_emulation(self) -> None:
        """Runs the lab from beginning to end. Needs root."""
        if self.results is not None:
            raise UsageError("the emulation is over: make another StarryNet")
        self.folder.mkdir(exist_ok=True)
        started: list[subprocess.Popen[Any]] = []
        with self._scenario().run(name=self._lab_name(), results=self._fresh()) as lab:
            self._lab = lab
            for deed in sorted(self._deeds, key=lambda deed: (deed.at_s, deed.order)):
                lab.sleep_until(f"{round(deed.at_s * 1e9)} ns")
                _say(f"Emulation in No.{deed.at_s:g} second.")
                started += self._start(lab, deed)
            self.results = lab.wait()
            for process in started:
                process.wait(_SLACK_S)
        if self.results.failed:
            _say(f"FAILED: {'; '.join(failure['reason'] for failure in self.results.failures)}")
        if not self.results.trustworthy:
            _say(f"NOT trustworthy: {'; '.join(self.results.reasons)}")

    def stop_emulation(self) -> None:
        """Stops the lab if it still runs."""
        if self._lab is not None and self.results is None:
            self._lab.abandon()

    clean = stop_emulation

    def _start(self, lab: OwnLab, deed: _Deed) -> list[subprocess.Popen[Any]]:
        node, command = lab[self._name(deed.node)], list(deed.what(lab))
        if deed.file is None:
            node.exec(command)
            return []
        with open(self.folder / deed.file, "w", encoding="utf-8") as out:
            return [node.popen(command, stdout=out, stderr=subprocess.STDOUT)]

    def _scenario(self) -> Scenario:
        failures = []
        for number, (at_s, hit) in enumerate(self._damages):
            until = min((t for t in self._recoveries if t > at_s), default=None)
            lasts = {} if until is None else {"for": _ns(until - at_s)}
            if hit:
                failures.append({"name": f"damage-{number}", "at": _ns(at_s), **lasts, "nodes": hit})
        changed: dict[str, Any] = {"failures": failures} if failures else {}
        if not self._routing:
            changed["routing"] = {"mode": "none", "families": self.scenario.to_dict()["routing"]["families"]}
        return self.scenario.replace(changed)

    def _do(self, time_index: float, order: int, node: int, file: str | None, what: Callable[[OwnLab], Sequence[str]]) -> None:
        self._name(node)
        self._deeds.append(_Deed(self._within(time_index), order, node, file, what))

    def _within(self, time_index: float) -> float:
        if not 0 <= time_index < self.duration:
            raise UsageError(f"time index {time_index} is not within the emulation's {self.duration:g} s")
        return float(time_index)

    def _name(self, index: int) -> str:
        if not 1 <= index <= self.node_size:
            raise UsageError(f"there is no node {index}: they are 1 to {self.node_size}")
        return self.nodes[index - 1]

    def _plan(self, time_index: float) -> Plan:
        at_s = self._within(time_index)
        if at_s not in self._plans:
            self._plans[at_s] = self.scenario.plan(_ns(at_s))
        return self._plans[at_s]

    def _place(self, index: int, time_index: float) -> tuple[float, float, float]:
        name = self._name(index)
        row = next(row for row in self._plan(time_index).nodes.rows() if row["node"] == name)
        return row["x_m"], row["y_m"], row["z_m"]

    def _linked(self, index: int, time_index: float) -> list[int]:
        name = self._name(index)
        ends = {row["to_node"] for row in self._plan(time_index).edges.rows() if row["from_node"] == name}
        return [place + 1 for place, other in enumerate(self.nodes) if other in ends]

    def _blocked(self) -> list[str]:
        grid = 2 * self.constellation_size
        up = sum(row["kind"] == "isl" for row in self.scenario.plan().edges.rows()) // 2
        if up == grid:
            return []
        return [
            f"{grid - up} of the {grid} lasers of StarryNet's grid are no links at 0 s: the Earth or its lowest 80 km of air is between"
            " their ends (`constel link` says of each why)"
        ]

    def _lab_name(self) -> str:
        return f"{self.scenario.name}-{os.getpid()}"

    def _fresh(self) -> Path:
        """Returns the path of a new results folder."""
        parent = self.folder / "results"
        parent.mkdir(parents=True, exist_ok=True)
        return parent / f"run-{len(list(parent.iterdir()))}"


def _table(config: Path) -> dict[str, Any]:
    try:
        table = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{config}: {error}") from None
    if not isinstance(table, dict) or "# of orbit" not in table or "# of satellites" not in table:
        raise UsageError(f"{config} has no `# of orbit` and `# of satellites`: it is no configuration of StarryNet's release")
    return table


def _scenario(
    config: Path, table: dict[str, Any], stations: Sequence[Sequence[float]], hello: int
) -> tuple[Scenario, list[str]]:
    """Returns the configuration as a scenario, and the importer's warnings."""
    done = subprocess.run([find_binary(), "import", str(config)], capture_output=True, text=True)
    if done.returncode == ScenarioError.exit:
        raise ScenarioError(done.stderr.strip())
    if done.returncode:
        raise ConstelError(done.stderr.strip())
    said = [line.removeprefix("constel: note: ") for line in done.stderr.splitlines() if line.startswith("constel: note: phase")]
    scenario = Scenario.from_text(done.stdout, config.resolve().parent, str(config))
    first = len(scenario.nodes) + 1
    antennas, seconds = int(table.get("antenna number", 1)), float(table.get("Duration (s)", scenario.duration_s))
    ground = {
        _station(first + place): {"latitude": f"{latitude} deg", "longitude": f"{longitude} deg", "antennas": antennas}
        for place, (latitude, longitude) in enumerate(stations)
    }
    settings: dict[str, Any] = {"start": _EPOCH, "step": "1 s", "duration": f"{seconds:g} s", "ground": {"stations": ground}}
    if "daemon" in scenario.to_dict()["routing"]:
        settings["routing.ospf"] = {"hello": f"{hello} s", "dead": f"{4 * hello} s"}
    return scenario.replace(settings), said


def _station(index: int) -> str:
    return f"gs-{index:05d}"


def _ns(seconds: float) -> str:
    return f"{round(seconds * 1e9)} ns"


def _geodetic(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Returns latitude and longitude, degrees, and height, kilometres, over WGS84 (Bowring 1976; below a micrometre after
    three iterations)."""
    a, f = 6_378_137.0, 1 / 298.257223563
    e2 = f * (2 - f)
    flat = math.hypot(x, y)
    latitude = math.atan2(z, flat * (1 - e2))
    for _ in range(6):
        n = a / math.sqrt(1 - e2 * math.sin(latitude) ** 2)
        latitude = math.atan2(z + e2 * n * math.sin(latitude), flat)
    n = a / math.sqrt(1 - e2 * math.sin(latitude) ** 2)
    # Accurate at the poles too, unlike the usual quotient by the cosine.
    height = flat * math.cos(latitude) + z * math.sin(latitude) - a * a / n
    return math.degrees(latitude), math.degrees(math.atan2(y, x)), height / 1e3


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_script(script: str | Path) -> None:
    """Runs a script of StarryNet; its imports of `starrynet` get this module."""
    package = types.ModuleType("starrynet")
    package.__path__ = []
    sys.modules["starrynet"] = package
    for name in ("sn_observer", "sn_orchestrater", "sn_orchestrator", "sn_synchronizer", "sn_utils"):
        module = types.ModuleType(f"starrynet.{name}")
        module.StarryNet = StarryNet  # type: ignore[attr-defined]
        module.__all__ = ["StarryNet"]  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main("starrynet")
