"""Seal rows with a checksum, so that a read detects damage. LMDB keeps no checksums of its own.

    payload | crc32c(key, payload) u32 big-endian

The checksum also covers the key, so a sound row under another row's key counts as damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from crc32c import crc32c

from penstock.cache.errors import StoreDamaged

__all__ = ["seal", "seal_many", "unseal", "unseal_many"]

_CRC = Struct(">I")
_pack = _CRC.pack
_SIZE = _CRC.size


def seal(key: bytes, payload: bytes) -> bytes:
    """Return the row to store under `key`: the payload and its checksum.

    >>> seal(b"Joe", b"17").hex()
    '3137fedab215'
    """
    return payload + _pack(crc32c(payload, crc32c(key)))


def seal_many(items: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return keys with their rows to store. This form is for many small rows.

    >>> seal_many([(b"Joe", b"17")]) == [(b"Joe", seal(b"Joe", b"17"))]
    True
    """
    return [(key, payload + _pack(crc32c(key + payload))) for key, payload in items]


def unseal(key: bytes, row: bytes, where: str) -> bytes:
    """Return the payload of a row. Raise StoreDamaged if the checksum is wrong; `where` names the database in the
    error.

    >>> unseal(b"Joe", seal(b"Joe", b"17"), "state, rows")
    b'17'
    >>> unseal(b"Sue", seal(b"Joe", b"17"), "state, rows")
    Traceback (most recent call last):
    penstock.cache.errors.StoreDamaged: ...
    """
    payload = row[:-_SIZE]
    if row[-_SIZE:] != _pack(crc32c(payload, crc32c(key))):
        raise _damaged(key, where)
    return payload


def unseal_many(keys: Sequence[bytes], rows: Sequence[bytes | None], where: str) -> list[bytes | None]:
    """Return the payloads of rows as `get_many` returned them. An absent row gives None.

    >>> unseal_many([b"Joe", b"Sue"], [seal(b"Joe", b"17"), None], "state, rows")
    [b'17', None]
    """
    payloads: list[bytes | None] = []
    for key, row in zip(keys, rows, strict=True):
        if row is None:
            payloads.append(None)
            continue
        payload = row[:-_SIZE]
        if row[-_SIZE:] != _pack(crc32c(key + payload)):
            raise _damaged(key, where)
        payloads.append(payload)
    return payloads


def _damaged(key: bytes, where: str) -> StoreDamaged:
    return StoreDamaged(where, key)
