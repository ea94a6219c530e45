"""Spans of lab time as texts or `timedelta`s."""

from __future__ import annotations

from datetime import timedelta

from ._native import nanoseconds
from .errors import UsageError

Span = str | timedelta
"""A span of time: a text with its unit (`"1.5 s"`, `"20 ms"`, `"2 h"`) or a `timedelta`. A bare number has no unit and raises
`UsageError`."""


def text_of(span: Span) -> str:
    """Returns the span in the form of the command line."""
    if isinstance(span, timedelta):
        microseconds = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
        return f"{microseconds} us"
    if not isinstance(span, str):
        raise UsageError(f"{span!r} is no span of time: write its unit, as in '{span} s', or give a timedelta")
    return span


def nanoseconds_of(span: Span) -> int:
    """Returns the span in nanoseconds."""
    return nanoseconds(text_of(span))


def seconds_of(span: Span) -> float:
    """Returns the span in seconds."""
    return nanoseconds_of(span) / 1e9
