"""Bytes of a source in their order: a plain file, a packed one (gzip, Zstandard), or a pipe.

Invariants:

- `read` gives b"" at the present end and goes on when there is more; None says that nothing came in time;
- `go_to` stands before the first byte when it begins, so that packed bytes are unpacked once;
- a file that can't be unpacked any further has given all that stood before the damage;
- one step unpacks at most some 16 MB, however well the bytes are packed, and a stop is noticed between two steps.
"""

from __future__ import annotations

import importlib
import os
import select
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.cache import MissingExtra
from penstock.spout.errors import SourceUnreadable

CHUNK = 1 << 20
_MAGIC = {"gz": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd"}
PACKINGS = tuple(_MAGIC)
_PACKED = 16 << 10  # packed bytes read at once
_ZSTD_STEP = 256
_MOST_PADDING = 64 << 20  # packed bytes that make nothing, about, until a stop is looked for
_ANEW = "get the file anew and run this again: what came before is in"


class Stream(Protocol):
    """Bytes to be read once, in order."""

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """About `size` bytes; b"" at the end, None if nothing came within `wait` seconds."""
        ...

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Go on at this offset: the first `head` bytes and the last `tail` before it; None if it is beyond the end."""
        ...

    def left(self) -> int | None:
        """Bytes of the file, packed ones if it is packed, that were not read; None where nobody knows."""
        ...


class Halted(Exception):
    """A stop was asked for while a stream went to an offset."""


def never() -> bool:
    """Say that no stop was asked for."""
    return False


class PlainFile:
    """A file as it is; `file` is its descriptor."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """What stands there next."""
        data = os.pread(self._file, size, self._at)
        self._at += len(data)
        return data

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Go on there."""
        if os.fstat(self._file).st_size < offset:
            return None
        self._at = offset
        return os.pread(self._file, head, 0), os.pread(self._file, tail, offset - tail)

    def left(self) -> int | None:
        """Bytes beyond."""
        return max(os.fstat(self._file).st_size - self._at, 0)


class Unpacked:
    """Packed bytes, unpacked; of one or several members."""

    def __init__(self, packed: Stream, name: str, packing: Packing, stopped: Callable[[], bool] = never) -> None:
        self._packed = packed
        self._stopped = stopped
        self._name = name
        self._packing = packing
        self._taken = self._given = 0
        self._member: Any = None  # what unpacks the member that was begun
        self._fed = self._spare = b""  # packed bytes, used up to `_at`, and unpacked ones
        self._at = 0
        self._fault: SourceUnreadable | None = None

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """What comes next, unpacked."""
        parts, got = [self._spare], len(self._spare)
        late, begun = False, self._taken
        while got < size and self._fault is None:
            if self._at >= len(self._fed):
                if not got and self._taken - begun > _MOST_PADDING:
                    late = True
                    break
                packed = self._packed.read(_PACKED, 0.0 if got else wait)
                if packed is None:
                    late = True
                    break
                self._taken += len(packed)
                self._fed, self._at = packed, 0
            packed = self._fed[self._at : self._at + self._packing.step]
            self._at += len(packed)
            try:
                part = self._unpack(packed)
            except SourceUnreadable as error:
                self._fault = error
                break
            parts.append(part)
            got += len(part)
            if not packed:
                break
        if not got and self._fault is not None:
            raise self._fault
        data = b"".join(parts)
        data, self._spare = data[:size], data[size:]
        self._given += len(data)
        return None if late and not data else data

    def _unpack(self, packed: bytes) -> bytes:
        """What is in these; in b"", which is the end, nothing may be missing."""
        if not packed:
            if self._member is None:
                return b""
            raise SourceUnreadable(self._name, f"it is cut off after byte {self._taken:,}", _ANEW)
        if self._member is None:
            packed = packed.lstrip(b"\0")  # padding may stand between members and after the last
            if not packed:
                return b""
            self._member = self._packing.unpacker()
        try:
            out: bytes = self._member.decompress(packed)
        except self._packing.faults as error:
            if self._taken <= _PACKED and not self._given:
                remedy = "say with --format-in what it is, such as jsonl or csv"
                raise SourceUnreadable(self._name, f"it is no {self._packing.name} file", remedy) from error
            raise SourceUnreadable(self._name, f"it is damaged near byte {self._taken:,}", _ANEW) from error
        if self._member.eof:
            self._at -= len(self._member.unused_data)
            self._member = None
        return out

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Unpack all before it."""
        first, last = b"", b""
        while self._given < offset:
            if self._stopped():
                raise Halted
            data = self.read(min(CHUNK, offset - self._given))
            if data is None:
                continue
            if not data:
                return None
            first = (first + data)[:head] if len(first) < head else first
            last = (last + data)[-tail:]
        return first, last

    def left(self) -> int | None:
        """Packed bytes beyond."""
        return self._packed.left()


class Pipe:
    """What another process writes, or a person; it is there once."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._waiting = select.poll()
        self._waiting.register(file, select.POLLIN)

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """What came."""
        if not self._waiting.poll(wait * 1000):
            return None
        try:
            return os.read(self._file, size)
        except BlockingIOError:  # somebody else took it
            return None

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """It can't be read again."""
        return None if offset else (b"", b"")

    def left(self) -> int | None:
        """Nobody knows."""
        return None


@dataclass(frozen=True, slots=True)
class Packing:
    """A way of packing: its name, the packed bytes of one step, what unpacks a member, and what that raises.

    A byte of gzip makes at most 1,032 bytes. Four bytes of Zstandard make up to 128 KiB.
    """

    name: str
    step: int
    unpacker: Callable[[], Any]
    faults: tuple[type[Exception], ...]


def packing_of(suffix: str) -> Packing:
    """The packing of files that end so; MissingExtra where this Python has no package for it."""
    if suffix == "gz":
        return Packing("gzip", _PACKED, lambda: zlib.decompressobj(wbits=31), (zlib.error,))
    assert suffix == "zst"
    try:
        zstd = importlib.import_module("compression.zstd")
        return Packing("Zstandard", _ZSTD_STEP, zstd.ZstdDecompressor, (zstd.ZstdError,))
    except ImportError:
        pass
    try:
        zstd = importlib.import_module("zstandard")
    except ImportError:
        raise MissingExtra("zstandard", "zstd") from None
    return Packing("Zstandard", _ZSTD_STEP, lambda: zstd.ZstdDecompressor().decompressobj(), (zstd.ZstdError,))


def packing_in(first: bytes) -> str | None:
    """The packing of what begins so."""
    return next((packing for packing, magic in _MAGIC.items() if first.startswith(magic)), None)
