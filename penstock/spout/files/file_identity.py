"""Whether a file is the one that was read before: the first and the last block of what was read, by their hashes.

A file that was only appended to has the same bytes up to where it was read, so these blocks are the same. Of a file
that was read to its end the blocks of the whole file are noted too, so that a packed one is known without unpacking it.
What changed between two blocks isn't seen: whoever edits a file in place loads it again.
"""

from __future__ import annotations

import os
from enum import Enum

import msgspec
import xxhash

BLOCK = 64 << 10


class Standing(Enum):
    """What a file is to a store that may have read it before."""

    FRESH = "not read before"
    BEGUN = "read in part"
    FINISHED = "read to its end"
    GROWN = "read to what was its end, and longer since"
    REPLACED = "another file than the one that was read"


class Block(msgspec.Struct, array_like=True, frozen=True):
    """A block by its size and hash."""

    size: int
    hash: int

    @classmethod
    def of(cls, data: bytes) -> Block:
        """The block of these bytes."""
        return cls(len(data), xxhash.xxh3_64_intdigest(data))


class Whole(msgspec.Struct, array_like=True, frozen=True):
    """A file as it lies on the disk."""

    size: int
    first: Block
    last: Block

    @classmethod
    def of(cls, file: int) -> Whole:
        """The file of this descriptor."""
        size = os.fstat(file).st_size
        last = os.pread(file, BLOCK, max(size - BLOCK, 0))
        return cls(size, Block.of(os.pread(file, BLOCK, 0)), Block.of(last))


class Note(msgspec.Struct, array_like=True, frozen=True):
    """What a file's spout notes with each batch."""

    format: str
    number: int  # lines or rows read
    first: Block  # of what was read, unpacked
    last: Block
    whole: Whole | None  # of a file that was read to its end

    def encode(self) -> bytes:
        """As bytes."""
        return _encode(self)

    @staticmethod
    def decode(note: bytes) -> Note | None:
        """From bytes; None where they are no such note."""
        try:
            return _decode(note)
        except msgspec.MsgspecError:
            return None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Note).decode


class Ends:
    """The first and the last bytes of what was read so far."""

    def __init__(self, first: bytes = b"", last: bytes = b"") -> None:
        self._first = first
        self._last = last

    def add(self, lines: list[bytes], ended: bool) -> None:
        """These lines were read too; the last of them has a line feed if it `ended`."""
        close = b"\n" if ended else b""
        if len(self._first) < BLOCK:
            part = lines[: BLOCK + 1]
            more = b"\n".join(part) + (close if len(part) == len(lines) else b"\n")
            self._first = (self._first + more)[:BLOCK]
        self._last = (self._last + b"\n".join(_tail(lines)) + close)[-BLOCK:]

    def add_huge(self, first: bytes, last: bytes) -> None:
        """A line was read that is longer than a block; of which these are the first and the last block."""
        self._first = (self._first + first)[:BLOCK]
        self._last = (last + b"\n")[-BLOCK:]

    def blocks(self) -> tuple[Block, Block]:
        """Their hashes."""
        return Block.of(self._first), Block.of(self._last)


def _tail(lines: list[bytes]) -> list[bytes]:
    """The last of these, of a block together or more."""
    size = 0
    for n, line in enumerate(reversed(lines), 1):
        size += len(line) + 1
        if size >= BLOCK:
            return lines[-n:]
    return lines
