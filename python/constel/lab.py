"""Labs: running scenarios, as objects.

The lab is a process of its own, `constel run`, and is controlled over its socket. It ends with this interpreter, however that
ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ._binary import find_binary
from ._time import Span, seconds_of, text_of
from .errors import (
    CommandFailed,
    ConstelError,
    HostError,
    LabDied,
    LabError,
    LabRefused,
    LabTimeout,
    ScenarioError,
    UsageError,
)
from .frame import Frame, Kind
from .network import Network
from .policy import PARTS, Decide, LivePolicy
from .results import Results, read_results

if TYPE_CHECKING:
    from typing_extensions import Self

    from .scenario import Scenario

_RUNTIME = Path("/run/constel")
_ANSWER_S = 60.0
_LOOK_S = 0.05
"""The interval between two polls of something that does not notify."""


@dataclass(frozen=True)
class Event:
    """An event of a lab (docs/reference/api.schema.json has all kinds)."""

    seq: int
    t_s: float | None
    """Lab time; `None` before the lab's clock starts."""
    wall: str
    kind: str
    data: dict[str, Any]
    """The other fields of the event."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Event:
        """Returns an event from its JSON."""
        data = dict(row)
        seq, wall, kind, t_ns = data.pop("seq"), data.pop("wall"), data.pop("kind"), data.pop("t_ns", None)
        return cls(seq, None if t_ns is None else t_ns / 1e9, wall, kind, data)

    def names(self, node: str) -> bool:
        """Whether the event names a node, by itself or as an end of a link."""
        texts = [item for value in self.data.values() for item in (value if isinstance(value, list) else [value])]
        ends = (f"{node}-", f"-{node}")
        return any(isinstance(t, str) and (t == node or t.startswith(ends[0]) or t.endswith(ends[1])) for t in texts)


@dataclass(frozen=True)
class Completed:
    """A finished command in a node."""

    command: list[str]
    returncode: int
    """The exit code; 128 plus the signal's number if a signal ended the command."""
    stdout: str
    stderr: str


Command = str | Sequence[str]
"""A program with its arguments, or a line for `sh -c`."""


def command_of(command: Command) -> list[str]:
    """Returns a command as a list of arguments."""
    return ["sh", "-c", command] if isinstance(command, str) else [str(argument) for argument in command]


class Node:
    """A node of a lab."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self.name = name

    def argv(self, command: Command) -> list[str]:
        """Returns the command of this host that runs `command` in the node; streams, signals and exit code are passed
        through."""
        return [find_binary(), "exec", self._lab.name, self.name, "--", *command_of(command)]

    def exec(
        self,
        command: Command,
        *,
        input: str | None = None,
        timeout: Span | None = None,
        check: bool = True,
    ) -> Completed:
        """Runs a command and waits for its end.

        Raises `CommandFailed` if its exit code is not 0, unless `check` is false; `LabTimeout` if it takes longer than
        `timeout`, after ending it.
        """
        process = self.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            stdout, stderr = process.communicate(input or "", None if timeout is None else seconds_of(timeout))
        except subprocess.TimeoutExpired:
            _end(process)
            raise LabTimeout(f"{command_of(command)} in {self.name} took longer than {timeout}") from None
        except BaseException:
            _end(process)
            raise
        return completed(self.name, command_of(command), process.returncode, stdout, stderr, check)

    def popen(self, command: Command, **options: Any) -> subprocess.Popen[Any]:
        """Starts a command; options are those of `subprocess.Popen`. `terminate()` also ends the command in the node."""
        self._lab._alive()
        # Ctrl-C must reach only the interpreter, which decides whether its commands end.
        options.setdefault("start_new_session", True)
        return subprocess.Popen(self.argv(command), **options)

    @property
    def ipv4(self) -> str:
        """The node's IPv4 address."""
        return str(self._shown()["ipv4"])

    @property
    def ipv6(self) -> str:
        """The node's IPv6 address."""
        return str(self._shown()["ipv6"])

    def routes(self) -> Frame:
        """Returns the kernel's routes."""
        return self._lab.routes(self.name)

    def put(self, source: str | Path, path: str) -> None:
        """Copies a file or folder of this host into the node."""
        self._lab._call(["cp", self._lab.name, str(source), f"{self.name}:{path}", "--json"])

    def get(self, path: str, target: str | Path) -> None:
        """Copies a file or folder of the node to this host."""
        self._lab._call(["cp", self._lab.name, f"{self.name}:{path}", str(target), "--json"])

    def info_put(self, name: str, content: str | Path) -> dict[str, Any]:
        """Puts a file into the node, as `/run/constel/user/NAME`: a text, or the content of a file of this host (a `Path`)."""
        text = content.read_text(encoding="utf-8") if isinstance(content, Path) else content
        return self._user_file(name, {"text": text})

    def info_remove(self, name: str) -> dict[str, Any]:
        """Removes a file that `info_put` put there."""
        return self._user_file(name, {})

    def info_send(self, data: Any) -> dict[str, Any]:
        """Sends data to the node's programs, as an event of kind `command`: anything that JSON has."""
        answer: dict[str, Any] = self._lab.ask({"verb": "command", "node": self.name, "data": data})
        return answer

    def _user_file(self, name: str, content: Mapping[str, str]) -> dict[str, Any]:
        answer: dict[str, Any] = self._lab.ask({"verb": "user-file", "node": self.name, "name": name, **content})
        return answer

    def logs(self, lines: int = 200) -> str:
        """Returns the last lines of the output of the node's programs: routing daemons, programs of images, Midnodes."""
        return self._lab._text(["logs", self._lab.name, self.name, "--lines", str(lines)])

    def shell(self) -> int:
        """Opens a shell in the node, in this terminal; returns its exit code."""
        self._lab._alive()
        return subprocess.run([find_binary(), "shell", self._lab.name, self.name]).returncode

    def fail(self, *, wait: bool = True) -> dict[str, Any]:
        """Fails all links of the node; its programs go on. Returns when computed routes avoid it, unless `wait` is false."""
        return self._lab.set_nodes("fail", self.name, wait=wait)

    def heal(self) -> dict[str, Any]:
        """Undoes `fail`; `links_from_ns` of the answer is the lab time by which its links work."""
        return self._lab.set_nodes("heal", self.name)

    def stop(self, *, wait: bool = True) -> dict[str, Any]:
        """Kills all processes of the node and fails all its links, as by a loss of power."""
        return self._lab.set_nodes("stop", self.name, wait=wait)

    def start(self) -> dict[str, Any]:
        """Undoes `stop`: the programs of scenario and image start again."""
        return self._lab.set_nodes("start", self.name)

    def restart(self) -> dict[str, Any]:
        """Kills all processes of the node and starts its programs again; links stay."""
        return self._lab.set_nodes("restart", self.name)

    def pause(self) -> dict[str, Any]:
        """Halts all processes of the node; its kernel still forwards and answers pings."""
        return self._lab.set_nodes("pause", self.name)

    def resume(self) -> dict[str, Any]:
        """Undoes `pause`."""
        return self._lab.set_nodes("resume", self.name)

    def remove(self, *, wait: bool = True) -> dict[str, Any]:
        """Takes the node out of the lab: as `stop`, and its flows end."""
        return self._lab.set_nodes("remove", self.name, wait=wait)

    def add(self) -> dict[str, Any]:
        """Undoes `remove`: the node is as when the lab started; `links_from_ns` as for `heal`."""
        return self._lab.set_nodes("add", self.name)

    def attach(self, satellite: str, *, antenna: int | None = None) -> dict[str, Any]:
        """Has an antenna of the station use one satellite, and stay dark while it cannot. `from_ns` of the answer is the lab time
        from which this holds."""
        flags = [] if antenna is None else ["--antenna", str(antenna)]
        return self._lab._station(["attach", self._lab.name, self.name, satellite, *flags])

    def detach(self, *, antenna: int | None = None) -> dict[str, Any]:
        """Keeps an antenna of the station dark, or all of them."""
        flags = [] if antenna is None else ["--antenna", str(antenna)]
        return self._lab._station(["detach", self._lab.name, self.name, *flags])

    def _shown(self) -> dict[str, Any]:
        for node in self._lab.show().get("node_list", []):
            if node["name"] == self.name:
                return dict(node)
        raise LabRefused(f"lab '{self._lab.name}' has no node '{self.name}'", "node-not-found")

    def __repr__(self) -> str:
        return f"<Node {self.name} of {self._lab.name}>"


class Link:
    """A link between two nodes, or all edges that leave a port."""

    def __init__(self, lab: Lab, ends: tuple[str, ...]) -> None:
        self._lab = lab
        self._ends = ends

    def set(self, **effects: Any) -> dict[str, Any]:
        """Changes the given effects in both directions, on top of geometry and scenario; other effects are unchanged.

        The names are the options of `constel link set`: `delay="20 ms"`, `extra_delay`, `rate="10 Mbit/s"`, `queue`,
        `loss="1 %"`, `gilbert_elliott=["1 %", "10 %", "0 %", "50 %"]`, `jitter`, `ecn=True`, `reset=True`... With `for_="5 s"`
        the change ends after that time.
        """
        flags: list[str] = []
        for name, value in effects.items():
            # `for` is a word of Python.
            flag = "--" + name.rstrip("_").replace("_", "-")
            if value is True:
                flags.append(flag)
            elif isinstance(value, (list, tuple)):
                flags += [flag, *map(str, value)]
            elif isinstance(value, str):
                flags.append(f"{flag}={value}")
            elif isinstance(value, int) and value is not False:
                flags.append(f"{flag}={value}")
            else:
                raise UsageError(f"{name}={value!r}: write a text with its unit, a count, True, or a list of such")
        return self._change("set", flags)

    def fail(self, *, wait: bool = True) -> dict[str, Any]:
        """Breaks the link: arriving and queued packets are dropped, those in flight arrive. Returns when computed routes
        avoid the link, unless `wait` is false."""
        return self._change("fail", [] if wait else ["--no-wait"])

    def heal(self, *, wait: bool = True) -> dict[str, Any]:
        """Undoes `fail`."""
        return self._change("heal", [] if wait else ["--no-wait"])

    def reset(self) -> dict[str, Any]:
        """Removes all effects that were set by hand."""
        return self._change("set", ["--reset"])

    def show(self) -> dict[str, Any]:
        """Returns both directions with all effects in force and the link driver's counters."""
        if len(self._ends) != 2:
            raise UsageError(f"{self._ends[0]} is a port: the links that it has now are asked one by one")
        answer: dict[str, Any] = self._lab.ask({"verb": "link", "a": self._ends[0], "b": self._ends[1]})
        return answer

    @property
    def up(self) -> bool:
        """Whether there is an edge between the two nodes."""
        return bool(self.show()["up"])

    @property
    def why(self) -> str:
        """The reason why the link is up or down, as a text."""
        return str(self.show()["why"])

    def _change(self, verb: str, flags: list[str]) -> dict[str, Any]:
        answer: dict[str, Any] = self._lab._call(["link", verb, self._lab.name, *self._ends, "--json", *flags])
        return answer

    def __repr__(self) -> str:
        return f"<Link {' - '.join(self._ends)} of {self._lab.name}>"


class Lab:
    """A running lab. `attach(name)` finds a lab of another process; `Scenario.run()` makes a new one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, request: Mapping[str, Any], *, within: Span = "60 s") -> Any:
        """Sends a request to the lab over its socket (docs/reference/cli-labs.md, "The socket of a lab").

        Raises `LabRefused`; `LabTimeout`; `LabDied` if no lab answers.
        """
        with self._connected(seconds_of(within)) as wire:
            return _answer(self.name, self._sent(wire, request))

    def state(self) -> dict[str, Any]:
        """Returns `lab, state, scenario, pid, nodes, edges, t_ns`."""
        row: dict[str, Any] = self.ask({"verb": "state"})
        return row

    @property
    def t_s(self) -> float | None:
        """Lab time; `None` while the clock is held."""
        t_ns = self.state()["t_ns"]
        return None if t_ns is None else t_ns / 1e9

    def show(self) -> dict[str, Any]:
        """Returns `state`, nodes and the state of the link plane."""
        shown: dict[str, Any] = self.ask({"verb": "show"})
        return shown

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return [str(node["name"]) for node in self.show().get("node_list", [])]

    def __getitem__(self, name: str) -> Node:
        """Returns a node. An unknown name raises an error only when the node is used."""
        return Node(self, name)

    def set_nodes(self, change: str, *patterns: str, wait: bool = True) -> dict[str, Any]:
        """Changes all nodes whose names match the patterns: `"fail"`, `"heal"`, `"stop"`, `"start"`, `"restart"`, `"pause"`,
        `"resume"`, `"remove"` or `"add"` (`constel node`)."""
        flags = [] if wait else ["--no-wait"]
        answer: dict[str, Any] = self._call(["node", change, self.name, *patterns, "--json", *flags])
        return answer

    def set_policy(self, *patterns: str, to: str | None = None) -> dict[str, Any]:
        """Has all antennas of the stations whose names match the patterns choose by a policy (`"nearest"`, `"hysteresis=5deg"`);
        by default the scenario's."""
        flags = [] if to is None else ["--to", to]
        return self._station(["policy", self.name, *patterns, *flags])

    def _station(self, words: list[str]) -> dict[str, Any]:
        answer: dict[str, Any] = self._call(["station", *words, "--json"])
        return answer

    def apply(self, scenario: Scenario, *, dry_run: bool = False) -> dict[str, Any]:
        """Has the lab run a changed scenario, unless a change needs a restart: `applied`, `changes`, `from_ns`. A change with
        `refused` has the reason; nothing was changed then (`constel apply`)."""
        order = {
            "verb": "apply",
            "text": scenario.text,
            "file": scenario.name,
            "folder": str(scenario.folder),
            "dry_run": dry_run,
        }
        answer: dict[str, Any] = self.ask(order)
        return answer

    def link(self, a: str, b: str) -> Link:
        """Returns the link between two nodes, whether it is up or down."""
        return Link(self, (a, b))

    def port(self, port: str) -> Link:
        """Returns all edges that leave a port (`"tokyo/gsl0"`), whatever their destination."""
        return Link(self, (port,))

    def networks(self) -> list[dict[str, Any]]:
        """Returns the lab's networks: `network`, and `members` with `node`, `port`, `joined` and `edges`."""
        networks: list[dict[str, Any]] = self.ask({"verb": "networks"})
        return networks

    def network(self, name: str) -> Network:
        """Returns a network, whose members and delays can be changed."""
        return Network(self, name)

    def exec(self, pattern: str, command: Command, *, at_once: int = 16) -> Frame:
        """Runs a command in all nodes whose name matches a pattern (`"iridium-p00-*"`): `node, exit, stdout, stderr,
        error`."""
        call = ["exec", self.name, pattern, "--json", "--at-once", str(at_once), "--", *command_of(command)]
        rows = self._call(call, codes=(0, 1))
        kinds = {"node": "text", "exit": "integer", "stdout": "text", "stderr": "text", "error": "text"}
        return Frame.of_rows(kinds, rows)  # type: ignore[arg-type]

    def routes(self, node: str) -> Frame:
        """Returns a node's kernel routes, a row for each next hop."""
        answer = self.ask({"verb": "routes", "node": node})
        rows = [
            {**route, **hop}
            for route in answer["routes"]
            for hop in (route["hops"] or [{}])
        ]
        return Frame.of(
            {
                "destination": ("text", [row["destination"] for row in rows]),
                "to": ("text", [row["to"] for row in rows]),
                "kind": ("text", [row["kind"] for row in rows]),
                "protocol": ("text", [row["protocol"] for row in rows]),
                "metric": ("integer", [row["metric"] for row in rows]),
                "gateway": ("text", [row.get("gateway") for row in rows]),
                "port": ("text", [row.get("port") for row in rows]),
                "via": ("text", [row.get("via") for row in rows]),
            }
        )

    def path(self, a: str, b: str, at: Span | None = None) -> dict[str, Any]:
        """Returns the path by the kernels' tables, for each family (`kernel`), and the path of least delay (`optimum`)."""
        request: dict[str, Any] = {"verb": "path", "from": a, "to": b}
        if at is not None:
            request["at_ns"] = round(seconds_of(at) * 1e9)
        answer: dict[str, Any] = self.ask(request)
        return answer

    def converged(
        self, pairs: Iterable[tuple[str, str]] | None = None, *, within: Span = "60 s"
    ) -> float:
        """Waits until the kernels' routes lead from each node of `pairs` to the other; returns the seconds that this took.

        Default: all pairs of ground stations. Raises `LabTimeout`, which names a pair without a route.
        """
        if pairs is None:
            ground = [node["name"] for node in self.show().get("node_list", []) if node["kind"] == "ground"]
            pairs = [(a, b) for a, b in itertools.permutations(ground, 2)]
        waiting: list[tuple[str, str]] = list(pairs)
        began, limit = time.monotonic(), seconds_of(within)
        while waiting:
            waiting = [pair for pair in waiting if not _arrives(self.path(*pair))]
            waited = time.monotonic() - began
            if waiting and waited > limit:
                a, b = waiting[0]
                raise LabTimeout(f"routes do not lead from {a} to {b} after {waited:.1f} s, nor in {len(waiting)} pairs in all")
            if waiting:
                time.sleep(_LOOK_S)
        return time.monotonic() - began

    def events(
        self,
        *kinds: str,
        node: str | None = None,
        follow: bool = True,
        timeout: Span | None = None,
    ) -> Iterator[Event]:
        """Yields events from the lab's first one on, optionally only of these kinds or naming this node; with `follow`, until
        the lab ends.

        Raises `LabTimeout` if the lab sends nothing for longer than `timeout`.
        """
        limit = None if timeout is None else seconds_of(timeout)
        with self._connected(_ANSWER_S) as wire:
            lines = self._sent(wire, {"verb": "events", "follow": follow})
            wire.shutdown(socket.SHUT_WR)
            wire.settimeout(limit)
            while True:
                try:
                    line = lines.readline()
                except TimeoutError:
                    raise LabTimeout(f"nothing happened in lab '{self.name}' for {timeout}") from None
                if not line:
                    return
                event = event_of(self.name, line)
                if (not kinds or event.kind in kinds) and (node is None or event.names(node)):
                    yield event

    def sleep(self, span: Span) -> None:
        """Waits for a span of lab time; while the clock is held, also for its start."""
        began = self.t_s or 0.0
        self.sleep_until(f"{round((began + seconds_of(span)) * 1e9)} ns")

    def sleep_until(self, at: Span) -> None:
        """Waits until a lab time.

        Raises `LabDied` if the lab ends before that time.
        """
        until_s = seconds_of(at)
        while True:
            self._alive()
            now_s = self.t_s
            if now_s is not None and now_s >= until_s:
                return
            # Polls in intervals, because the lab may end.
            time.sleep(_LOOK_S if now_s is None else min(max(until_s - now_s, 0.001), 1.0))

    def sample(
        self, links: Iterable[tuple[str, str]], *, over: Span = "10 s", every: Span = "200 ms"
    ) -> Frame:
        """Samples links' queues and counters for a span of lab time, at intervals of `every`.

        A row for each instant and direction: `t_s, from, to` (as `NODE/PORT`), `queue_bytes, queue_limit_bytes, delay_ns` and
        the link driver's counts so far: `offered_bytes, delivered_bytes, dropped_queue, dropped_aqm, dropped_loss,
        dropped_outage` (frames). A link that is down has no rows; the driver `netem` cannot report its queue and has 0. Each
        sample is a request to the lab, which is suitable for a few tens of links. Raises `LabDied` if the lab ends before the
        span.
        """
        pairs, rows = list(links), list[dict[str, Any]]()
        pause_s, until = seconds_of(every), None
        while True:
            began = time.monotonic()
            for a, b in pairs:
                shown = self.link(a, b).show()
                t_s = None if shown["t_ns"] is None else shown["t_ns"] / 1e9
                if t_s is not None:
                    until = t_s + seconds_of(over) if until is None else until
                    rows += [_sampled(t_s, edge) for edge in shown["edges"]]
            now_s = self.t_s
            if until is not None and now_s is not None and now_s >= until:
                return Frame.of_rows(_SAMPLE, rows)
            time.sleep(max(0.0, pause_s - (time.monotonic() - began)))

    def top(self, *, every: Span = "1 s", samples: int | None = None) -> Iterator[dict[str, Any]]:
        """Yields the load of all links and the lateness of frames at intervals of `every` (200 ms or more), as `constel top
        --json`: until the lab ends, or for a number of samples."""
        self._alive()
        call = [find_binary(), "top", self.name, "--json", "--every", text_of(every)]
        call += [] if samples is None else ["--samples", str(samples)]
        process = subprocess.Popen(
            call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
            if process.wait():
                raise _failure(process.returncode, process.stderr.read())
        finally:
            _end(process)

    def metrics(self) -> str:
        """Returns the lab's counters as OpenMetrics."""
        return self._text(["metrics", self.name])

    def logs(self, lines: int = 200) -> str:
        """Returns the last messages of a lab of `constel up` or `Scenario.up`."""
        return self._text(["logs", self.name, "--lines", str(lines)])

    @contextlib.contextmanager
    def web(self, *, write: bool = False, shell: bool = False, port: int | None = None) -> Iterator[str]:
        """Serves the web view of the lab for the duration of the block, and yields its address, which works once. `write` and
        `shell` allow the page to change links and to open shells."""
        self._alive()
        call = [find_binary(), "web", self.name, "--no-open", *["--write"] * write, *["--shell"] * shell]
        call += [] if port is None else ["--port", str(port)]
        process = subprocess.Popen(
            call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise _failure(process.wait(), process.communicate()[1])
            yield address
        finally:
            _end(process, signal.SIGINT)

    @contextlib.contextmanager
    def capture(self, of: str, file: str | Path, *, filter: str | None = None) -> Iterator[None]:
        """Writes the frames of a port, a node or a rule to a pcapng file for the duration of the block."""
        call = [find_binary(), "capture", self.name, of, "-w", str(file)]
        call += [] if filter is None else ["--filter", filter]
        process = subprocess.Popen(call, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            # The file's first block is written when the capture has started.
            while process.poll() is None and not (os.path.exists(file) and os.path.getsize(file)):
                time.sleep(0.01)
            if process.returncode is not None:
                raise _failure(process.returncode, process.communicate()[1].decode(errors="replace"))
            yield
        finally:
            _end(process, signal.SIGINT)

    def policy(
        self,
        decide: Decide | None = None,
        *,
        name: str | None = None,
        within: Span | None = None,
        wants: Iterable[str] = PARTS,
    ) -> Any:
        """Lets a function decide links, attachments and routes from the lab's next step on, as a decorator.

        The function gets a `State` before each step and returns a `Decision`, or `None` to change nothing. It has the time
        `within` (default and maximum: half a step). A late answer holds the
        decisions before and makes the run not trustworthy. `wants` has the parts of the state that it needs. Returns a
        `LivePolicy`. Raises `LabRefused` if another policy decides.

            @lab.policy(within="200 ms", wants=["stations"])
            def highest(state):
                best = {}
                for own in state.stations:
                    seen = sorted(own["candidates"], key=lambda c: -c["elevation_deg"])
                    best[own["station"]] = [c["satellite"] for c in seen]
                return constel.Decision(attachments=best)
        """

        def joined(decide: Decide) -> LivePolicy:
            policy = LivePolicy(decide, name=name, within=within, wants=wants)
            policy.join(self)
            return policy

        return joined if decide is None else joined(decide)

    def restart(self) -> dict[str, Any]:
        """Takes a lab of `constel up` or `Scenario.up` down and starts it again, with a new folder of results; returns its row of
        `labs()`."""
        answer: dict[str, Any] = self._call(["restart", self.name, "--json"])
        return answer

    def down(self) -> None:
        """Requests the end of the lab; returns when it has ended."""
        self._call(["down", self.name])

    def _alive(self) -> None:
        """Raises `LabDied` if its process is ours and has ended."""

    def _call(self, arguments: list[str], codes: tuple[int, ...] = (0,)) -> Any:
        """Returns the output of a command of the command line: data with `--json`, else a text."""
        self._alive()
        done = command_line(arguments, codes)
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def _text(self, arguments: list[str]) -> str:
        """Returns the output of a command of the command line."""
        return str(self._call(arguments))

    def _connected(self, limit_s: float) -> socket.socket:
        self._alive()
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            wire.settimeout(limit_s)
            wire.connect(str(_RUNTIME / self.name / "api.sock"))
        except OSError as error:
            wire.close()
            self._alive()
            raise LabDied(f"no lab called '{self.name}' answers: {error}") from None
        return wire

    @staticmethod
    def _sent(wire: socket.socket, request: Mapping[str, Any]) -> IO[bytes]:
        wire.sendall(json.dumps({"version": 1, **request}).encode() + b"\n")
        return wire.makefile("rb")

    def __repr__(self) -> str:
        return f"<Lab {self.name}>"


class OwnLab(Lab):
    """A lab that this interpreter runs: a context manager.

    The lab ends and its results are closed when the block is left, also by an exception, by Ctrl-C, and by the end of the
    interpreter, even by kill -9.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        name: str | None,
        results: str | Path | None,
        duration: Span | None,
        traffic: bool,
        anyway: bool,
        profile_hz: int | None,
        up_within: Span,
        virtual_time: bool,
        policy: Decide | LivePolicy | None = None,
    ) -> None:
        super().__init__(name or scenario.name)
        self.scenario = scenario
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        self._folder = Path(results or Path("results") / f"{self.name}-{now}").absolute()
        self._up_within_s = seconds_of(up_within)
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._told = ""
        self._flags = [*(["--for", text_of(duration)] if duration is not None else [])]
        self._flags += ["--no-traffic"] * (not traffic) + ["--anyway"] * anyway
        if virtual_time and policy is not None:
            raise UsageError("a live policy is a program of this host, and virtual time has no requests to the lab: leave one out")
        self._flags += ["--await-policy"] * (policy is not None)
        self._policy = policy if policy is None or isinstance(policy, LivePolicy) else LivePolicy(policy)
        self._flags += [] if profile_hz is None else ["--profile", str(profile_hz)]
        self._flags += ["--time", "virtual"] * virtual_time
        self._virtual_time = virtual_time

    def start(self) -> Self:
        """Starts the lab; returns when it is up, or at once in virtual time, where only `wait` follows.

        Raises `HostError`, `ScenarioError`, `UsageError` (another lab has the name), `LabTimeout`, `LabDied`.
        """
        self.launch()
        if self._virtual_time:
            return self
        limit = time.monotonic() + self._up_within_s
        try:
            while not self.is_up():
                if time.monotonic() > limit:
                    raise LabTimeout(f"lab '{self.name}' is not up after {self._up_within_s:g} s")
                time.sleep(_LOOK_S)
        except BaseException:
            self.abandon()
            raise
        return self

    def _let_join(self) -> None:
        """Lets the policy join as soon as it can: lab time waits for it."""
        if self._policy is None or self._policy.joined:
            return
        try:
            self._policy.join(self)
        except LabRefused as error:
            if error.code != "coming-up":
                raise

    def launch(self) -> None:
        """Starts the process without waiting."""
        if self._process is not None:
            raise UsageError(f"lab '{self.name}' was started already: `Scenario.run` makes another")
        self._said = tempfile.TemporaryFile()
        call = [find_binary(), "run", "-", "--name", self.name, "--results", str(self._folder)]
        call += ["--ends-with", str(os.getpid()), *self._flags]
        # The scenario is passed as a text, so that no file is necessary.
        self._process = subprocess.Popen(
            call,
            cwd=self.scenario.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(self.scenario.text.encode())

    def is_up(self) -> bool:
        """Whether the lab is up.

        Raises the error that prevented its start.
        """
        self._alive()
        try:
            row = self.state()
        except LabDied:
            self._alive()
            return False
        # Another lab may have the name; ours will report that soon.
        if row["pid"] != self.pid:
            return False
        self._let_join()
        return bool(row["state"] == "running")

    @property
    def pid(self) -> int:
        """The lab's process number."""
        if self._process is None:
            raise UsageError(f"lab '{self.name}' was not started: enter it with `with`")
        return self._process.pid

    @property
    def folder(self) -> Path:
        """The results folder."""
        return self._folder

    @property
    def results(self) -> Results:
        """The lab's results, after its end."""
        return read_results(self._folder)

    def wait(self, timeout: Span | None = None) -> Results:
        """Waits until the lab has ended by itself.

        Raises `LabTimeout` if that takes longer than `timeout`; the lab keeps running.
        """
        process = self._started()
        try:
            process.wait(None if timeout is None else seconds_of(timeout))
        except subprocess.TimeoutExpired:
            raise LabTimeout(f"lab '{self.name}' still runs after {timeout}") from None
        return self._ended()

    def stop(self, within: Span = "120 s") -> Results:
        """Stops the lab and closes its results."""
        process = self._started()
        if process.poll() is None:
            # SIGTERM would be recorded as an interruption; this is a regular end.
            with contextlib.suppress(LabError):
                self.ask({"verb": "down"})
            try:
                process.wait(seconds_of(within))
            except subprocess.TimeoutExpired:
                self.abandon()
                raise LabTimeout(f"lab '{self.name}' was not down after {within}, and was killed") from None
        return self._ended()

    def abandon(self) -> None:
        """Stops the lab in any state, without raising an error: first by a signal, after a minute by SIGKILL; then cleans up
        after it."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            _end(process, signal.SIGINT, 60.0)
        self._stderr()
        if process.returncode < 0:
            subprocess.run([find_binary(), "clean", self.name], capture_output=True, start_new_session=True)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise UsageError(f"lab '{self.name}' was not started: enter it with `with`")
        return self._process

    def _alive(self) -> None:
        process = self._started()
        if process.poll() is not None:
            self._ended()
            raise LabDied(f"lab '{self.name}' is over; its results are in {self._folder}", process.returncode)

    def _ended(self) -> Results:
        process, said = self._started(), self._stderr()
        if process.returncode in (0, 3):
            if self._policy is not None and self._policy.joined:
                self._policy.wait()
            return read_results(self._folder)
        # Exit code 1 with a summary: software in the lab failed, which is a result.
        if process.returncode == 1 and (results := Results(self._folder)).finished and results.failed:
            return results
        raise _failure(process.returncode, said, f"lab '{self.name}'")

    def _stderr(self) -> str:
        if self._said is not None:
            self._said.seek(0)
            self._told = self._said.read().decode(errors="replace")
            self._said.close()
            self._said = None
        return self._told

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon()
        else:
            self.stop()


def labs() -> list[dict[str, Any]]:
    """Returns the labs of this host, as `constel list --json`: `lab, state, scenario, pid, nodes, edges, t_ns`."""
    rows: list[dict[str, Any]] = json.loads(command_line(["list", "--json"]).stdout)
    return rows


def attach(name: str) -> Lab:
    """Returns a lab that another process runs.

    Raises `LabDied` if no such lab runs.
    """
    lab = Lab(name)
    lab.state()
    return lab


def command_line(
    arguments: Sequence[str],
    codes: tuple[int, ...] = (0,),
    *,
    input: str | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs the program `constel` to its end.

    Raises the error of its exit code, if that is not one of `codes`.
    """
    done = subprocess.run(
        [find_binary(), *arguments],
        capture_output=True,
        text=True,
        input=input or "",
        cwd=folder,
        # Ctrl-C must reach only the interpreter.
        start_new_session=True,
    )
    if done.returncode not in codes or (done.returncode and not done.stdout):
        raise _failure(done.returncode, done.stderr)
    return done


def completed(
    node: str, command: list[str], returncode: int, stdout: str, stderr: str, check: bool
) -> Completed:
    """Returns a finished command, or raises `CommandFailed`."""
    if check and returncode != 0:
        raise CommandFailed(node, command, returncode, stdout, stderr)
    return Completed(command, returncode, stdout, stderr)


def event_of(lab: str, line: bytes) -> Event:
    """Returns an event from a line that a lab sent."""
    return Event.of(_answered(lab, line))


def _answer(lab: str, lines: IO[bytes]) -> Any:
    try:
        line = lines.readline()
    except TimeoutError:
        raise LabTimeout(f"lab '{lab}' did not answer in time") from None
    except OSError as error:
        raise LabDied(f"lab '{lab}' stopped answering: {error}") from None
    return _answered(lab, line)


def _answered(lab: str, line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise LabDied(f"lab '{lab}' stopped answering")
    answer = json.loads(line)
    if answer["ok"]:
        return answer["data"]
    raise LabRefused(answer["error"], answer.get("code", "failed"), answer.get("nearest"))


_COUNTED = ("offered_bytes", "delivered_bytes", "dropped_queue", "dropped_aqm", "dropped_loss", "dropped_outage")
_SAMPLE: dict[str, Kind] = {
    "t_s": "float",
    **dict.fromkeys(("from", "to"), "text"),
    **dict.fromkeys(("queue_bytes", "queue_limit_bytes", "delay_ns", *_COUNTED), "integer"),
}


def _sampled(t_s: float, edge: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row of `Lab.sample`."""
    stats = edge["counters"] or {"counters": {}}
    counted = stats["counters"]
    return {
        "t_s": t_s,
        "from": edge["from"],
        "to": edge["to"],
        "queue_bytes": stats.get("queue_bytes"),
        "queue_limit_bytes": edge["queue_bytes"],
        "delay_ns": edge["delay_ns"],
        **{name: counted.get(name) for name in _COUNTED},
    }


def _arrives(answer: Mapping[str, Any]) -> bool:
    walked: list[dict[str, Any]] = answer["kernel"]
    return bool(walked) and all(way["arrived"] for way in walked)


def _end(process: subprocess.Popen[Any], first: signal.Signals = signal.SIGTERM, within_s: float = 5.0) -> None:
    """Ends a process: with a signal that it may handle, then with SIGKILL."""
    process.send_signal(first)
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _failure(returncode: int, stderr: str, what: str = "constel") -> ConstelError:
    said = stderr.strip()
    lines = [line for line in said.splitlines() if line.startswith("constel: ")]
    message = (lines[-1].removeprefix("constel: ") if lines else said) or f"{what} ended with {returncode}"
    if returncode == ScenarioError.exit:
        return ScenarioError(said)
    for kind in (UsageError, HostError):
        if returncode == kind.exit:
            return kind(message)
    return LabDied(message, returncode, said)
