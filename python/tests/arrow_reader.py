"""Reads Arrow's C stream with nothing but ctypes, as its specification has it."""

from __future__ import annotations

import ctypes
from typing import Any


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
    ("private_data", ctypes.c_void_p),
]


class Array(ctypes.Structure):
    pass


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))),
    ("private_data", ctypes.c_void_p),
]


class Stream(ctypes.Structure):
    pass


Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p),
]


def units(source: Any) -> dict[str, str]:
    """The units in the metadata of the fields."""
    capsule = source.__arrow_c_stream__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))
    schema = Schema()
    assert stream.contents.get_schema(stream, schema) == 0
    found = {}
    for place in range(schema.n_children):
        child = schema.children[place].contents
        # A `c_void_p` of a structure is read as a number.
        pairs = _pairs(child.metadata) if child.metadata else {}
        if "unit" in pairs:
            found[child.name.decode()] = pairs["unit"]
    schema.release(schema)
    return found


def _pairs(address: int) -> dict[str, str]:
    def number() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def text() -> str:
        nonlocal address
        length = number()
        value = ctypes.string_at(address, length).decode()
        address += length
        return value

    return {text(): text() for _ in range(number())}


def read(source: Any) -> dict[str, list[Any]]:
    """All columns of anything that has `__arrow_c_stream__`; everything is released."""
    capsule = source.__arrow_c_stream__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))
    schema, array, end = Schema(), Array(), Array()
    assert stream.contents.get_schema(stream, schema) == 0
    assert stream.contents.get_next(stream, array) == 0
    assert schema.format == b"+s" and schema.n_children == array.n_children
    columns = {}
    for place in range(schema.n_children):
        kind, child = schema.children[place].contents, array.children[place].contents
        assert child.length == array.length and child.offset == 0
        columns[kind.name.decode()] = _values(kind.format, child)
    assert stream.contents.get_next(stream, end) == 0 and not end.release
    array.release(array)
    schema.release(schema)
    assert not array.release and not schema.release
    return columns


def _values(kind: bytes, array: Array) -> list[Any]:
    n = array.length
    valid = _bits(array.buffers[0], n) if array.buffers[0] else [True] * n
    assert valid.count(False) == array.null_count
    if kind == b"l":
        values: list[Any] = list((ctypes.c_int64 * n).from_address(array.buffers[1])) if n else []
    elif kind == b"g":
        values = list((ctypes.c_double * n).from_address(array.buffers[1])) if n else []
    elif kind == b"b":
        values = _bits(array.buffers[1], n)
    else:
        assert kind == b"U" and array.n_buffers == 3
        ends = (ctypes.c_int64 * (n + 1)).from_address(array.buffers[1])
        text = ctypes.string_at(array.buffers[2], ends[n]) if ends[n] else b""
        values = [text[a:b].decode() for a, b in zip(ends, ends[1:])]
    return [value if there else None for value, there in zip(values, valid)]


def _bits(address: int | None, n: int) -> list[bool]:
    if not n:
        return []
    assert address
    octets = ctypes.string_at(address, (n + 7) // 8)
    return [bool(octets[i // 8] >> (i % 8) & 1) for i in range(n)]
