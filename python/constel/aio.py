"""Labs for asyncio: the classes of `constel` under the same names, with coroutines for methods.

    async with aio.run(scenario) as lab:
        await lab["tokyo"].exec("ping -c 1 london")
        print(await lab.t_s)
        async for event in lab.events("handover"):
            ...

A property of `constel.Lab` that asks the lab is awaited here too: `await lab.t_s`, `await lab["tokyo"].ipv4`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import lab as _sync
from ._time import Span, seconds_of
from .errors import LabDied, LabTimeout
from .frame import Frame
from .lab import _LOOK_S, _RUNTIME, Command, Completed, Event, command_of, completed, event_of
from .network import Network as SyncNetwork
from .policy import PARTS, Decide
from .results import Results

if TYPE_CHECKING:
    from typing_extensions import Self

    from .scenario import Scenario

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LONGEST_LINE = 64 << 20


class Node:
    """See `constel.Node`."""

    def __init__(self, node: _sync.Node) -> None:
        self._node = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    def argv(self, command: Command) -> list[str]:
        """See `constel.Node.argv`."""
        return self._node.argv(command)

    async def exec(
        self,
        command: Command,
        *,
        input: str | None = None,
        timeout: Span | None = None,
        check: bool = True,
    ) -> Completed:
        """See `constel.Node.exec`. Cancelling the call ends the command."""
        pipe = asyncio.subprocess.PIPE
        process = await self.popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        limit = None if timeout is None else seconds_of(timeout)
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate((input or "").encode()), limit)
        except asyncio.TimeoutError:
            await _end(process)
            raise LabTimeout(f"{command_of(command)} in {self.name} took longer than {timeout}") from None
        except BaseException:
            await asyncio.shield(_end(process))
            raise
        texts = stdout.decode(errors="replace"), stderr.decode(errors="replace")
        return completed(self.name, command_of(command), process.returncode or 0, *texts, check)

    async def popen(self, command: Command, **options: Any) -> asyncio.subprocess.Process:
        """See `constel.Node.popen`; options are those of `asyncio.create_subprocess_exec`."""
        options.setdefault("start_new_session", True)
        return await asyncio.create_subprocess_exec(*self.argv(command), **options)

    @property
    def ipv4(self) -> Coroutine[Any, Any, str]:
        """The node's IPv4 address."""
        return _aside(lambda: self._node.ipv4)

    @property
    def ipv6(self) -> Coroutine[Any, Any, str]:
        """The node's IPv6 address."""
        return _aside(lambda: self._node.ipv6)

    async def routes(self) -> Frame:
        """See `constel.Node.routes`."""
        return await _aside(self._node.routes)

    async def put(self, source: str | Path, path: str) -> None:
        """See `constel.Node.put`."""
        await _aside(self._node.put, source, path)

    async def get(self, path: str, target: str | Path) -> None:
        """See `constel.Node.get`."""
        await _aside(self._node.get, path, target)

    async def info_put(self, name: str, content: str | Path) -> dict[str, Any]:
        """See `constel.Node.info_put`."""
        return await _aside(self._node.info_put, name, content)

    async def info_remove(self, name: str) -> dict[str, Any]:
        """See `constel.Node.info_remove`."""
        return await _aside(self._node.info_remove, name)

    async def info_send(self, data: Any) -> dict[str, Any]:
        """See `constel.Node.info_send`."""
        return await _aside(self._node.info_send, data)

    async def logs(self, lines: int = 200) -> str:
        """See `constel.Node.logs`."""
        return await _aside(self._node.logs, lines)

    async def shell(self) -> int:
        """See `constel.Node.shell`."""
        return await _aside(self._node.shell)

    async def fail(self, *, wait: bool = True) -> dict[str, Any]:
        """See `constel.Node.fail`."""
        return await _aside(self._node.fail, wait=wait)

    async def heal(self) -> dict[str, Any]:
        """See `constel.Node.heal`."""
        return await _aside(self._node.heal)

    async def stop(self, *, wait: bool = True) -> dict[str, Any]:
        """See `constel.Node.stop`."""
        return await _aside(self._node.stop, wait=wait)

    async def start(self) -> dict[str, Any]:
        """See `constel.Node.start`."""
        return await _aside(self._node.start)

    async def restart(self) -> dict[str, Any]:
        """See `constel.Node.restart`."""
        return await _aside(self._node.restart)

    async def pause(self) -> dict[str, Any]:
        """See `constel.Node.pause`."""
        return await _aside(self._node.pause)

    async def resume(self) -> dict[str, Any]:
        """See `constel.Node.resume`."""
        return await _aside(self._node.resume)

    async def remove(self, *, wait: bool = True) -> dict[str, Any]:
        """See `constel.Node.remove`."""
        return await _aside(self._node.remove, wait=wait)

    async def add(self) -> dict[str, Any]:
        """See `constel.Node.add`."""
        return await _aside(self._node.add)

    async def attach(self, satellite: str, *, antenna: int | None = None) -> dict[str, Any]:
        """See `constel.Node.attach`."""
        return await _aside(self._node.attach, satellite, antenna=antenna)

    async def detach(self, *, antenna: int | None = None) -> dict[str, Any]:
        """See `constel.Node.detach`."""
        return await _aside(self._node.detach, antenna=antenna)

    def __repr__(self) -> str:
        return repr(self._node)


class Link:
    """See `constel.Link`."""

    def __init__(self, link: _sync.Link) -> None:
        self._link = link

    async def set(self, **effects: Any) -> dict[str, Any]:
        """See `constel.Link.set`."""
        return await _aside(self._link.set, **effects)

    async def fail(self, *, wait: bool = True) -> dict[str, Any]:
        """See `constel.Link.fail`."""
        return await _aside(self._link.fail, wait=wait)

    async def heal(self, *, wait: bool = True) -> dict[str, Any]:
        """See `constel.Link.heal`."""
        return await _aside(self._link.heal, wait=wait)

    async def reset(self) -> dict[str, Any]:
        """See `constel.Link.reset`."""
        return await _aside(self._link.reset)

    async def show(self) -> dict[str, Any]:
        """See `constel.Link.show`."""
        return await _aside(self._link.show)

    @property
    def up(self) -> Coroutine[Any, Any, bool]:
        """Whether there is an edge between the two nodes."""
        return _aside(lambda: self._link.up)

    @property
    def why(self) -> Coroutine[Any, Any, str]:
        """The reason why the link is up or down, as a text."""
        return _aside(lambda: self._link.why)

    def __repr__(self) -> str:
        return repr(self._link)


class Network:
    """See `constel.Network`."""

    def __init__(self, network: SyncNetwork) -> None:
        self._network = network

    @property
    def name(self) -> str:
        """The network's name."""
        return self._network.name

    async def show(self) -> dict[str, Any]:
        """See `constel.Network.show`."""
        return await _aside(self._network.show)

    async def join(self, node: str) -> dict[str, Any]:
        """See `constel.Network.join`."""
        return await _aside(self._network.join, node)

    async def leave(self, node: str) -> dict[str, Any]:
        """See `constel.Network.leave`."""
        return await _aside(self._network.leave, node)

    async def set(self, delays: Sequence[Sequence[Span | None]]) -> dict[str, Any]:
        """See `constel.Network.set`."""
        return await _aside(self._network.set, delays)

    async def reset(self) -> dict[str, Any]:
        """See `constel.Network.reset`."""
        return await _aside(self._network.reset)

    def __repr__(self) -> str:
        return repr(self._network)


class Lab:
    """A running lab. `attach(name)` finds a lab of another process; `run(scenario)` makes a new one."""

    def __init__(self, lab: _sync.Lab) -> None:
        self._lab = lab

    @property
    def name(self) -> str:
        """The lab's name."""
        return self._lab.name

    @property
    def sync(self) -> _sync.Lab:
        """This lab without asyncio."""
        return self._lab

    async def ask(self, request: Mapping[str, Any], *, within: Span = "60 s") -> Any:
        """See `constel.Lab.ask`."""
        return await _aside(self._lab.ask, request, within=within)

    async def state(self) -> dict[str, Any]:
        """See `constel.Lab.state`."""
        return await _aside(self._lab.state)

    @property
    def t_s(self) -> Coroutine[Any, Any, float | None]:
        """Lab time; `None` while the clock is held."""
        return _aside(lambda: self._lab.t_s)

    async def show(self) -> dict[str, Any]:
        """See `constel.Lab.show`."""
        return await _aside(self._lab.show)

    @property
    def nodes(self) -> Coroutine[Any, Any, list[str]]:
        """Names of the nodes."""
        return _aside(lambda: self._lab.nodes)

    def __getitem__(self, name: str) -> Node:
        """See `constel.Lab.__getitem__`."""
        return Node(self._lab[name])

    async def set_nodes(self, change: str, *patterns: str, wait: bool = True) -> dict[str, Any]:
        """See `constel.Lab.set_nodes`."""
        return await _aside(self._lab.set_nodes, change, *patterns, wait=wait)

    async def set_policy(self, *patterns: str, to: str | None = None) -> dict[str, Any]:
        """See `constel.Lab.set_policy`."""
        return await _aside(self._lab.set_policy, *patterns, to=to)

    async def apply(self, scenario: Scenario, *, dry_run: bool = False) -> dict[str, Any]:
        """See `constel.Lab.apply`."""
        return await _aside(self._lab.apply, scenario, dry_run=dry_run)

    def policy(
        self,
        decide: Decide | None = None,
        *,
        name: str | None = None,
        within: Span | None = None,
        wants: Iterable[str] = PARTS,
    ) -> Any:
        """See `constel.Lab.policy`: a decorator here too. The function is called in a thread of its own."""
        return self._lab.policy(decide, name=name, within=within, wants=wants)

    def link(self, a: str, b: str) -> Link:
        """See `constel.Lab.link`."""
        return Link(self._lab.link(a, b))

    def port(self, port: str) -> Link:
        """See `constel.Lab.port`."""
        return Link(self._lab.port(port))

    async def networks(self) -> list[dict[str, Any]]:
        """See `constel.Lab.networks`."""
        return await _aside(self._lab.networks)

    def network(self, name: str) -> Network:
        """See `constel.Lab.network`."""
        return Network(self._lab.network(name))

    async def exec(self, pattern: str, command: Command, *, at_once: int = 16) -> Frame:
        """See `constel.Lab.exec`; a command in one node is `lab[node].exec`."""
        return await _aside(self._lab.exec, pattern, command, at_once=at_once)

    async def routes(self, node: str) -> Frame:
        """See `constel.Lab.routes`."""
        return await _aside(self._lab.routes, node)

    async def path(self, a: str, b: str, at: Span | None = None) -> dict[str, Any]:
        """See `constel.Lab.path`."""
        return await _aside(self._lab.path, a, b, at)

    async def converged(self, pairs: Iterable[tuple[str, str]] | None = None, *, within: Span = "60 s") -> float:
        """See `constel.Lab.converged`."""
        return await _aside(self._lab.converged, pairs, within=within)

    async def events(
        self, *kinds: str, node: str | None = None, follow: bool = True, timeout: Span | None = None
    ) -> AsyncIterator[Event]:
        """See `constel.Lab.events`."""
        limit = None if timeout is None else seconds_of(timeout)
        path = str(_RUNTIME / self.name / "api.sock")
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
        except OSError as error:
            raise LabDied(f"no lab called '{self.name}' answers: {error}") from None
        try:
            writer.write(json.dumps({"version": 1, "verb": "events", "follow": follow}).encode() + b"\n")
            writer.write_eof()
            while True:
                try:
                    line = await asyncio.wait_for(reader.readline(), limit)
                except asyncio.TimeoutError:
                    raise LabTimeout(f"nothing happened in lab '{self.name}' for {timeout}") from None
                if not line:
                    return
                event = event_of(self.name, line)
                if (not kinds or event.kind in kinds) and (node is None or event.names(node)):
                    yield event
        finally:
            writer.close()

    async def sleep(self, span: Span) -> None:
        """See `constel.Lab.sleep`."""
        began = (await self.t_s) or 0.0
        await self.sleep_until(f"{round((began + seconds_of(span)) * 1e9)} ns")

    async def sleep_until(self, at: Span) -> None:
        """See `constel.Lab.sleep_until`."""
        until_s = seconds_of(at)
        while True:
            now_s = await self.t_s
            if now_s is not None and now_s >= until_s:
                return
            await asyncio.sleep(_LOOK_S if now_s is None else min(max(until_s - now_s, 0.001), 1.0))

    async def sample(self, links: Iterable[tuple[str, str]], *, over: Span = "10 s", every: Span = "200 ms") -> Frame:
        """See `constel.Lab.sample`."""
        return await _aside(self._lab.sample, links, over=over, every=every)

    async def top(self, *, every: Span = "1 s", samples: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """See `constel.Lab.top`."""
        loads = self._lab.top(every=every, samples=samples)
        try:
            while (load := await _aside(_next, loads)) is not None:
                yield load
        finally:
            await _aside(_close, loads)

    async def metrics(self) -> str:
        """See `constel.Lab.metrics`."""
        return await _aside(self._lab.metrics)

    async def logs(self, lines: int = 200) -> str:
        """See `constel.Lab.logs`."""
        return await _aside(self._lab.logs, lines)

    @contextlib.asynccontextmanager
    async def web(self, *, write: bool = False, shell: bool = False, port: int | None = None) -> AsyncIterator[str]:
        """See `constel.Lab.web`."""
        async with _entered(self._lab.web(write=write, shell=shell, port=port)) as address:
            yield address

    @contextlib.asynccontextmanager
    async def capture(self, of: str, file: str | Path, *, filter: str | None = None) -> AsyncIterator[None]:
        """See `constel.Lab.capture`."""
        async with _entered(self._lab.capture(of, file, filter=filter)):
            yield

    async def restart(self) -> dict[str, Any]:
        """See `constel.Lab.restart`."""
        return await _aside(self._lab.restart)

    async def down(self) -> None:
        """See `constel.Lab.down`."""
        await _aside(self._lab.down)

    def __repr__(self) -> str:
        return repr(self._lab)


class OwnLab(Lab):
    """A lab that this interpreter runs. It ends when the block is left, also by an exception, by cancellation, or by the end
    of the interpreter."""

    def __init__(self, lab: _sync.OwnLab) -> None:
        super().__init__(lab)
        self._own = lab

    @property
    def sync(self) -> _sync.OwnLab:
        """This lab without asyncio."""
        return self._own

    @property
    def scenario(self) -> Scenario:
        """The scenario of the lab."""
        return self._own.scenario

    @property
    def pid(self) -> int:
        """The lab's process number."""
        return self._own.pid

    @property
    def folder(self) -> Path:
        """The results folder."""
        return self._own.folder

    @property
    def results(self) -> Results:
        """The lab's results, after its end."""
        return self._own.results

    def launch(self) -> None:
        """See `constel.OwnLab.launch`."""
        self._own.launch()

    async def is_up(self) -> bool:
        """See `constel.OwnLab.is_up`."""
        return await _aside(self._own.is_up)

    async def start(self) -> Self:
        """See `constel.OwnLab.start`."""
        limit = asyncio.get_running_loop().time() + self._own._up_within_s
        self.launch()
        try:
            while not await self.is_up():
                if asyncio.get_running_loop().time() > limit:
                    raise LabTimeout(f"lab '{self.name}' is not up after {self._own._up_within_s:g} s")
                await asyncio.sleep(_LOOK_S)
        except BaseException:
            await asyncio.shield(self.abandon())
            raise
        return self

    async def wait(self, timeout: Span | None = None) -> Results:
        """See `constel.OwnLab.wait`."""
        return await _aside(self._own.wait, timeout)

    async def stop(self, within: Span = "120 s") -> Results:
        """See `constel.OwnLab.stop`."""
        return await _aside(self._own.stop, within)

    async def abandon(self) -> None:
        """See `constel.OwnLab.abandon`."""
        await _aside(self._own.abandon)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The lab is stopped even if the task is cancelled a second time.
        await asyncio.shield(self.stop() if error is None else self.abandon())


def run(scenario: Scenario, **options: Any) -> OwnLab:
    """Returns a lab of the scenario, to be entered with `async with`; options are those of `Scenario.run`."""
    return OwnLab(scenario.run(**options))


async def up(scenario: Scenario, **options: Any) -> Lab:
    """Starts a lab that stays in the background; options are those of `Scenario.up`."""
    return Lab(await _aside(scenario.up, **options))


async def attach(name: str) -> Lab:
    """See `constel.attach`."""
    return Lab(await _aside(_sync.attach, name))


async def labs() -> list[dict[str, Any]]:
    """See `constel.labs`."""
    return await _aside(_sync.labs)


async def _aside(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return await asyncio.to_thread(call, *args, **kwargs)


def _next(loads: Iterator[dict[str, Any]]) -> dict[str, Any] | None:
    return next(loads, None)


def _close(loads: Iterator[dict[str, Any]]) -> None:
    """Ends a generator, and the process that it reads."""
    if close := getattr(loads, "close", None):
        close()


@contextlib.asynccontextmanager
async def _entered(manager: AbstractContextManager[_T]) -> AsyncIterator[_T]:
    """Enters and leaves a context manager that waits, in a thread."""
    value = await _aside(manager.__enter__)
    try:
        yield value
    finally:
        # The process behind it ends even if the task is cancelled a second time.
        await asyncio.shield(_aside(manager.__exit__, None, None, None))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 5.0)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
