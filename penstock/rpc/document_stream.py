"""Concatenated MessagePack documents: cut where each one ends, and decoded.

Only the lengths are read to find the ends. A document may hold bytes, an int of any size (extension 1, decimal text)
and a Decimal (extension 2, decimal text), as stored documents do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.cache import DefinitionError, StoreDamaged, unpack_received

__all__ = ["documents_in"]

_SKIP = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SKIP |= {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
_LENGTH = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_ITEMS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXTENSIONS = (0xC7, 0xC8, 0xC9)


def documents_in(data: bytes) -> Iterator[Any]:
    """Yield the documents. DefinitionError names one that is cut, or is no MessagePack.

    >>> from penstock.cache import pack
    >>> list(documents_in(pack({"id": 7}) + pack({"id": 1 << 70, "at": b"x"})))
    [{'id': 7}, {'id': 1180591620717411303424, 'at': b'x'}]
    """
    at, number = 0, 0
    while at < len(data):
        number += 1
        try:
            end = _end(data, at)
            yield unpack_received(data[at:end])
        except (IndexError, KeyError):
            raise DefinitionError(f"document {number} of msgpack is cut, or is no MessagePack") from None
        except StoreDamaged as error:
            raise DefinitionError(f"document {number} of msgpack can't be decoded: {error.where}") from None
        at = end


def _end(data: bytes, at: int) -> int:
    """Return the end of the value that begins at a place. IndexError or KeyError if there is none."""
    left = 1
    while left:
        left -= 1
        head = data[at]
        at += 1
        if head < 0x80 or head >= 0xE0:
            continue
        if head < 0xA0:
            left += (head & 15) * (2 if head < 0x90 else 1)
        elif head < 0xC0:
            at += head & 31
        elif head in _ITEMS:
            size, values = _ITEMS[head]
            left += values * _number(data, at, size)
            at += size
        elif head in _LENGTH:
            size = _LENGTH[head]
            at += size + _number(data, at, size) + (head in _EXTENSIONS)
        else:
            at += _SKIP[head]
        if at > len(data):
            raise IndexError(at)
    return at


def _number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size])
