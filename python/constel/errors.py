"""What can go wrong. Every exception is a `ConstelError`; `exit` is the exit code that the command line has for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong with a scenario, and where."""

    file: str
    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    code: str
    """A stable word, such as `unknown-key`."""
    message: str
    path: str | None = None
    """Where in the structure of the file, such as `traffic[3].ping.to`."""
    reason: str | None = None
    suggestion: str | None = None
    allowed: tuple[str, ...] = field(default=())
    next: str | None = None
    snippet: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: error: {self.message}"


class ConstelError(Exception):
    """Something went wrong."""

    exit = 1


class UsageError(ConstelError, ValueError):
    """Something was asked for that does not exist or does not go together."""

    exit = 2


class ScenarioError(ConstelError, ValueError):
    """The scenario is not valid. `diagnostics` has every finding."""

    exit = 4

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class HostError(ConstelError):
    """This host is not able: rights, programs or room are missing. `constel doctor` says more."""

    exit = 5


class LabError(ConstelError):
    """A lab did not do what it was to."""


class LabDied(LabError):
    """The lab ended before its time; `stderr` is what it said."""

    def __init__(self, message: str, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class LabTimeout(LabError, TimeoutError):
    """It took longer than was allowed."""


class LabRefused(LabError):
    """The lab refused. `code` is a stable word (docs/reference/cli.md), `nearest` what was perhaps meant."""

    def __init__(self, message: str, code: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.nearest = nearest


class CommandFailed(LabError):
    """A command in a node ended with another exit code than 0."""

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
