"""The oracle's definition of equality and order of values, in plain Python.

It shares no code with the engine. Python calls True, 1 and 1.0 equal and a NaN unequal to itself. So document values
are compared by `identity`, and groups and sorted values by `rank`. Groups with equal ranks are one group.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

_DECIMAL_RANGE = 6144
_LONGEST_KEY = 1 << 16
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))")
_INTS = (
    (0xCC, ">B", 0, 1 << 8),
    (0xCD, ">H", 0, 1 << 16),
    (0xCE, ">I", 0, 1 << 32),
    (0xCF, ">Q", 0, 1 << 64),
    (0xD0, ">b", -(1 << 7), 0),
    (0xD1, ">h", -(1 << 15), 0),
    (0xD2, ">i", -(1 << 31), 0),
    (0xD3, ">q", -(1 << 63), 0),
)
_SCALARS = (bool, int, float, bytes)
_PLAIN = frozenset({type(None), bool, int, str, bytes})
Rank = tuple[Any, ...]


class Refused(Exception):
    """A refused value, with the reason."""


def value_of(value: Any) -> Any:
    """Copy a value as a document value: tuples as lists, dates and UUIDs as text, the names of maps in order."""
    if isinstance(value, str):
        return _whole(value)
    if value is None or isinstance(value, _SCALARS):
        return value
    if type(value) is dict:
        return _map(value)
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _DECIMAL_RANGE:
            raise Refused(f"a Decimal out of range, {value}")
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list | tuple):
        return [value_of(item) for item in value]
    if isinstance(value, Mapping):
        return _map(value)
    raise Refused(f"no document value: {type(value).__name__}")


def _map(value: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in value):
        raise Refused("a map with a key that is no text")
    return {_whole(name): value_of(value[name]) for name in sorted(value)}


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("half a surrogate pair in text") from None
    return text


def identity(value: Any) -> Any:
    """Return a hashable identity of a value: 1, 1.0 and True have three; every NaN has the same one."""
    kind = type(value)
    if kind in _PLAIN:
        return kind.__name__, value
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack(">d", value))
    if kind is dict or isinstance(value, Mapping):
        return ("map", tuple(sorted([(name, identity(item)) for name, item in value.items()])))
    if isinstance(value, tuple):
        return ("tuple", tuple([identity(item) for item in value]))
    if isinstance(value, list):
        return ("list", tuple([identity(item) for item in value]))
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    return (kind.__name__, value)


def rank(value: Any) -> Rank:
    """Return a value's sort key: null, false, true, numbers, text, bytes, tuples and lists, maps."""
    if type(value) is str:
        return (4, value)
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1 + value,)
    if isinstance(value, float) and not math.isfinite(value):
        return (3, 3 if math.isnan(value) else 2 if value > 0 else 0)
    if isinstance(value, int | float):
        return (3, 1, value)  # Python compares the two exactly
    if isinstance(value, Decimal | Fraction):  # a fraction is the ts of a text
        return (3, 1, Fraction(value))
    if isinstance(value, str):
        return (4, value)
    if isinstance(value, bytes):
        return (5, value)
    if isinstance(value, list | tuple):
        return (6, tuple([rank(item) for item in value]))
    if isinstance(value, Mapping):
        return (7, tuple((name, rank(item)) for name, item in sorted(value.items())))
    raise Refused(f"no document value: {type(value).__name__}")


def sort_place(value: Any) -> tuple[Rank, bytes]:
    """Return a total order of values: by rank, then by canonical bytes."""
    return rank(value), packed(value)


def packed(value: Any) -> bytes:
    """Encode a value canonically: MessagePack, shortest ints, sorted maps; extension 1 is a long int, 2 a Decimal."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return _packed_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, Decimal):
        return _extension(2, str(value))
    if isinstance(value, str):
        return _sized(value.encode(), ((0xA0, 32), (0xD9, 1 << 8), (0xDA, 1 << 16), (0xDB, 1 << 32)))
    if isinstance(value, bytes):
        return _sized(value, ((0xC4, 1 << 8), (0xC5, 1 << 16), (0xC6, 1 << 32)))
    if isinstance(value, Mapping):
        items = b"".join(packed(name) + packed(item) for name, item in sorted(value.items()))
        return _head(len(value), ((0x80, 16), (0xDE, 1 << 16), (0xDF, 1 << 32))) + items
    return _head(len(value), ((0x90, 16), (0xDC, 1 << 16), (0xDD, 1 << 32))) + b"".join(map(packed, value))


def _packed_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b", value)
    for code, form, low, high in _INTS:
        if low <= value < high:
            return bytes([code]) + struct.pack(form, value)
    return _extension(1, str(Decimal(value)))


def _extension(kind: int, text: str) -> bytes:
    data = text.encode()
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(data))
    head = bytes([fixed]) if fixed else _head(len(data), ((0xC7, 1 << 8), (0xC8, 1 << 16), (0xC9, 1 << 32)))
    return head + bytes([kind]) + data


def _sized(data: bytes, heads: tuple[tuple[int, int], ...]) -> bytes:
    return _head(len(data), heads) + data


def _head(size: int, heads: tuple[tuple[int, int], ...]) -> bytes:
    """Return the shortest MessagePack head for a size; heads for small sizes contain the size."""
    code, most = next((code, most) for code, most in heads if size < most)
    if most < 1 << 8:
        return bytes([code | size])
    return bytes([code]) + size.to_bytes((most - 1).bit_length() // 8, "big")


def group_of(value: Any) -> Any:
    """Convert a value to a group: integral floats to ints, lists to tuples, −0.0 to 0."""
    if isinstance(value, str):
        return _whole(value)
    if value is None or isinstance(value, bool | int | bytes):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, list | tuple):
        return tuple(group_of(item) for item in value)
    raise Refused(f"no group: {type(value).__name__}")


def key_of(value: Any) -> Any:
    """Convert a value to a document key: any group but null, of a bounded length."""
    key = group_of(value)
    if key is None:
        raise Refused("the key is null")
    if _length(key) > _LONGEST_KEY:
        raise Refused("the key is too long")
    return key


def _length(group: Any) -> int:
    if isinstance(group, str):
        return len(group.encode())
    if isinstance(group, bytes):
        return len(group)
    return sum(map(_length, group)) if isinstance(group, tuple) else 1


def at(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path, or None if there is none. A name of digits is a part of a tuple."""
    for name in path:
        if isinstance(value, tuple):
            numbers = [str(i) for i in range(len(value))]
            value = value[numbers.index(name)] if name in numbers else None
        elif type(value) is dict or isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def moment_of(ts: Any) -> tuple[str, int | float | Fraction]:
    """Return the kind of a ts and the number that orders it."""
    if isinstance(ts, str):
        return "text", _instant(ts)
    if isinstance(ts, int | float) and not isinstance(ts, bool) and math.isfinite(ts):
        return "number", ts
    raise Refused(f"no ts: {ts!r}")


def _instant(text: str) -> Fraction:
    """Convert an RFC 3339 text to seconds since 1970; a leap second equals the second after it."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise Refused(f"not RFC 3339: {text}")
    day, hour, minute, second, part, _, sign, offset_hours, offset_minutes = found.groups()
    if int(second) > 60 or int(offset_hours or 0) > 23 or int(offset_minutes or 0) > 59:
        raise Refused(f"not RFC 3339: {text}")
    try:
        start = datetime.fromisoformat(day).replace(hour=int(hour), minute=int(minute), tzinfo=UTC)
    except ValueError:
        raise Refused(f"not RFC 3339: {text}") from None
    offset = int(offset_hours or 0) * 3600 + int(offset_minutes or 0) * 60
    whole = (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) + int(second)
    whole += offset if sign == "-" else -offset
    if int(second) == 60 and whole % 86400:
        raise Refused(f"no leap second: {text}")
    return Fraction(whole) + (Fraction(int(part), 10 ** len(part)) if part else 0)
