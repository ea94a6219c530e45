"""Exceptions. Every exception is a `ConstelError`; `exit` is the exit code of the command line for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """One error in a scenario, with its place."""

    file: str
    line: int
    """The line, from 1."""
    column: int
    """The column, from 1, in characters."""
    code: str
    """A stable word, such as `unknown-key`."""
    message: str
    path: str | None = None
    """The place in the structure of the file, such as `traffic[3].ping.to`."""
    reason: str | None = None
    suggestion: str | None = None
    allowed: tuple[str, ...] = field(default=())
    next: str | None = None
    snippet: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: error: {self.message}"


class ConstelError(Exception):
    """The base class of all exceptions of this package."""

    exit = 1


class UsageError(ConstelError, ValueError):
    """Arguments that are invalid or contradict each other."""

    exit = 2


class ScenarioError(ConstelError, ValueError):
    """The scenario is not valid. `diagnostics` has all errors."""

    exit = 4

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class HostError(ConstelError):
    """This host cannot run the lab: permissions, programs or resources are missing. `constel doctor` prints details."""

    exit = 5


class LabError(ConstelError):
    """A lab failed."""


class LabDied(LabError):
    """The lab ended too early; `stderr` is its standard error."""

    def __init__(self, message: str, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class LabTimeout(LabError, TimeoutError):
    """An operation took longer than its limit."""


class LabRefused(LabError):
    """The lab refused a request. `code` is a stable word (docs/reference/cli-labs.md); `nearest` is the most similar valid
    name."""

    def __init__(self, message: str, code: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.nearest = nearest


class CommandFailed(LabError):
    """A command in a node ended with an exit code other than 0."""

    def __init__(self, node: str, command: list[str], returncode: int, stdout: str, stderr: str) -> None:
        said = stderr.strip() or stdout.strip()
        super().__init__(f"{' '.join(command)} in {node} ended with {returncode}" + (f": {said}" if said else ""))
        self.node = node
        self.command = command
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


def _diagnostics(findings: list[dict[str, Any]]) -> tuple[Diagnostic, ...]:
    def one(found: dict[str, Any]) -> Diagnostic:
        allowed: Any = tuple(found.pop("allowed", ()))
        return Diagnostic(**found, allowed=allowed)

    return tuple(map(one, findings))


def _of_native(exit: int, message: str, findings: str) -> ConstelError:
    if exit == ScenarioError.exit:
        return ScenarioError(message, _diagnostics(json.loads(findings) if findings else []))
    for kind in (UsageError, HostError):
        if exit == kind.exit:
            return kind(message)
    return ConstelError(message)
