"""Values: their validity, their equality, and their order.

Python has True == 1 == 1.0, and NaN differs from itself. So nothing here compares values with Python's `==`. `identity`
tells documents apart. `rank` orders groups and values, and two groups are equal if their ranks are equal.
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

LONGEST_KEY = 1 << 16
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))")


class Refused(Exception):
    """A record, a value or a group that is invalid, with the reason."""


def normalise(value: Any) -> Any:
    """Return the document value for a Python value: tuples become lists, dates and UUIDs become text."""
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > 6144:
            raise Refused(f"Decimal out of range: {value}")
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [normalise(v) for v in value]
    if isinstance(value, dict):
        if not all(isinstance(k, str) for k in value):
            raise Refused("a map key is no text")
        return {_text(k): normalise(v) for k, v in value.items()}
    raise Refused(f"no document value: {type(value).__name__}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused("a lone surrogate in text") from None
    return value


def from_line(line: str | bytes) -> Any:
    """Return the value of one JSON line."""
    try:
        return json.loads(line, parse_constant=_no_constant)
    except ValueError as error:
        raise Refused(f"not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def identity(value: Any) -> Any:
    """Return a hashable value that is equal exactly for equal document values. 1, 1.0 and True are three values."""
    if isinstance(value, str):
        return ("text", value)
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("int", value)
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack(">d", value))
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    if isinstance(value, bytes):
        return ("bytes", value)
    if isinstance(value, tuple):
        return ("tuple", tuple(identity(v) for v in value))
    if isinstance(value, list):
        return ("list", tuple(identity(v) for v in value))
    if isinstance(value, dict):
        return ("map", tuple(sorted((k, identity(v)) for k, v in value.items())))
    raise TypeError(f"no document value: {value!r}")


def rank(value: Any) -> tuple[Any, ...]:
    """Return the order of a value: null < false < true < numbers < text < bytes < tuples and lists < maps."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (2,) if value else (1,)
    if isinstance(value, (int, float, Decimal)):
        return (3, *_number_rank(value))
    if isinstance(value, str):
        return (4, value)
    if isinstance(value, bytes):
        return (5, value)
    if isinstance(value, (list, tuple)):
        return (6, tuple(rank(v) for v in value))
    if isinstance(value, dict):
        return (7, tuple((k, rank(v)) for k, v in sorted(value.items())))
    raise TypeError(f"no document value: {value!r}")


def _number_rank(value: int | float | Decimal) -> tuple[int, Fraction]:
    if isinstance(value, float) and not math.isfinite(value):
        return (3 if math.isnan(value) else 2 if value > 0 else 0), Fraction(0)
    return 1, Fraction(value)


def place(value: Any) -> tuple[Any, bytes]:
    """Return the total order of a value: its rank, and for equal ranks the bytes of its MessagePack."""
    return rank(value), packed(value)


def packed(value: Any) -> bytes:
    """Return MessagePack: the shortest ints, floats of 64 bits, maps sorted by key.

    Longer ints and Decimals become text.
    """
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return _packed_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", math.nan if math.isnan(value) else value)
    if isinstance(value, Decimal):
        return _extension(2, str(value))
    if isinstance(value, str):
        raw = value.encode()
        return _sized(len(raw), (0xA0, 31), (0xD9, 0xDA, 0xDB)) + raw
    if isinstance(value, bytes):
        return _sized(len(value), (0, -1), (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, dict):
        items = b"".join(packed(key) + packed(item) for key, item in sorted(value.items()))
        return _sized(len(value), (0x80, 15), (0, 0xDE, 0xDF)) + items
    return _sized(len(value), (0x90, 15), (0, 0xDC, 0xDD)) + b"".join(map(packed, value))


def _packed_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b" if value < 0 else ">B", value)
    forms = ((0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q"))
    if value < 0:
        forms = ((0xD0, ">b"), (0xD1, ">h"), (0xD2, ">i"), (0xD3, ">q"))
    for tag, form in forms:
        try:
            return bytes([tag]) + struct.pack(form, value)
        except struct.error:
            pass
    return _extension(1, str(value))


def _extension(code: int, text: str) -> bytes:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(text))
    head = _sized(len(text), (0, -1), (0xC7, 0xC8, 0xC9)) if fixed is None else bytes([fixed])
    return head + bytes([code]) + text.encode()


def _sized(size: int, short: tuple[int, int], tags: tuple[int, int, int]) -> bytes:
    """Return the head of a value with a size: one byte for a short value, else a tag and 1, 2 or 4 bytes."""
    if size <= short[1]:
        return bytes([short[0] | size])
    for tag, form, most in zip(tags, (">B", ">H", ">I"), (1 << 8, 1 << 16, 1 << 32), strict=True):
        if tag and size < most:
            return bytes([tag]) + struct.pack(form, size)
    raise ValueError(f"too long: {size}")


def group_of(value: Any) -> Any:
    """Return the group of a value: integral floats become ints, lists become tuples, and −0.0 becomes 0."""
    if value is None or isinstance(value, (bool, int, bytes)):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return tuple(group_of(v) for v in value)
    raise Refused(f"no group: {type(value).__name__}")


def key_of(value: Any) -> Any:
    """Return the document key of a value: any group except null, of a bounded length."""
    key = group_of(value)
    if key is None:
        raise Refused("the key is null")
    if _weight(key) > LONGEST_KEY:
        raise Refused("the key is too long")
    return key


def _weight(group: Any) -> int:
    if isinstance(group, str):
        return len(group.encode())
    if isinstance(group, bytes):
        return len(group)
    return sum(map(_weight, group)) if isinstance(group, tuple) else 1


def at(value: Any, path: str | None) -> Any:
    """Return the value at a dotted path, or null if there is none."""
    for name in path.split(".") if path else ():
        if isinstance(value, tuple):
            value = dict(zip(map(str, range(len(value))), value, strict=False)).get(name)
            continue
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def instant(text: str) -> Fraction:
    """Return the seconds since 1970 of an RFC 3339 text.

    A leap second at the end of a UTC day counts as the next second.
    """
    found = _INSTANT.fullmatch(text)
    if not found:
        raise Refused(f"not RFC 3339: {text}")
    day, hour, minute, second, part, _, sign, off_hour, off_minute = found.groups()
    if int(second) > 60 or int(off_hour or 0) > 23 or int(off_minute or 0) > 59:
        raise Refused(f"not RFC 3339: {text}")
    try:
        moment = datetime.fromisoformat(day).replace(hour=int(hour), minute=int(minute), tzinfo=UTC)
    except ValueError as error:
        raise Refused(f"not RFC 3339: {text}: {error}") from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    whole = since // timedelta(seconds=1) + int(second)
    offset = int(off_hour or 0) * 3600 + int(off_minute or 0) * 60
    fraction = Fraction(int(part), 10 ** len(part)) if part else Fraction(0)
    whole += offset if sign == "-" else -offset
    if int(second) == 60 and whole % 86400:
        raise Refused(f"no leap second: {text}")
    return whole + fraction


def ts_of(value: Any) -> tuple[str, Fraction]:
    """Return the kind of a ts ("number" or "instant"), and the number that orders it."""
    if isinstance(value, str):
        return "instant", instant(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return "number", Fraction(value)
    raise Refused(f"no ts: {value!r}")
