"""Recognise a file that was read before, by the hashes of the first and the last block that was read.

If a file was only appended to, its bytes up to the offset stay the same, and so do these blocks. For a file that was
read to its end the blocks of the whole file are stored too. So a compressed file is recognised without unpacking it.
Changes between the two blocks are not detected. A user who edits a file in place has to load it again.
"""

from __future__ import annotations

import os
from enum import Enum

import msgspec
import xxhash

BLOCK = 64 << 10


class Standing(Enum):
    """The relation of a file to the file that the store has read under this name."""

    FRESH = "not read before"
    BEGUN = "read in part"
    FINISHED = "read to its end"
    GROWN = "read to what was its end, and longer since"
    REPLACED = "another file than the one that was read"


class FileBlock(msgspec.Struct, array_like=True, frozen=True):
    """The size and hash of a block."""

    size: int
    hash: int

    @classmethod
    def of(cls, data: bytes) -> FileBlock:
        """Return the block of these bytes."""
        return cls(len(data), xxhash.xxh3_64_intdigest(data))


class FileFacts(msgspec.Struct, array_like=True, frozen=True):
    """The size and blocks of a whole file on the disk."""

    size: int
    first: FileBlock
    last: FileBlock

    @classmethod
    def of(cls, file: int) -> FileFacts:
        """Read the blocks of the file with this descriptor."""
        size = os.fstat(file).st_size
        last = os.pread(file, BLOCK, max(size - BLOCK, 0))
        return cls(size, FileBlock.of(os.pread(file, BLOCK, 0)), FileBlock.of(last))


class FileState(msgspec.Struct, array_like=True, frozen=True):
    """The spout state of a file, stored with each batch."""

    format: str
    number: int  # number of lines or rows read
    first: FileBlock  # of the bytes read, unpacked
    last: FileBlock
    whole: FileFacts | None  # of a file that was read to its end

    def encode(self) -> bytes:
        """Return it as bytes."""
        return _encode(self)

    @staticmethod
    def decode(data: bytes) -> FileState | None:
        """Decode it. Return None if the bytes are not valid."""
        try:
            return _decode(data)
        except msgspec.MsgspecError:
            return None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FileState).decode


class FileEnds:
    """The first and the last bytes that were read so far."""

    def __init__(self, first: bytes = b"", last: bytes = b"") -> None:
        self._first = first
        self._last = last

    def add(self, lines: list[bytes], ended: bool) -> None:
        """Add lines that were read. `ended` says whether the last one has a line feed."""
        close = b"\n" if ended else b""
        if len(self._first) < BLOCK:
            part = lines[: BLOCK + 1]
            more = b"\n".join(part) + (close if len(part) == len(lines) else b"\n")
            self._first = (self._first + more)[:BLOCK]
        self._last = (self._last + b"\n".join(_tail(lines)) + close)[-BLOCK:]

    def add_huge(self, first: bytes, last: bytes) -> None:
        """Add a line that is longer than a block, given by its first and last block."""
        self._first = (self._first + first)[:BLOCK]
        self._last = (last + b"\n")[-BLOCK:]

    def blocks(self) -> tuple[FileBlock, FileBlock]:
        """Return the blocks of these bytes."""
        return FileBlock.of(self._first), FileBlock.of(self._last)


def _tail(lines: list[bytes]) -> list[bytes]:
    """Return the last lines, with at least one block of bytes if there are so many."""
    size = 0
    for n, line in enumerate(reversed(lines), 1):
        size += len(line) + 1
        if size >= BLOCK:
            return lines[-n:]
    return lines
