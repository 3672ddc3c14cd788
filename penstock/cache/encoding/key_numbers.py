"""Encode numbers as bytes: the bytes sort like the numbers, and ints and floats compare by value.

Invariants: equal numbers of any type have equal bytes. No number's bytes are a prefix of another's.

Layout: a number other than 0 is ±1.f × 2^E. A head byte comes first: 80 for 0, F0 for inf, F1 for NaN.
For a positive number the head encodes E:

- −16 ≤ E < 80: the one byte 82+(E+16);
- below that: the byte 81, then E+1074 in two bytes;
- above that: the byte E2, then E in four bytes.

The bits of f follow, seven to a byte, the highest first. The low bit of each byte is set if another byte follows.
Trailing zero bytes are left out, except for one. A negative number has all its bytes inverted.
"""

from __future__ import annotations

from math import frexp, inf, ldexp, nan

import numpy as np
from numpy.typing import NDArray

from penstock.cache.errors import KeyTooLong

_ZERO, _TINY, _NEAR, _FAR, _INF, _NAN = 0x80, 0x81, 0x82, 0xE2, 0xF0, 0xF1
_E_MIN, _E_NEAR, _E_FAR, _E_FLOAT = -1074, -16, 80, 1023
_INVERSE = bytes(255 - byte for byte in range(256))
_ONE_BYTE = [bytes((byte,)) for byte in range(256)]

_PIECE = 56  # bits of a fraction that are spread in one step: seven bytes become eight
_PIECE_MASK = (1 << _PIECE) - 1
_EXACT = b"\x00"  # a fraction of 0
_FEW = 16  # fractions up to this many bytes are joined byte by byte
_FEW_BYTES, _E_WHOLE = 9, 62  # ints up to these limits have a fraction and a value that fit into 63 bits


def int_bytes(value: int, limit: int) -> bytes:
    """Encode an int of any size. Raise KeyTooLong if its fraction alone takes more than `limit` bytes.

    >>> int_bytes(3, 100) < int_bytes(4, 100) < int_bytes(10**40, 100)
    True
    """
    if value > 0:
        return _whole(value, limit)
    if value:
        return _whole(-value, limit).translate(_INVERSE)
    return _ONE_BYTE[_ZERO]


def float_bytes(value: float) -> bytes:
    """Encode a float. An integral float gets the bytes of the equal int.

    >>> float_bytes(-0.5) < float_bytes(0.5) < int_bytes(1, 100) == float_bytes(1.0)
    True
    """
    if value == 0:
        return _ONE_BYTE[_ZERO]
    if value != value:
        return _ONE_BYTE[_NAN]
    size = abs(value)
    if size == inf:
        body = _ONE_BYTE[_INF]
    else:
        mantissa, exponent = frexp(size)
        fraction = int(mantissa * (2 << _PIECE)) & _PIECE_MASK
        body = _HEADS[exponent - 1 - _E_MIN] + _fraction(fraction)
    return body if value > 0 else body.translate(_INVERSE)


def read_number(data: bytes, at: int) -> tuple[int | float, int]:
    """Decode the number at an offset. Return it, as an int if it is integral, and the offset after it.

    >>> read_number(float_bytes(1e3), 0)
    (1000, 2)
    """
    flip = 0 if data[at] & _ZERO else 0xFF
    head = data[at] ^ flip
    at += 1
    if head == _ZERO:
        return 0, at
    if head >= _INF:
        return {_INF: -inf if flip else inf, _NAN: nan}[head], at
    exponent = head - _NEAR + _E_NEAR
    if head in (_TINY, _FAR):
        raw = data[at : at + (2 if head == _TINY else 4)]
        at += len(raw)
        exponent = int.from_bytes(raw.translate(_INVERSE) if flip else raw, "big")
        if head == _TINY:
            exponent += _E_MIN
    end = at
    while (data[end] ^ flip) & 1:
        end += 1
    end += 1
    mantissa = 1 << (end - at) * 7 | _join(data[at:end].translate(_INVERSE) if flip else data[at:end])
    size = _scaled(mantissa, exponent - (end - at) * 7)
    return (-size if flip else size), end


def read_ints(rows: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """Decode rows of equal width. Return None unless all of them are ints of few bytes.

    >>> own = [int_bytes(value, 100) for value in (-5, 7, 96)]
    >>> read_ints(np.frombuffer(b"".join(own), np.uint8).reshape(3, -1)).tolist()
    [-5, 7, 96]
    """
    n, width = rows.shape
    if width < 2 or width > _FEW_BYTES:
        return np.zeros(n, np.int64) if width == 1 and bool((rows == _ZERO).all()) else None
    negative = rows[:, 0] < _ZERO
    own = rows ^ (negative * np.uint8(0xFF))[:, None]
    shift = own[:, 0].astype(np.int64) - (_NEAR - _E_NEAR) - 7 * (width - 1)  # exponent less stored bits
    fits = (own[:, 0] >= _NEAR) & (own[:, 0] <= _NEAR - _E_NEAR + _E_WHOLE)
    more = (own[:, 1:] & 1).astype(bool)
    if not bool(fits.all()) or bool(more[:, -1].any()) or not bool(more[:, :-1].all()):
        return None
    mantissa = np.ones(n, np.int64)
    for i in range(1, width):
        mantissa = mantissa << 7 | own[:, i] >> 1
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    if bool((right > 62).any()) or bool((mantissa & ((np.int64(1) << right) - 1)).any()):
        return None
    size = mantissa << left >> right
    out: NDArray[np.int64] = np.where(negative, -size, size)
    return out


def _whole(value: int, limit: int) -> bytes:
    """Return the head and the fraction of a positive int."""
    exponent = value.bit_length() - 1
    if exponent <= 14:
        bits = value << 15 - exponent
        if bits & 0xFE:
            return bytes((exponent + _NEAR - _E_NEAR, bits >> 7 & 0xFE | 1, bits & 0xFE))
        return bytes((exponent + _NEAR - _E_NEAR, bits >> 7 & 0xFE))
    if exponent <= _PIECE:
        return _HEADS[exponent - _E_MIN] + _fraction((value << (_PIECE - exponent)) & _PIECE_MASK)
    zeros = (value & -value).bit_length() - 1
    used = exponent - zeros
    if used // 7 > limit or exponent >> 32:
        raise KeyTooLong(used // 7, limit)
    if not used:
        return _head(exponent) + _EXACT
    fill = -used % _PIECE
    raw = ((value >> zeros ^ 1 << used) << fill).to_bytes((used + fill) // 8, "big")
    pieces = [_spread(int.from_bytes(raw[at : at + 7], "big")).to_bytes(8, "big") for at in range(0, len(raw), 7)]
    fraction = b"".join(pieces).rstrip(b"\x01")
    return _head(exponent) + fraction[:-1] + bytes((fraction[-1] ^ 1,))


def _head(exponent: int) -> bytes:
    if exponent < _E_NEAR:
        return bytes((_TINY,)) + (exponent - _E_MIN).to_bytes(2, "big")
    if exponent < _E_FAR:
        return bytes((_NEAR + exponent - _E_NEAR,))
    return bytes((_FAR,)) + exponent.to_bytes(4, "big")


def _fraction(bits: int) -> bytes:
    """Encode one piece of a fraction. The low bit of its last byte marks the end."""
    if not bits:
        return _EXACT
    unused = ((bits & -bits).bit_length() - 1) // 7
    return ((_spread(bits) >> (unused << 3)) ^ 1).to_bytes(8 - unused, "big")


def _spread(bits: int) -> int:
    """Spread seven bytes of bits over eight bytes. Each byte says that another one follows."""
    bits = (bits & 0xFFFFFFF0000000) << 4 | (bits & 0x0000000FFFFFFF)
    bits = (bits & 0x0FFFC0000FFFC000) << 2 | (bits & 0x00003FFF00003FFF)
    bits = (bits & 0x3F803F803F803F80) << 1 | (bits & 0x007F007F007F007F)
    return bits << 1 | 0x0101010101010101


def _join(chunks: bytes) -> int:
    """Concatenate the upper seven bits of all bytes."""
    if len(chunks) > _FEW:
        half = len(chunks) // 2
        return _join(chunks[:half]) << (len(chunks) - half) * 7 | _join(chunks[half:])
    bits = 0
    for chunk in chunks:
        bits = bits << 7 | chunk >> 1
    return bits


def _scaled(mantissa: int, shift: int) -> int | float:
    if shift >= 0:
        return mantissa << shift
    if mantissa & ((1 << -shift) - 1):
        return ldexp(mantissa, shift)
    return mantissa >> -shift


_HEADS = [_head(exponent) for exponent in range(_E_MIN, _E_FLOAT + 1)]
