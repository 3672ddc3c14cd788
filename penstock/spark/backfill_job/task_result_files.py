"""Files with the results of tasks: frames of rows, each with kind, name and CRC.

    frame   size u32 | crc32c u32 | kind u8 | length of the name u16 | name | [keys, values] in MessagePack

A reader skips frames of other kinds without decoding them. Invariants:

- A file gets its name when it is complete. A task that fails, or runs twice, leaves no incomplete file with that name.
- Rows of one kind and name keep the order in which they were added.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from itertools import islice
from types import TracebackType
from typing import BinaryIO, Self

import msgspec
from crc32c import crc32c

from penstock.cache import Reader, StoreDamaged

__all__ = ["FrameKind", "TaskResultFile", "read_task_results"]

_HEAD = struct.Struct(">IIBH")
_CHUNK = 1 << 12
_MOST = 8 << 20
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes]]).decode
Rows = tuple[list[bytes], list[bytes]]


class FrameKind(IntEnum):
    """The kind of rows in a frame."""

    ROWS = 1
    """Keys and stored rows of the named database."""
    SEGMENT = 2
    """A segment of the named table, with record numbers from 0."""
    EMISSIONS = 3
    """Emissions of the named view for the documents of the segment before it."""
    SHARE = 4
    """Contributions to the named view."""
    REJECT = 5
    """A rejected record of the named table: its place and the reason."""
    ENTRIES = 6
    """Entries of the named side of a join."""


class TaskResultFile:
    """A file that is being written. It gets its name when the block ends without an error."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._partial = f"{path}.{secrets.token_hex(8)}"
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file: BinaryIO = os.fdopen(os.open(self._partial, new, 0o644), "wb", buffering=1 << 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            os.replace(self._partial, self._path)
        else:
            os.unlink(self._partial)

    def add(self, kind: FrameKind, name: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add rows, in several frames if there are many."""
        start = size = 0
        for i, value in enumerate(values):
            size += len(value)
            if size >= _MOST or i - start == _CHUNK:
                self._put(kind, name, keys[start : i + 1], values[start : i + 1])
                start, size = i + 1, 0
        if start < len(values):
            self._put(kind, name, keys[start:], values[start:])

    def add_rows(self, db: str, reader: Reader) -> int:
        """Add all rows of a database, in order. Return their number."""
        rows, n = reader.scan(db), 0
        while chunk := list(islice(rows, _CHUNK)):
            self.add(FrameKind.ROWS, db, [key for key, _ in chunk], [row for _, row in chunk])
            n += len(chunk)
        return n

    def _put(self, kind: FrameKind, name: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        called, data = name.encode(), _encode((keys, values))
        self._file.write(_HEAD.pack(len(data), crc32c(data), kind, len(called)) + called + data)


def read_task_results(path: str, kinds: Collection[FrameKind]) -> Iterator[tuple[FrameKind, str, Rows]]:
    """Yield the rows of these kinds in a file, in order. Raise StoreDamaged if the file is damaged."""
    wanted = set(kinds)
    with open(path, "rb") as file:
        while head := file.read(_HEAD.size):
            if len(head) < _HEAD.size:
                raise StoreDamaged(path)
            size, crc, kind, length = _HEAD.unpack(head)
            if kind not in wanted:
                file.seek(length + size, os.SEEK_CUR)
                continue
            name, data = file.read(length), file.read(size)
            if len(data) < size or crc32c(data) != crc:
                raise StoreDamaged(path)
            yield FrameKind(kind), name.decode(), _decode(data)
