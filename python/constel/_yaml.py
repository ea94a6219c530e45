"""Writes Python's values as the YAML of scenarios."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import UsageError

# Texts that are safe without quotes in every context: no word, number or grammar sign of YAML.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ %+-]*")
_QUANTITY = re.compile(r"-?[0-9]+(\.[0-9]+)? [A-Za-z%][A-Za-z0-9/%]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def dump(value: Mapping[str, Any]) -> str:
    """Returns a document, a key per line."""
    if not value:
        return "{}\n"
    return "".join(line + "\n" for line in _block(value, ""))


def flow(value: Any) -> str:
    """Returns a value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(_key(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "[" + ", ".join(map(flow, value)) + "]"
    return _scalar(value)


def _block(value: Any, indent: str) -> list[str]:
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            lines += _entry(f"{indent}{_scalar(_key(key))}:", item, indent + "  ")
        return lines
    for item in value:
        if isinstance(item, Mapping) and item:
            # The first key is on the line of the dash.
            first, *rest = _block(item, indent + "  ")
            lines += [f"{indent}- {first.lstrip()}", *rest]
        else:
            lines += _entry(f"{indent}-", item, indent + "  ")
    return lines


def _entry(head: str, value: Any, indent: str) -> list[str]:
    nested = isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))
    if nested and value:
        return [head, *_block(value, indent)]
    return [f"{head} {flow(value)}"]


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise UsageError(f"{key!r} is no key of a scenario: keys are texts")
    return key


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{value} is no number of a scenario")
        return repr(value)
    if isinstance(value, str):
        plain = _QUANTITY.fullmatch(value) or (_PLAIN.fullmatch(value) and not value.endswith(" "))
        return value if plain and value.lower() not in _WORDS else json.dumps(value, ensure_ascii=False)
    raise UsageError(f"{value!r} is no value of a scenario: texts, numbers, booleans, None, lists and mappings are")
