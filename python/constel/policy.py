"""Live policies: a function that decides links, attachments and routes of a running lab, step by step.

The lab sends the state before each step, and goes on without an answer when its time has passed. `constel.gsl_policy` and the other
rules decide before a run instead, and need no bound of time.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from ._time import Span, seconds_of
from .errors import LabDied, LabRefused, UsageError
from .rules import RuleFailed

if TYPE_CHECKING:
    from .lab import Lab

PARTS = ("positions", "stations", "edges")
"""The parts of a state. A policy that needs fewer gets its states sooner."""


@dataclass(frozen=True)
class State:
    """The state before a step, for which a decision is due."""

    step: int
    t_s: float
    """The lab time at which the step begins."""
    late: int
    """Answers of this policy that were too late so far."""
    refused: int
    """Answers of this policy that were refused so far."""
    positions: Mapping[str, tuple[float, float, float] | None] = field(default_factory=dict)
    """ITRF positions in the step in force, metres, by node."""
    stations: Sequence[Mapping[str, Any]] = ()
    """`station, serving, candidates`; a candidate has `satellite, range_m, elevation_deg, remaining_s, links`."""
    edges: Sequence[Mapping[str, Any]] = ()
    """`from, port, to, delay_ns, rate_bps, queue_bytes, delivered_bytes, carried_bps, dropped_frames`: both directions of every
    link of the step in force. `carried_bps` is the throughput since the state before."""


@dataclass(frozen=True)
class Decision:
    """The answer to a state. Objects that are not named stay as they were decided before."""

    attachments: Mapping[str, str | Sequence[str] | None] = field(default_factory=dict)
    """The satellites of stations, the most wanted first; none or `None`: no link."""
    links: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Lasers and cables by the nodes at their ends: on or off."""
    routes: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """By node and destination, the neighbour that receives the packets; `None`: they are dropped. Only in a scenario with
    `routing: {choices: FILE}`, whose file has no row below its header."""


Decide = Callable[[State], Decision | None]
"""A policy: returns a decision, or `None` to change nothing."""


class LivePolicy:
    """A policy with its settings; `join` starts it in a thread of its own."""

    def __init__(
        self,
        decide: Decide,
        *,
        name: str | None = None,
        within: Span | None = None,
        wants: Iterable[str] = PARTS,
    ) -> None:
        self.decide = decide
        self.name = name or str(getattr(decide, "__name__", "policy"))
        self.steps = 0
        """The number of states that were answered."""
        self._within_ns = None if within is None else round(seconds_of(within) * 1e9)
        self._wants = list(wants)
        if unknown := [part for part in self._wants if part not in PARTS]:
            raise UsageError(f"{unknown[0]!r} is no part of a state: {', '.join(PARTS)}")
        self._thread: threading.Thread | None = None
        self._wire: socket.socket | None = None
        self._leaving = threading.Lock()
        self._left = False
        self._failure: Exception | None = None

    @property
    def joined(self) -> bool:
        """Whether it has joined a lab."""
        return self._thread is not None

    @property
    def decides(self) -> bool:
        """Whether it decides for a lab at present."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, lab: Lab) -> None:
        """Lets the policy decide for a lab from its next step on.

        Raises `LabRefused`: another policy decides, `within` is more than half a step, or the lab is coming up (`coming-up`).
        """
        if self._thread is not None:
            raise UsageError(f"policy `{self.name}` decides for a lab already")
        request: dict[str, Any] = {"verb": "policy", "name": self.name, "wants": self._wants}
        if self._within_ns is not None:
            request["within_ns"] = self._within_ns
        wire = lab._connected(60.0)
        try:
            lines = lab._sent(wire, request)
            joined = _data(lab.name, lines.readline())
        except BaseException:
            wire.close()
            raise
        # A step may be as long as the lab.
        wire.settimeout(None)
        self._wire = wire
        self._thread = threading.Thread(target=self._run, args=(wire, lines, joined), name=self.name, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Ends the policy on purpose: its last decisions hold, and the run stays trustworthy.

        Raises `RuleFailed` if the function failed, or the lab refused a decision.
        """
        with self._leaving:
            if self._wire is not None and not self._left:
                self._left = True
                with contextlib.suppress(OSError):
                    _send(self._wire, {"step": 0, "leave": True})
                    self._wire.shutdown(socket.SHUT_WR)
        self.wait()

    def wait(self) -> None:
        """Waits until the policy has ended: with the lab, by `leave`, or by a failure.

        Raises as `leave`.
        """
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, wire: socket.socket, lines: IO[bytes], joined: Mapping[str, Any]) -> None:
        t_s = math.nan
        try:
            with wire, lines:
                for line in lines:
                    answer = json.loads(line)
                    if not answer["ok"]:
                        raise LabRefused(answer["error"], answer.get("code", "failed"), answer.get("nearest"))
                    state = _state(answer["data"], joined["nodes"])
                    t_s = state.t_s
                    decision = self.decide(state) or Decision()
                    with self._leaving:
                        if self._left:
                            return
                        _send(wire, {"step": state.step, **_answer(decision)})
                    self.steps += 1
        except OSError:
            # The lab has ended.
            return
        except Exception as error:
            self._failure = RuleFailed(self.name, t_s, f"{type(error).__name__}: {error}")
            self._failure.__cause__ = error


def _data(lab: str, line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise LabDied(f"lab '{lab}' stopped answering")
    answer = json.loads(line)
    if not answer["ok"]:
        raise LabRefused(answer["error"], answer.get("code", "failed"), answer.get("nearest"))
    data: dict[str, Any] = answer["data"]
    return data


def _send(wire: socket.socket, answer: Mapping[str, Any]) -> None:
    wire.sendall(json.dumps(answer).encode() + b"\n")


def _state(data: Mapping[str, Any], nodes: Sequence[str]) -> State:
    positions = data.get("positions_m") or ()
    placed = (None if at is None else (at[0], at[1], at[2]) for at in positions)
    return State(
        step=data["step"],
        t_s=data["t_ns"] / 1e9,
        late=data["late"],
        refused=data["refused"],
        positions=dict(zip(nodes, placed)),
        stations=data.get("stations") or (),
        edges=data.get("edges") or (),
    )


def _answer(decision: Decision) -> dict[str, Any]:
    """Returns a decision in the lab's form.

    Raises `TypeError` for another value.
    """
    if not isinstance(decision, Decision):
        raise TypeError(f"a policy returns a constel.Decision or None, not {type(decision).__name__}")

    def satellites(wanted: str | Sequence[str] | None) -> list[str]:
        if wanted is None:
            return []
        return [wanted] if isinstance(wanted, str) else list(wanted)

    return {
        "attachments": {station: satellites(wanted) for station, wanted in decision.attachments.items()},
        "links": [{"a": a, "b": b, "up": up} for (a, b), up in decision.links.items()],
        "routes": [
            {"node": node, "destination": to, "next": next} for (node, to), next in decision.routes.items()
        ],
    }
