"""Encode keys of documents and groups as bytes: the bytes sort like the keys.

A key is null, a bool, an int of any size, a float, text, bytes, or a tuple of keys. Kinds sort in this order.
Invariants:

- encode(a) < encode(b) exactly if a sorts before b. Equal keys have equal bytes: 1.0 is 1, −0.0 is 0, a list is
  a tuple, and there is one NaN, after +inf;
- a key decodes to its canonical Python value: an integral number to an int, any other number to a float;
- inside a tuple no element's bytes are a prefix of another's, so elements need no lengths;
- at the top level text, bytes and tuples have no terminator, so all keys with one prefix lie between two bounds.

Layout: a tag, then

| tag | kind   | body                                                                                       |
|-----|--------|--------------------------------------------------------------------------------------------|
| 01  | null   |                                                                                            |
| 02  | false  |                                                                                            |
| 03  | true   |                                                                                            |
| 04  | number | sign and exponent, then the fraction: see key_numbers.py                                   |
| 05  | text   | UTF-8; inside a tuple 00 is written 00 FF, and 00 ends it                                  |
| 06  | bytes  | likewise                                                                                   |
| 07  | tuple  | its elements; inside a tuple 00 ends it                                                    |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from penstock.cache.encoding.key_numbers import float_bytes, int_bytes, read_ints, read_number
from penstock.cache.errors import KeyKind, KeyTooLong, StoreDamaged

Key: TypeAlias = "bool | int | float | str | bytes | tuple[Key, ...] | None"

LONG = 400
"""Encoded keys up to this many bytes are stored whole."""
MAX_KEY = 1 << 16
"""Longer encoded keys are refused. The unit is bytes."""
MAX_KEY_DEPTH = 100
"""The deepest nesting of tuples. Python's stack allows far more, so the limit depends on the key alone."""

_LONG_HEAD = 368
# The digest makes a long key one byte longer than LONG, so the length alone distinguishes it from a whole key.
_DIGEST = LONG - _LONG_HEAD + 1

_NULL, _FALSE, _TRUE, _NUMBER, _TEXT, _BYTES, _TUPLE = (bytes((tag,)) for tag in range(1, 8))
_END = b"\x00"
_ESCAPED = b"\x00\xff"
_PAST = b"\xff"  # above every byte that can follow a prefix: tags, terminators and the bytes of UTF-8

_MANY = 32  # from this many keys on, decoding by column is faster
_TEXT_TAG = _TEXT[0]
_tag = itemgetter(0)
_FEW, _SHORT, _WORD = 16, 1000, 1 << 63  # as many elements, each of at most this length, always fit into MAX_KEY


def encode_key(value: object) -> bytes:
    r"""Encode a key. Keys are stored in the order of these bytes.

    Raise KeyKind if the value can't be a key, and KeyTooLong beyond MAX_KEY bytes.

    >>> encode_key("Sue"), encode_key(1.0) == encode_key(1), encode_key((1, "a")) < encode_key((1, "b"))
    (b'\x05Sue', True, True)
    """
    if type(value) is str:
        key = _TEXT + _utf8(value)
    elif type(value) is int:
        key = _NUMBER + int_bytes(value, MAX_KEY)
    else:
        key = _top(value)
    if len(key) > MAX_KEY:
        raise KeyTooLong(len(key), MAX_KEY)
    return key


def encode_entry(keys: Sequence[object]) -> bytes:
    r"""Encode a tuple of keys. Each key was checked alone; the whole tuple may be longer than MAX_KEY.

    >>> encode_entry(("Oslo", 7)) == encode_key(("Oslo", 7))
    True
    """
    return _TUPLE + _elements(keys, MAX_KEY_DEPTH)


def decode_key(data: bytes) -> Key:
    """Decode a key to its canonical value. Raise StoreDamaged if the bytes are not an encoded key.

    >>> decode_key(encode_key([1.0, "a", None]))
    (1, 'a', None)
    """
    try:
        if data[0] == _TEXT[0]:
            return data[1:].decode()
        key, end = _read_top(data)
    except (IndexError, KeyError, ValueError, OverflowError, RecursionError) as error:
        raise StoreDamaged(f"a key that begins with {data[:16]!r} and can't be decoded: {error!r}") from error
    if end != len(data):
        raise StoreDamaged(f"a key that begins with {data[:16]!r} and has {len(data) - end} bytes too many")
    return key


def decode_keys(keys: Sequence[bytes]) -> list[Any]:
    """Decode many keys. If all are texts, ints or tuples, this costs a fraction of single calls.

    >>> decode_keys([encode_key(i) for i in (7, -1, 1 << 40)])
    [7, -1, 1099511627776]
    """
    if len(keys) >= _MANY and all(keys):
        tags = set(map(_tag, keys))
        if tags == {_NUMBER[0]} and (ints := _ints(keys)) is not None:
            return ints
        if tags == {_TEXT[0]}:
            try:
                return [key[1:].decode() for key in keys]
            except UnicodeDecodeError:
                pass
        if tags == {_TUPLE[0]}:
            try:
                read = [_read_elements(key, 1, len(key)) for key in keys]
            except (IndexError, KeyError, ValueError, OverflowError, RecursionError):
                read = []
            if [end for _, end in read] == list(map(len, keys)):
                return [items for items, _ in read]
    return list(map(decode_key, keys))  # an invalid key raises its error


def _ints(keys: Sequence[bytes]) -> list[int] | None:
    """Decode keys as ints. Return None unless all of them are ints of few bytes."""
    widths = np.fromiter(map(len, keys), np.int64, len(keys))
    raw = np.frombuffer(b"".join(keys), np.uint8)
    starts = np.cumsum(widths) - widths
    out = np.zeros(widths.size, np.int64)
    for width in np.unique(widths).tolist():
        at = (widths == width).nonzero()[0]
        found = read_ints(raw[starts[at][:, None] + np.arange(1, width)])
        if found is None:
            return None
        out[at] = found
    return out.tolist()


def normal_key(value: object) -> Key:
    """Return the canonical key of a value: the result of decode_key after encode_key.

    >>> normal_key(1e3), normal_key(-0.0), normal_key(["a", 2.5])
    (1000, 0, ('a', 2.5))
    """
    if _is_normal(value):
        return value
    if type(value) is float:
        return int(value) if value.is_integer() else value
    if type(value) is tuple and len(value) <= _FEW and all(map(_is_normal, value)):
        return value
    return decode_key(encode_key(value))


def stored_key(encoded: bytes) -> bytes:
    r"""Return the form of an encoded key in the store: the key itself, or the start of a long key and a digest.

    >>> stored_key(b"\x05Sue"), len(stored_key(b"\x05" + b"x" * 1000))
    (b'\x05Sue', 401)
    """
    if len(encoded) <= LONG:
        return encoded
    return encoded[:_LONG_HEAD] + blake2b(encoded, digest_size=_DIGEST).digest()


def is_long(stored: bytes) -> bool:
    r"""Return whether a stored key abbreviates a longer one. The row of such a key holds the whole key.

    >>> is_long(stored_key(b"\x05Sue")), is_long(stored_key(b"\x05" + b"x" * 1000))
    (False, True)
    """
    return len(stored) > LONG


def prefix_bounds(value: object) -> tuple[bytes, bytes]:
    r"""Return the encoded bounds of all keys that begin with a text or tuple: start inclusive, stop exclusive.

    The prefix of a text is any number of its characters. The prefix of a tuple is any number of its whole elements.
    Raise KeyKind for a prefix of another type.

    >>> start, stop = prefix_bounds(("DE",))
    >>> [start <= encode_key(key) < stop for key in [("DE",), ("DE", 1), ("DE\0",), "DE"]]
    [True, True, False, False]
    """
    if not isinstance(value, str | tuple | list):
        raise KeyKind(value, "a prefix is of text or of a tuple")
    start = encode_key(value)
    return start, start + _PAST


def _is_normal(value: object) -> TypeGuard[bool | int | str | None]:
    """Return whether a quick check proves that a value is a canonical key.

    Sixteen such keys are shorter than MAX_KEY.
    """
    if type(value) is str:
        return value.isascii() and len(value) <= _SHORT
    if type(value) is int:
        return -_WORD <= value < _WORD
    return value is None or type(value) is bool


# To bytes.


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise KeyKind(text, "it has half a surrogate pair, which UTF-8 can't say") from None


def _top(value: object) -> bytes:
    if isinstance(value, tuple | list):
        return _TUPLE + _elements(value, MAX_KEY_DEPTH - 1)
    if isinstance(value, str):
        return _TEXT + _utf8(str.__str__(value))
    if isinstance(value, bytes):
        return _BYTES + memoryview(value).tobytes()
    return _element(value)


def _elements(items: Sequence[object], room: int) -> bytes:
    """Encode the elements of a tuple. `room` is the number of further levels of nesting that are allowed."""
    parts = []
    for item in items:
        write = _WRITE.get(type(item))
        if write is not None:
            parts.append(write(item))
        elif isinstance(item, tuple | list):
            if not room:
                raise KeyKind(item, f"tuples nest more than {MAX_KEY_DEPTH} deep")
            parts += (_TUPLE, _elements(item, room - 1), _END)
        else:
            parts.append(_element(item))
    return b"".join(parts)


def _element(value: object) -> bytes:
    """Encode any key but a tuple, as an element of a tuple. An instance of a subclass counts as its base type."""
    for kind, write in _WRITE.items():
        if isinstance(value, kind):
            return write(value)
    raise KeyKind(value)


def _text(value: str) -> bytes:
    raw = _utf8(str.__str__(value))
    if 0 in raw:
        raw = raw.replace(_END, _ESCAPED)
    return _TEXT + raw + _END


def _bytes(value: bytes) -> bytes:
    return _BYTES + memoryview(value).tobytes().replace(_END, _ESCAPED) + _END


def _bool(value: bool) -> bytes:
    return _TRUE if value else _FALSE


def _int(value: int) -> bytes:
    return _NUMBER + int_bytes(int.__int__(value), MAX_KEY)


def _float(value: float) -> bytes:
    return _NUMBER + float_bytes(value)


_WRITE: dict[type, Callable[[Any], bytes]] = {
    str: _text,
    bool: _bool,
    int: _int,
    float: _float,
    type(None): lambda _: _NULL,
    bytes: _bytes,
}


# From bytes. Invalid bytes raise one of the errors that decode_key catches as damage.


def _read_top(data: bytes) -> tuple[Key, int]:
    tag = data[0]
    if tag == _TUPLE[0]:
        return _read_elements(data, 1, len(data))
    if tag == _BYTES[0]:
        return data[1:], len(data)
    return _READ[tag](data, 1)


def _read_elements(data: bytes, at: int, stop: int) -> tuple[tuple[Key, ...], int]:
    """Decode elements up to the end of the data or to the terminator."""
    items: list[Key] = []
    while at < stop and data[at]:
        tag, first = data[at], at + 1
        if tag == _TEXT_TAG:  # most elements are texts without zeros
            end = data.index(0, first)
            if data[end + 1 : end + 2] != _PAST:
                items.append(data[first:end].decode())
                at = end + 1
                continue
        item, at = _READ[tag](data, first)
        items.append(item)
    return tuple(items), at


def _read_tuple(data: bytes, at: int) -> tuple[Key, int]:
    items, end = _read_elements(data, at, len(data))
    if data[end]:
        raise ValueError("a tuple without an end")
    return items, end + 1


def _read_raw(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.index(_END, at)
    if data[end : end + 2] != _ESCAPED:
        return data[at:end], end + 1
    while data[end : end + 2] == _ESCAPED:
        end = data.index(_END, end + 2)
    return data[at:end].replace(_ESCAPED, _END), end + 1


def _read_text(data: bytes, at: int) -> tuple[Key, int]:
    raw, end = _read_raw(data, at)
    return raw.decode(), end


_READ: dict[int, Callable[[bytes, int], tuple[Key, int]]] = {
    _NULL[0]: lambda _, at: (None, at),
    _FALSE[0]: lambda _, at: (False, at),
    _TRUE[0]: lambda _, at: (True, at),
    _NUMBER[0]: read_number,
    _TEXT[0]: _read_text,
    _BYTES[0]: _read_raw,
    _TUPLE[0]: _read_tuple,
}
