"""Document values: what a document may hold, and its bytes.

A value is null, a bool, an int, a float, a Decimal, text, bytes, a list of values or a map with text keys. An int or a
Decimal that comes in has at most 10,000 digits; results, such as sums of them, may have more.
It is stored as MessagePack, where an int outside −2^63 … 2^64−1 is extension 1 and a Decimal extension 2, both as
decimal text. Invariants:

- what `normalise` returns has exactly these types, no subclass of them, text that is UTF-8, Decimals in range, and at
  most MAX_DEPTH maps and lists inside each other; `pack` and `canonical` refuse whatever else they meet, but for some
  more lists around it;
- `unpack(pack(v))` is v, with lists for tuples; the order of maps is kept; there is one NaN;
- `canonical(v)` is the same for equal documents alone: ints shortest, floats in 64 bits, maps sorted by key. So 1 and
  1.0 differ, as do Decimals that are written differently.

Flat maps and lists of plain values are told by their types alone and encoded as they are. Only what the encoder then
refuses (ints beyond 64 bits, text that isn't UTF-8), NaN, and other types are walked value by value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, DecimalException
from math import isinf
from typing import Any

import msgspec

from penstock.cache.big_ints import MAX_DIGITS, received_int, text_to_int
from penstock.cache.encoding.value_walk import (
    BOUND,
    CANONICAL,
    CANONICAL_ALL,
    CHECKED,
    MAX_DEPTH,
    NORMALISE,
    PACK,
    PACK_ALL,
    PACK_ANY,
    PLAIN,
    TEXT,
    extension,
    received_extension,
    walked,
)
from penstock.cache.errors import RecordError, StoreDamaged, ValueKind

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=extension).decode
_decode_received = msgspec.msgpack.Decoder(ext_hook=received_extension).decode
_long_number = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1)).search
_decode_json = msgspec.json.Decoder().decode
_WIDE = 1 << 63
_all_text = TEXT.issuperset
_all_plain = PLAIN.issuperset
_UNPACKING = (msgspec.DecodeError, ValueError, TypeError, DecimalException, RecursionError)
_near_nan = re.compile(rb"\xcb[\x7f\xff]").search  # a float from ±2^1009 on, or NaN; UTF-8 has no such bytes


def normalise(value: object) -> Any:
    """The document value that this Python value means; a flat map of plain values is returned itself.

    Tuples become lists, dates, times and UUIDs text, missing values of pandas null, scalars of NumPy and instances of
    subclasses what they are made of. Anything else raises ValueKind, which names its path.

    >>> from datetime import date
    >>> normalise({"when": date(2024, 1, 31), "at": (1, 2)})
    {'when': '2024-01-31', 'at': [1, 2]}
    """
    if type(value) is dict:
        if _all_text(map(type, value)) and _all_plain(map(type, value.values())):
            try:
                _encode(value)
            except (OverflowError, UnicodeEncodeError):
                pass
            else:
                return value
    elif type(value) in CHECKED and (type(value) is not int or -_WIDE < value < _WIDE):
        return value
    out = walked(value, NORMALISE)
    try:
        _encode(out)
    except OverflowError:  # an int beyond 64 bits is in it
        return walked(out, BOUND)
    return out


def pack(value: object) -> bytes:
    r"""The stored bytes of a document value; ValueKind for what `normalise` would not return.

    >>> pack({"a": 1, "b": None}), unpack(pack([1 << 64, b"x"]))
    (b'\x82\xa1a\x01\xa1b\xc0', [18446744073709551616, b'x'])
    """
    if type(value) in PLAIN or (type(value) is dict and _is_flat(value)):
        quick = value
    else:
        quick = walked(value, PACK)
    data = _plain_bytes(quick)
    return data if data is not None else _encode(walked(value, PACK_ALL))


def pack_document(doc: Mapping[str, object]) -> bytes:
    """`pack(normalise(doc))` in one pass; ValueKind for what is no map.

    >>> unpack(pack_document({"id": 7, "at": (1, 2)}))
    {'id': 7, 'at': [1, 2]}
    """
    if type(doc) is dict and _is_flat(doc):
        data = _plain_bytes(doc)
        if data is not None:
            return data
    elif not isinstance(doc, Mapping):
        raise ValueKind(doc, "", "it is no map")
    return _encode(walked(doc, PACK_ANY))


def canonical(value: object) -> bytes:
    """The canonical bytes of a document value, the same for equal ones alone.

    >>> canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1}), canonical(1) == canonical(1.0)
    (True, False)
    """
    if type(value) in PLAIN:
        quick = value
    elif type(value) is dict and _is_flat(value):
        quick = {key: value[key] for key in sorted(value)}
    else:
        quick = walked(value, CANONICAL)
    data = _plain_bytes(quick)
    return data if data is not None else _encode(walked(value, CANONICAL_ALL))


def unpack(data: bytes | memoryview) -> Any:
    """The document value of stored bytes; StoreDamaged where they are none.

    >>> from decimal import Decimal
    >>> unpack(pack({"price": Decimal("1.50")}))
    {'price': Decimal('1.50')}
    """
    try:
        return _decode(data)
    except _UNPACKING as error:
        raise StoreDamaged(f"a value that begins with {bytes(data[:16])!r} and can't be unpacked: {error}") from error


def unpack_received(data: bytes | memoryview) -> Any:
    """Decode the bytes of another program; StoreDamaged for a number of too many digits, before its conversion."""
    try:
        return _decode_received(data)
    except _UNPACKING as error:
        raise StoreDamaged(f"a value that begins with {bytes(data[:16])!r} and can't be unpacked: {error}") from error


def unpack_document(line: bytes) -> dict[str, Any]:
    """The document of a stored line, which is JSON or MessagePack.

    JSON that can't be taken, by its form, its numbers or its depth, raises RecordError.

    >>> unpack_document(b'{"id": 7}') == unpack_document(pack({"id": 7}))
    True
    """
    return _document(_from_json(line, _any_size) if is_json(line) else unpack(line), line)


def received_document(line: bytes) -> dict[str, Any]:
    """Decode a line that comes in; RecordError or StoreDamaged for a number of more than MAX_DIGITS digits too.

    >>> received_document(b' {"id": 7}')
    {'id': 7}
    """
    return _document(_from_json(line, decode_json) if is_json(line) else unpack_received(line), line)


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON text, be it after white space; no line of MessagePack begins with ASCII.

    >>> is_json(b'\\t{"id": 7}'), is_json(pack({"id": 7}))
    (True, False)
    """
    return line[:1] < b"\x80"


def has_long_number(line: bytes) -> bool:
    """Return whether a line may hold a number of more than MAX_DIGITS digits."""
    return len(line) > MAX_DIGITS and _long_number(line) is not None


def _document(value: Any, line: bytes) -> dict[str, Any]:
    if type(value) is not dict:
        raise StoreDamaged(f"a document that begins with {line[:16]!r} and is no map")
    return value


def same_document(a: bytes, b: bytes) -> bool:
    """Whether two stored lines hold equal documents, whatever their form and order of fields.

    >>> same_document(b'{"a": 1, "b": 2}', pack({"b": 2, "a": 1})), same_document(b'{"a": 1}', b'{"a": 1.0}')
    (True, False)
    """
    return a == b or canonical(unpack_document(a)) == canonical(unpack_document(b))


def _is_flat(value: dict[Any, Any]) -> bool:
    return _all_text(map(type, value)) and _all_plain(map(type, value.values()))


def _plain_bytes(value: object) -> bytes | None:
    """MessagePack of a value of plain types, or None if it asks for a walk."""
    try:
        data = _encode(value)
    except (OverflowError, UnicodeEncodeError):
        return None
    return None if _near_nan(data) else data


# JSON.


def _from_json(line: bytes, decode: Callable[[str], Any]) -> Any:
    try:
        try:
            if has_long_number(line):  # where Python's own limit of digits is off, msgspec would convert it at any cost
                raise msgspec.ValidationError
            doc = _decode_json(line)
        except msgspec.ValidationError:  # a number that msgspec doesn't take, among them ints of thousands of digits
            doc = walked(decode(line.decode()), NORMALISE)
        if len(line) > 2 * MAX_DEPTH and line.count(b"{") + line.count(b"[") > MAX_DEPTH:
            walked(doc, NORMALISE)
    except ValueKind as error:
        raise RecordError(f"at {error.path!r}: {error.why}") from None
    except RecursionError:
        raise RecordError(f"its lists and maps nest more than {MAX_DEPTH} deep") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordError(f"its JSON can't be taken: {error}") from None
    return doc


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"the number {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'} is out of range")
    return value


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


_SHOWN = 40
_any_size = json.JSONDecoder(parse_int=text_to_int, parse_float=_finite, parse_constant=_no_number).decode
decode_json = json.JSONDecoder(parse_int=received_int, parse_float=_finite, parse_constant=_no_number).decode
"""The value of a JSON text, ValueError where it is none: ints of at most MAX_DIGITS digits, floats that are finite."""


# Order.


def order_key(value: object) -> tuple[object, ...]:
    """Sorts document values: as keys are sorted, Decimals among the numbers, lists as tuples, then maps by their items.

    Numbers compare by value exactly; what then is equal is ordered by its canonical bytes.

    >>> sorted([{"a": 1}, [2], "x", 1.5, True, None, 1], key=order_key)
    [None, True, 1, 1.5, 'x', [2], {'a': 1}]
    """
    if type(value) in _TOTAL:
        return _order(value)
    last = canonical(value)
    return (*_order(value), last)


_NULL, _BOOL, _NUMBER, _NAN, _TEXT, _BYTES, _LIST, _MAP = range(8)
_TOTAL: frozenset[type] = PLAIN - {int, float}  # types of which equal values have equal bytes


def _order(value: Any) -> tuple[Any, ...]:
    """The order of what `canonical` takes, but for ties."""
    kind = type(value)
    if kind is str:
        return _TEXT, value
    if kind is int or kind is Decimal:
        return _NUMBER, value
    if kind is float:
        # As a Decimal, which it equals exactly: Decimals and floats compare only where the caller's context lets them.
        return (_NUMBER, Decimal.from_float(value)) if value == value else (_NAN,)
    if kind is list or kind is tuple:
        return _LIST, tuple(map(_order, value))
    if kind is dict:
        return _MAP, tuple((key, _order(value[key])) for key in sorted(value))
    if value is None:
        return (_NULL,)
    if kind is bool:
        return _BOOL, value
    return _BYTES, value
