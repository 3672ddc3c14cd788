"""Encode document values: the types that a document may hold, and their bytes.

A value is null, a bool, an int, a float, a Decimal, text, bytes, a list of values or a map with text keys. A received
int or Decimal has at most 10,000 digits. Results, such as sums, may have more.
Values are stored as MessagePack. An int outside −2^63 … 2^64−1 is extension 1, a Decimal is extension 2. Both hold
decimal text. Invariants:

- `normalise` returns exactly these types and no subclasses. Text is valid UTF-8, Decimals are in range, and lists and
  maps nest at most MAX_DEPTH deep;
- `pack` and `canonical` refuse any other value, but they allow some more lists around it;
- `unpack(pack(v))` is v, with lists for tuples. The order of maps is kept. There is one NaN;
- `canonical(v)` is equal for equal documents only: ints in their shortest form, floats in 64 bits, maps sorted by key.
  So 1 and 1.0 differ, and so do Decimals with different digits.

Flat maps and lists of plain values are recognised by their types and encoded directly. Only the remaining values are
walked one by one: ints beyond 64 bits, text that isn't UTF-8, NaN, and other types.
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
    decimals_packed,
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
_FLAT = PLAIN | {Decimal}
_all_plain = PLAIN.issuperset
_UNPACKING = (msgspec.DecodeError, ValueError, TypeError, DecimalException, RecursionError)
_near_nan = re.compile(rb"\xcb[\x7f\xff]").search  # matches a float from ±2^1009 on, or NaN; UTF-8 has no such bytes


def normalise(value: object) -> Any:
    """Convert a Python value to a document value. A flat map of plain values is returned unchanged.

    Tuples become lists. Dates, times and UUIDs become text. Missing values of pandas become null. NumPy scalars and
    instances of subclasses become their plain types. Any other value raises ValueKind, which names its path.

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
    r"""Return the stored bytes of a document value. Raise ValueKind for a value that `normalise` does not return.

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
    """Return `pack(normalise(doc))` in one pass. Raise ValueKind if `doc` is no map.

    >>> unpack(pack_document({"id": 7, "at": (1, 2)}))
    {'id': 7, 'at': [1, 2]}
    """
    if type(doc) is dict and _all_text(map(type, doc)):
        types = set(map(type, doc.values()))
        if types <= _FLAT:
            flat = doc if Decimal not in types else decimals_packed(doc)
            data = None if flat is None else _plain_bytes(flat)
            if data is not None:
                return data
    elif not isinstance(doc, Mapping):
        raise ValueKind(doc, "", "it is no map")
    return _encode(walked(doc, PACK_ANY))


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a document value. They are equal for equal values only.

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
    """Decode the stored bytes of a document value. Raise StoreDamaged if they are not valid.

    >>> from decimal import Decimal
    >>> unpack(pack({"price": Decimal("1.50")}))
    {'price': Decimal('1.50')}
    """
    try:
        return _decode(data)
    except _UNPACKING as error:
        raise StoreDamaged(f"a value that begins with {bytes(data[:16])!r} and can't be unpacked: {error}") from error


def unpack_received(data: bytes | memoryview) -> Any:
    """Decode the bytes of another program. A number of too many digits raises StoreDamaged before it is converted."""
    try:
        return _decode_received(data)
    except _UNPACKING as error:
        raise StoreDamaged(f"a value that begins with {bytes(data[:16])!r} and can't be unpacked: {error}") from error


def unpack_document(line: bytes) -> dict[str, Any]:
    """Decode the document of a stored line of JSON or MessagePack.

    Raise RecordError if the JSON is invalid, holds a number out of range, or nests too deep.

    >>> unpack_document(b'{"id": 7}') == unpack_document(pack({"id": 7}))
    True
    """
    return _document(_from_json(line, _any_size) if is_json(line) else unpack(line), line)


def received_document(line: bytes) -> dict[str, Any]:
    """Decode a received line. Raise RecordError or StoreDamaged also for a number of more than MAX_DIGITS digits.

    >>> received_document(b' {"id": 7}')
    {'id': 7}
    """
    return _document(_from_json(line, decode_json) if is_json(line) else unpack_received(line), line)


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON text, possibly after white space.

    No MessagePack map or list begins with an ASCII byte.

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
    """Return whether two stored lines hold equal documents, in any encoding and order of fields.

    >>> same_document(b'{"a": 1, "b": 2}', pack({"b": 2, "a": 1})), same_document(b'{"a": 1}', b'{"a": 1.0}')
    (True, False)
    """
    return a == b or canonical(unpack_document(a)) == canonical(unpack_document(b))


def _is_flat(value: dict[Any, Any]) -> bool:
    return _all_text(map(type, value)) and _all_plain(map(type, value.values()))


def _plain_bytes(value: object) -> bytes | None:
    """Encode a value of plain types as MessagePack. Return None if it needs a walk."""
    try:
        data = _encode(value)
    except (OverflowError, UnicodeEncodeError):
        return None
    return None if _near_nan(data) else data


# JSON.


def _from_json(line: bytes, decode: Callable[[str], Any]) -> Any:
    try:
        try:
            if has_long_number(line):  # without Python's limit of digits msgspec would convert it at any cost
                raise msgspec.ValidationError
            doc = _decode_json(line)
        except msgspec.ValidationError:  # msgspec refuses some numbers, among them ints of thousands of digits
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
"""Decode a JSON text. Raise ValueError for invalid text, ints of more than MAX_DIGITS digits and infinite floats."""


# Order.


def order_key(value: object) -> tuple[object, ...]:
    """Return a sort key for document values. They sort like keys; Decimals are numbers, lists sort as tuples, maps come
    last.

    Numbers compare by exact value. Values that are then equal are ordered by their canonical bytes.

    >>> sorted([{"a": 1}, [2], "x", 1.5, True, None, 1], key=order_key)
    [None, True, 1, 1.5, 'x', [2], {'a': 1}]
    """
    if type(value) in _TOTAL:
        return _order(value)
    last = canonical(value)
    return (*_order(value), last)


_NULL, _BOOL, _NUMBER, _NAN, _TEXT, _BYTES, _LIST, _MAP = range(8)
_TOTAL: frozenset[type] = PLAIN - {int, float}  # types whose equal values have equal bytes


def _order(value: Any) -> tuple[Any, ...]:
    """Return the sort key of a value without the canonical bytes that break ties."""
    kind = type(value)
    if kind is str:
        return _TEXT, value
    if kind is int or kind is Decimal:
        return _NUMBER, value
    if kind is float:
        # Convert it to the exactly equal Decimal: whether Decimals and floats compare depends on the caller's context.
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
