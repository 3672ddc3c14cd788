"""Filters of a query as ranges of keys, so that a scan skips other rows. Spark still applies the filters exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.cache import PenstockError, encode_key
from penstock.spark.verify_job.spans import Span

__all__ = ["keys_asked", "narrowed"]

_HEAD = 368  # length of the prefix that is stored of a long key
_PAST = b"\xff" * 40
_PLAIN = (str, int, float, bool, bytes)


def narrowed(filters: Sequence[Any], column: str) -> Span:
    """Return the range of stored keys that has all rows of these filters, in a view with one column of groups."""
    start, stop = b"", None
    for one in filters:
        if getattr(one, "attribute", None) != (column,):
            continue
        low, high = _range(type(one).__name__, getattr(one, "value", None))
        start = max(start, low)
        stop = high if stop is None else stop if high is None else min(stop, high)
    return Span(start, stop)


def keys_asked(filters: Sequence[Any], columns: Sequence[str]) -> list[Any] | None:
    """Return the keys that these filters name, in a table with these key columns. None means any key."""
    found: dict[str, list[Any]] = {}
    for one in filters:
        attribute, value = getattr(one, "attribute", None), getattr(one, "value", None)
        if attribute is None or len(attribute) != 1 or attribute[0] not in columns:
            continue
        if type(one).__name__ == "EqualTo" and isinstance(value, _PLAIN):
            found[attribute[0]] = [value]
        elif type(one).__name__ == "In" and len(columns) == 1 and all(isinstance(v, _PLAIN) for v in one.value):
            found[attribute[0]] = list(dict.fromkeys(one.value))
    if len(found) < len(columns):
        return None
    return found[columns[0]] if len(columns) == 1 else [tuple(found[name][0] for name in columns)]


def _range(kind: str, value: Any) -> tuple[bytes, bytes | None]:
    """Return the first key that the filter may keep, and the end of the range."""
    if not isinstance(value, _PLAIN):
        return b"", None
    try:
        key = encode_key(value)
    except PenstockError:
        return b"", None
    low, past = key[:_HEAD], (key + b"\0" if len(key) <= _HEAD else key[:_HEAD] + _PAST)
    if kind in ("EqualTo", "EqualNullSafe"):
        return low, past
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return low, None
    if kind in ("LessThan", "LessThanOrEqual"):
        return b"", past
    return (low, key[:_HEAD] + _PAST) if kind == "StringStartsWith" else (b"", None)
