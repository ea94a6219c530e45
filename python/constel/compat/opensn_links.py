"""The links of a lab as a script of OpenSN wants them, between its calls and the lab's steps. No lab is needed for it."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..errors import UsageError
from ..policy import Decision, State
from .opensn_types import TYPE_SATELLITE, elements

Pair = tuple[str, str]
"""The nodes at the ends of a link; a station comes before a satellite."""

_LIGHT_M_US = 299.792458


class Links:
    """Present and wanted links. `decide` is called by the thread of a live policy, everything else by the script.

    `types`: OpenSN's type of each node. `networks`: ports of networks, `NODE/PORT`.
    """

    def __init__(self, types: Mapping[str, str], networks: set[str]) -> None:
        self._types = types
        self._networks = networks
        self._changed = threading.Condition()
        self._state: State | None = None
        self._before: State | None = None
        self._at = datetime.min
        self._live: dict[Pair, Mapping[str, Any]] = {}
        self._ports: dict[Pair, str] = {}
        self._near: dict[str, list[Pair]] | None = None
        self._wanted: dict[str, list[str]] = {}
        # Lasers and cables that do not exist for the script, and links of any kind that exist and are down.
        self._removed: set[Pair] = set()
        self._cut: set[Pair] = set()
        self._switched: set[Pair] = set()
        self._due_stations: set[str] = set()
        self._due_links: set[Pair] = set()

    def decide(self, state: State) -> Decision:
        """Returns all changes since the last state. After the first one stations keep the satellites that they have."""
        with self._changed:
            if self._state is None:
                self._wanted = {own["station"]: list(own["serving"]) for own in state.stations}
                self._due_stations = set(self._wanted)
            elif state.late > self._state.late:
                # The lab did not use an answer.
                self._due_stations, self._due_links = set(self._wanted), set(self._switched)
            self._before, self._state = self._state, state
            # Scripts compute with the local time as if it were UTC.
            self._at = datetime.now()
            live: dict[Pair, Mapping[str, Any]] = {}
            for edge in state.edges:
                self._ports[edge["from"], edge["to"]] = edge["port"]
                live.setdefault(self.pair(edge["from"], edge["to"]), edge)
            off = self._removed | self._cut
            decision = Decision(
                {at: [to for to in self._wanted[at] if (at, to) not in off] for at in self._due_stations},
                {pair: pair not in off for pair in self._due_links},
            )
            self._live, self._near = live, None
            self._due_stations, self._due_links = set(), set()
            self._changed.notify_all()
            return decision

    def wait(self, within_s: float) -> bool:
        """Waits for two states, which the motion of satellites needs; returns whether they came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._before is not None, within_s)

    def pair(self, a: str, b: str) -> Pair:
        """Returns two nodes in the order of a link's ends."""
        return (a, b) if (a not in self._wanted, a) < (b not in self._wanted, b) else (b, a)

    def of(self, name: str) -> list[Pair]:
        """Returns the links of a node: ground links as they are wanted, others as they exist."""
        with self._changed:
            if self._near is None:
                pairs = {pair for pair in {*self._live, *self._cut} - self._removed if not self.is_ground(pair)}
                pairs |= {(station, satellite) for station, wanted in self._wanted.items() for satellite in wanted}
                self._near = {node: [] for node in self._types}
                for pair in sorted(pairs):
                    for end in pair:
                        self._near[end].append(pair)
            return list(self._near[name])

    def edge(self, pair: Pair) -> Mapping[str, Any]:
        """Returns the edge from one end of a link in the step in force; empty for a link that is down."""
        return self._live.get(pair, {})

    def port(self, node: str, other: str) -> str | None:
        """Returns the port of a node that leads, or led, to another."""
        return self._ports.get((node, other))

    def is_ground(self, pair: Pair) -> bool:
        """Whether a link is one between a station and a satellite."""
        return pair[0] in self._wanted and self._types[pair[1]] == TYPE_SATELLITE

    def is_cut(self, pair: Pair) -> bool:
        """Whether the script has set `connect` of the link to 0."""
        return pair in self._cut

    def enable(self, pair: Pair) -> bool:
        """Switches a link on; returns false for a laser or cable that the scenario or the orbits do not allow now."""
        with self._changed:
            ground = self.is_ground(pair)
            if not ground and pair not in self._live and pair not in self._removed | self._cut:
                return False
            if ground:
                station, satellite = pair
                # The first satellites are used if there are more than antennas.
                self._wanted[station] = [satellite, *(other for other in self._wanted[station] if other != satellite)]
            self._switch(pair, cut=False, removed=False)
            return True

    def disable(self, pair: Pair) -> None:
        """Removes a link. Raises as `cut`."""
        with self._changed:
            self._switch(pair, cut=False, removed=not self.is_ground(pair))
            if self.is_ground(pair):
                self._wanted[pair[0]].remove(pair[1])

    def cut(self, pair: Pair, down: bool) -> None:
        """Sets a link down or up; it stays in the list.

        Raises `UsageError` for a link of a network.
        """
        with self._changed:
            if down != self.is_cut(pair):
                self._switch(pair, cut=down, removed=pair in self._removed)

    def place(self, name: str) -> tuple[float, float, float] | None:
        """Returns the position of a node in the step in force, metres, ITRF; `None` for a satellite without one."""
        return None if self._state is None else self._state.positions.get(name)

    def elements(self, name: str) -> tuple[str, str] | None:
        """Returns an element set that has the satellite's present position at the present time of this machine's clock."""
        with self._changed:
            now, before = self._state, self._before
            if now is None or before is None:
                return None
            here, there = now.positions.get(name), before.positions.get(name)
            if here is None or there is None:
                return None
            return elements(list(self._types).index(name) + 1, self._at, here, there, now.t_s - before.t_s)

    def orbit_us(self, pair: Pair, *, by_hand: bool) -> float | None:
        """Returns the delay of a link by the orbits, microseconds; `by_hand`: the present one was set."""
        if not by_hand and (edge := self.edge(pair)):
            return float(edge["delay_ns"]) / 1e3
        a, b = self.place(pair[0]), self.place(pair[1])
        return None if a is None or b is None else math.dist(a, b) / _LIGHT_M_US

    def _switch(self, pair: Pair, *, cut: bool, removed: bool) -> None:
        edge = self.edge(pair)
        if edge and f"{edge['from']}/{edge['port']}" in self._networks:
            raise UsageError(f"{' and '.join(pair)} are linked by a network: `Lab.network(NAME).leave(NODE)` removes a member")
        for holds, pairs in ((cut, self._cut), (removed, self._removed)):
            (pairs.add if holds else pairs.discard)(pair)
        if self.is_ground(pair):
            self._due_stations.add(pair[0])
        else:
            self._due_links.add(pair)
            self._switched.add(pair)
        self._near = None
