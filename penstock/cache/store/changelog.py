"""Changelogs: files with the changes of a turn to one partition, compressed and with checksums.

    file    MAGIC | frame of the head | frames of changes | frame without changes
    frame   bytes u32 | bytes before compression u32 | crc32c u32 of the id, both sizes and the bytes | compressed bytes

The head names the state, the partition, the batch, the changelog and its parent: the changelog of the state version
before it. Changes are in MessagePack, and lz4 compresses them. This needs the extra `arrow`. Invariants:

- a changelog is applied only to the state version that its head names, in one transaction with its own id;
- a file that is cut, damaged, or of another partition is refused before any of its rows is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

import msgspec
from crc32c import crc32c

from penstock.cache.errors import MissingExtra, PenstockError
from penstock.cache.store.row_changes import RowChanges

__all__ = ["ChangelogDamaged", "ChangelogHead", "encode_changelog", "read_changelog"]

_MAGIC = b"penstock changelog 1\n"
_SIZES = Struct("<II")
_CRC = Struct("<I")
_MOST = 4 << 20  # bytes of rows in a frame
_MANY = 1 << 12  # rows in a frame
_Part = tuple[str, bool, list[bytes], list[bytes], list[bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Part).decode


class ChangelogHead(msgspec.Struct, frozen=True, array_like=True):
    """The place of a changelog: the state, the partition, the batch, and the ids of its parent and of itself.

    The first changelog of an empty partition has the parent "".
    """

    state: str
    partition: int
    batch: int
    parent: str
    id: str


class ChangelogDamaged(PenstockError):
    """A changelog can't be read, or is of another place than its name says.

    >>> print(ChangelogDamaged("log/0/000000000007-ab", "it is cut short"))
    changelog log/0/000000000007-ab: it is cut short; put that file back from a copy of the state
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"changelog {self.name}: {self.reason}; put that file back from a copy of the state"


def encode_changelog(head: ChangelogHead, changes: Iterable[RowChanges]) -> Iterator[bytes]:
    """Yield the file of a changelog in pieces."""
    codec, start = _codec(), crc32c(head.id.encode())
    yield _MAGIC + _framed(codec, start, _encode(head))
    for part in _parts(changes):
        yield _framed(codec, start, _encode(part))
    yield _framed(codec, start, b"")


def _parts(changes: Iterable[RowChanges]) -> Iterator[_Part]:
    """Cut the changes of databases into parts of bounded size, which apply one after the other."""
    for db, cleared, deleted, rows in changes:
        if cleared:
            yield db, True, [], [], []
        for first in range(0, len(deleted), _MANY):
            yield db, False, deleted[first : first + _MANY], [], []
        keys: list[bytes] = []
        values: list[bytes] = []
        size = 0
        for key, value in rows:
            keys.append(key)
            values.append(value)
            size += len(value)
            if size >= _MOST or len(keys) == _MANY:
                yield db, False, [], keys, values
                keys, values, size = [], [], 0
        if keys:
            yield db, False, [], keys, values


def _framed(codec: Any, start: int, data: bytes) -> bytes:
    packed: bytes = codec.compress(data, asbytes=True) if data else b""
    sizes = _SIZES.pack(len(packed), len(data))
    return sizes + _CRC.pack(crc32c(packed, crc32c(sizes, start))) + packed


def read_changelog(name: str, data: bytes, expected: ChangelogHead) -> Iterator[RowChanges]:
    """Check the whole file of a changelog, and return an iterator over its changes.

    Raise ChangelogDamaged if it is damaged, or if its head is not the expected one.
    """
    frames = _checked(name, data, expected)
    codec = _codec()
    return (_changes(_decode(_opened(codec, frame, size))) for frame, size in frames)


def _checked(name: str, data: bytes, expected: ChangelogHead) -> list[tuple[memoryview, int]]:
    """Return the frames of changes, after all checksums were compared."""
    if not data.startswith(_MAGIC):
        raise ChangelogDamaged(name, "it does not begin as a changelog does")
    view, at = memoryview(data), len(_MAGIC)
    start = crc32c(expected.id.encode())
    frames: list[tuple[memoryview, int]] = []
    while True:
        end = at + _SIZES.size + _CRC.size
        if end > len(view):
            raise ChangelogDamaged(name, "it is cut short")
        packed, size = _SIZES.unpack_from(view, at)
        (crc,) = _CRC.unpack_from(view, at + _SIZES.size)
        frame = view[end : end + packed]
        if len(frame) < packed:
            raise ChangelogDamaged(name, "it is cut short")
        if crc32c(frame, crc32c(view[at : at + _SIZES.size], start)) != crc:
            raise ChangelogDamaged(name, "its checksum differs, or it is another changelog")
        at = end + packed
        if not packed:
            break
        frames.append((frame, size))
    if at != len(view):
        raise ChangelogDamaged(name, "it has bytes after its end")
    if not frames:
        raise ChangelogDamaged(name, "it has no head")
    head = msgspec.msgpack.decode(_opened(_codec(), *frames[0]), type=ChangelogHead)
    if head != expected:
        raise ChangelogDamaged(name, f"it has the head {head}, and the manifest names {expected}")
    return frames[1:]


def _changes(part: _Part) -> RowChanges:
    db, cleared, deleted, keys, values = part
    return RowChanges(db, cleared, deleted, list(zip(keys, values, strict=True)))


def _opened(codec: Any, frame: memoryview, size: int) -> bytes:
    data: bytes = codec.decompress(bytes(frame), decompressed_size=size, asbytes=True)
    return data


def _codec() -> Any:
    try:
        return importlib.import_module("pyarrow").Codec("lz4_raw")
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
