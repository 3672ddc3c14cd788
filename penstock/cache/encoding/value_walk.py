"""Walk over a value: one recursion, controlled by a table of types, that normalises, packs or sorts it.

Invariants:

- the result holds only exact document types, or their forms in MessagePack;
- the walk counts the depth and refuses a value beyond MAX_DEPTH, long before Python's stack ends;
- a refusal names the path of the refused value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Rounded
from math import nan
from typing import Any
from uuid import UUID

import msgspec

from penstock.cache.big_ints import MAX_DIGITS, has_too_many_digits, int_to_text, text_to_int
from penstock.cache.errors import ValueKind

EXT_INT = 1
"""The MessagePack extension of an int outside −2^63 … 2^64−1: its decimal text."""
EXT_DECIMAL = 2
"""The MessagePack extension of a Decimal: its text, which keeps trailing zeros."""
MAX_DEPTH = 100
"""The deepest nesting of lists and maps. Python's stack allows far more, so the limit depends on the value alone."""
MAX_EXPONENT = 6144
"""The adjusted exponent of a Decimal is within ± this, as in IEEE decimal128. So exact sums have a bounded size."""

PLAIN: frozenset[type] = frozenset({str, int, float, bool, bytes, type(None)})
CHECKED: frozenset[type] = frozenset({int, float, bool, bytes, type(None)})
_SAFE: frozenset[type] = frozenset({bool, bytes, type(None)})
TEXT: frozenset[type] = frozenset({str})

_TOO_DEEP = f"lists and maps nest more than {MAX_DEPTH} deep"
_TOO_MANY_DIGITS = f"it has more than {MAX_DIGITS:,} digits"
_EXACT = Context(prec=1, capitals=1, traps=[])  # for texts only, which no precision affects
_DIGITS = Context(prec=MAX_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Rounded])
_SHORT = 300  # characters of a finite number without an exponent that is certainly in range
_MOST_TEXT = MAX_DIGITS + 8  # characters of a number as text, with its sign, point and exponent


@dataclass(frozen=True, slots=True)
class WalkRules:
    """The rules of one walk: types that it keeps, types that it converts, and a conversion for all other types.

    The result of `other` is walked again.
    """

    same: frozenset[type]
    leaves: dict[type, Callable[[Any], object]]
    other: Callable[[object], object]
    ordered: bool = False
    depth: int = MAX_DEPTH


class _Refused(Exception):
    """A value that no document can hold. `steps` is the path to it, the innermost step first."""

    def __init__(self, value: object, reason: str = "") -> None:
        super().__init__(value, reason)
        self.value = value
        self.reason = reason
        self.steps: list[str] = []


def walked(value: object, how: WalkRules) -> Any:
    """Walk a value and return the result. Raise ValueKind with the path of a value that the walk refuses."""
    try:
        return _walk(value, how, how.depth)
    except _Refused as refused:
        raise ValueKind(refused.value, ".".join(reversed(refused.steps)), refused.reason) from None
    except RecursionError:
        raise ValueKind(value, "", "it nests deeper than the rest of the stack") from None


def _walk(value: Any, how: WalkRules, room: int) -> object:
    """Walk one value. `room` is the number of further levels of lists and maps that are allowed."""
    kind = type(value)
    if kind in how.same:
        return value
    if kind is dict:
        return _walk_map(value, how, room)
    if kind is list or kind is tuple:
        return _walk_list(value, how, room)
    leaf = how.leaves.get(kind)
    return leaf(value) if leaf is not None else _walk(how.other(value), how, room)


def _walk_map(value: dict[Any, Any], how: WalkRules, room: int) -> dict[str, object]:
    if not room:
        raise _Refused(value, _TOO_DEEP)
    if not TEXT.issuperset(map(type, value)):
        value = _with_text_keys(value)
    key = ""
    out: dict[str, object] = {}
    try:
        for key in sorted(value) if how.ordered else value:
            item = value[key]
            out[_clean(key)] = item if type(item) in how.same else _walk(item, how, room - 1)
    except _Refused as refused:
        refused.steps.append(key)
        raise
    return out


def _walk_list(value: list[Any] | tuple[Any, ...], how: WalkRules, room: int) -> list[object]:
    if not room:
        raise _Refused(value, _TOO_DEEP)
    if how.same.issuperset(map(type, value)):
        return list(value)
    out: list[object] = []
    try:
        for item in value:
            out.append(item if type(item) in how.same else _walk(item, how, room - 1))
    except _Refused as refused:
        refused.steps.append(str(len(out)))
        raise
    return out


def _with_text_keys(value: dict[Any, Any]) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _Refused(value, f"one of its keys is of type {type(key).__name__} and no text")
    plain = {str.__str__(key): item for key, item in value.items()}
    if len(plain) < len(value):
        raise _Refused(value, "two of its keys are the same text")
    return plain


def _clean(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Refused(text, "it has half a surrogate pair, which UTF-8 can't say") from None
    return text


def _in_range(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise _Refused(value, "a Decimal is finite")
    if abs(value.adjusted()) > MAX_EXPONENT:
        raise _Refused(value, f"a Decimal's exponent is within ±{MAX_EXPONENT}")
    try:
        _DIGITS.plus(value)
    except Rounded:
        raise _Refused(value, _TOO_MANY_DIGITS) from None
    return value


def _decimal_bytes(value: Decimal) -> msgspec.msgpack.Ext:
    text = _EXACT.to_sci_string(value)
    if len(text) > _SHORT or "E" in text or not value.is_finite():
        _in_range(value)
    return msgspec.msgpack.Ext(EXT_DECIMAL, text.encode())


def decimals_packed(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return a flat map of plain values and Decimals with its Decimals packed, or None if a Decimal is out of range."""
    try:
        return {key: _decimal_bytes(item) if type(item) is Decimal else item for key, item in value.items()}
    except _Refused:
        return None


def _int_bytes(value: int) -> int | msgspec.msgpack.Ext:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return msgspec.msgpack.Ext(EXT_INT, int_to_text(value).encode())


def _received_int(value: int) -> int:
    if has_too_many_digits(value):
        raise _Refused(value, _TOO_MANY_DIGITS)
    return value


def _one_nan(value: float) -> float:
    return value if value == value else nan


def extension(code: int, data: memoryview) -> int | Decimal:
    """Decode a MessagePack extension, as a decoder's `ext_hook`. Raise ValueError for an unknown code."""
    text = str(data, "ascii")
    if code == EXT_INT:
        return text_to_int(text)
    if code != EXT_DECIMAL:
        raise ValueError(f"extension {code} is none of its")
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(f"{text!r} is no finite Decimal")
    return value


def received_extension(code: int, data: memoryview) -> int | Decimal:
    """Decode a MessagePack extension from outside. Its length is checked before it is converted."""
    if len(data) > _MOST_TEXT:
        raise ValueError(f"a number of {len(data):,} bytes")
    return extension(code, data)


def _refuse(value: object) -> object:
    raise _Refused(value)


def _plain_of(value: object) -> object:
    """Convert a value that is not of a document type to the document type that represents it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _plain_of_numpy(numpy, value)
    kind = type(value)
    if kind.__name__ in ("NaTType", "NAType") and kind.__module__.startswith("pandas."):
        return None
    for base, convert in _MEANT:
        if isinstance(value, base):
            return convert(value)
    raise _Refused(value)


def _plain_of_numpy(numpy: Any, value: Any) -> object:
    kind = value.dtype.kind
    if kind in "mM" and numpy.isnat(value):
        return None
    if kind == "M":
        return str(value)
    plain = value.item()
    if kind in "mV" or isinstance(plain, numpy.generic):
        raise _Refused(value)
    return plain


_MEANT: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda value: memoryview(value).tobytes()),
    (bytearray, bytes),
    (memoryview, memoryview.tobytes),
    (Decimal, Decimal),
    (list, list),
    (tuple, list),
    (Mapping, lambda value: dict(value.items())),
    (date, lambda value: value.isoformat()),
    (time, lambda value: value.isoformat()),
    (UUID, str),
)
_EACH: dict[type, Callable[[Any], object]] = {str: _clean, int: _int_bytes, float: _one_nan, Decimal: _decimal_bytes}
_ROW = MAX_DEPTH + 28  # a row nests its values inside lists of its own

NORMALISE = WalkRules(CHECKED, {str: _clean, Decimal: _in_range}, _plain_of)
BOUND = WalkRules((CHECKED - {int}) | {str, Decimal}, {int: _received_int}, _refuse)
"""Refuse ints of too many digits in a value that NORMALISE returned."""
PACK = WalkRules(PLAIN, {Decimal: _decimal_bytes}, _refuse, depth=_ROW)
PACK_ALL = WalkRules(_SAFE, _EACH, _refuse, depth=_ROW)
PACK_ANY = WalkRules(_SAFE, _EACH | {int: lambda value: _int_bytes(_received_int(value))}, _plain_of)
CANONICAL = WalkRules(PLAIN, {Decimal: _decimal_bytes}, _refuse, ordered=True, depth=_ROW)
CANONICAL_ALL = WalkRules(_SAFE, _EACH, _refuse, ordered=True, depth=_ROW)
