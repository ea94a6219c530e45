"""Labs for asyncio: the methods of `constel.Lab` as coroutines.

    async with aio.run(scenario) as lab:
        await lab.exec("tokyo", "ping -c 1 london")
        async for event in lab.events("handover"):
            ...
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ._time import Span, seconds_of
from .errors import LabDied, LabTimeout
from .frame import Frame
from .lab import _LOOK_S, _RUNTIME, Command, Completed, Event, Link, OwnLab, command_of, completed, event_of
from .results import Results

if TYPE_CHECKING:
    from typing_extensions import Self

    from .scenario import Scenario

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LONGEST_LINE = 64 << 20


class Lab:
    """A lab that this interpreter runs. It ends when the block is left, also by an exception, by cancellation, or by the end
    of the interpreter."""

    def __init__(self, lab: OwnLab) -> None:
        self._lab = lab

    @property
    def name(self) -> str:
        """The lab's name."""
        return self._lab.name

    @property
    def sync(self) -> OwnLab:
        """This lab without asyncio, for methods that this class does not have."""
        return self._lab

    async def ask(self, request: Mapping[str, Any]) -> Any:
        """Sends a request to the lab over its socket."""
        return await _aside(self._lab.ask, request)

    async def state(self) -> dict[str, Any]:
        """Returns `lab, state, scenario, pid, nodes, edges, t_ns`."""
        return await _aside(self._lab.state)

    async def exec(
        self,
        node: str,
        command: Command,
        *,
        input: str | None = None,
        timeout: Span | None = None,
        check: bool = True,
    ) -> Completed:
        """Runs a command in a node, as `Node.exec`. Cancelling the call ends the command."""
        process = await self.popen(
            node, command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        limit = None if timeout is None else seconds_of(timeout)
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate((input or "").encode()), limit)
        except asyncio.TimeoutError:
            await _end(process)
            raise LabTimeout(f"{command_of(command)} in {node} took longer than {timeout}") from None
        except BaseException:
            await asyncio.shield(_end(process))
            raise
        texts = stdout.decode(errors="replace"), stderr.decode(errors="replace")
        return completed(node, command_of(command), process.returncode or 0, *texts, check)

    async def popen(self, node: str, command: Command, **options: Any) -> asyncio.subprocess.Process:
        """Starts a command; options are those of `asyncio.create_subprocess_exec`."""
        options.setdefault("start_new_session", True)
        return await asyncio.create_subprocess_exec(*self._lab[node].argv(command), **options)

    def link(self, a: str, b: str) -> AsyncLink:
        """Returns the link between two nodes."""
        return AsyncLink(self._lab.link(a, b))

    async def path(self, a: str, b: str, at: Span | None = None) -> dict[str, Any]:
        """See `constel.Lab.path`."""
        return await _aside(self._lab.path, a, b, at)

    async def routes(self, node: str) -> Frame:
        """See `constel.Lab.routes`."""
        return await _aside(self._lab.routes, node)

    async def converged(self, pairs: Iterable[tuple[str, str]] | None = None, *, within: Span = "60 s") -> float:
        """See `constel.Lab.converged`."""
        return await _aside(lambda: self._lab.converged(pairs, within=within))

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
        """Waits for a span of lab time."""
        began = (await _aside(lambda: self._lab.t_s)) or 0.0
        until_s = began + seconds_of(span)
        while True:
            now_s = await _aside(lambda: self._lab.t_s)
            if now_s is not None and now_s >= until_s:
                return
            await asyncio.sleep(_LOOK_S if now_s is None else min(max(until_s - now_s, 0.001), 1.0))

    async def wait(self) -> Results:
        """Waits until the lab has ended by itself."""
        return await _aside(self._lab.wait)

    async def stop(self) -> Results:
        """Stops the lab and closes its results."""
        return await _aside(self._lab.stop)

    @property
    def results(self) -> Results:
        """The lab's results, after its end."""
        return self._lab.results

    async def __aenter__(self) -> Self:
        limit = asyncio.get_running_loop().time() + self._lab._up_within_s
        self._lab.launch()
        try:
            while not await _aside(self._lab.is_up):
                if asyncio.get_running_loop().time() > limit:
                    raise LabTimeout(f"lab '{self.name}' is not up after {self._lab._up_within_s:g} s")
                await asyncio.sleep(_LOOK_S)
        except BaseException:
            await asyncio.shield(_aside(self._lab.abandon))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # The lab is stopped even if the task is cancelled a second time.
            await asyncio.shield(_aside(self._lab.abandon))
        else:
            await asyncio.shield(_aside(self._lab.stop))


class AsyncLink:
    """See `constel.Link`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def set(self, **effects: Any) -> dict[str, Any]:
        """Changes the given effects."""
        return await _aside(lambda: self._link.set(**effects))

    async def fail(self, *, wait: bool = True) -> dict[str, Any]:
        """Breaks the link."""
        return await _aside(lambda: self._link.fail(wait=wait))

    async def heal(self, *, wait: bool = True) -> dict[str, Any]:
        """Undoes `fail`."""
        return await _aside(lambda: self._link.heal(wait=wait))

    async def reset(self) -> dict[str, Any]:
        """Removes all effects that were set by hand."""
        return await _aside(self._link.reset)

    async def show(self) -> dict[str, Any]:
        """Returns both directions with all effects in force."""
        return await _aside(self._link.show)


def run(scenario: Scenario, **options: Any) -> Lab:
    """Returns a lab of the scenario, to be entered with `async with`; options are those of `Scenario.run`."""
    return Lab(scenario.run(**options))


async def _aside(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return await asyncio.to_thread(call, *args, **kwargs)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 5.0)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
