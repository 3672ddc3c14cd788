"""Read bytes in order from a plain file, a compressed one (gzip, Zstandard), or a pipe.

Invariants:

- `read` returns b"" at the current end, and continues when there are more bytes. None means that none came in time;
- `go_to` is called before the first read, so that a compressed file is unpacked only once;
- a damaged compressed file returns all bytes before the damage;
- one step unpacks at most about 16 MB, at any compression ratio, and a stop is noticed between two steps.
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
_PACKED = 16 << 10  # packed bytes read in one step
_ZSTD_STEP = 256
_MOST_PADDING = 64 << 20  # approximate packed bytes without output after which a stop is noticed
_ANEW = "get the file anew and run this again: what came before is in"


class ByteStream(Protocol):
    """Bytes that are read once, in order."""

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """Return about `size` bytes, b"" at the end, or None if none came within `wait` seconds."""
        ...

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Move to an offset.

        Return the first `head` bytes, and the last `tail` bytes before it, or None if it is beyond the end.
        """
        ...

    def left(self) -> int | None:
        """Return the bytes of the file that were not read, packed ones if it is compressed.

        Return None if that is unknown.
        """
        ...


class Halted(Exception):
    """A stop was requested while a stream moved to an offset."""


def never() -> bool:
    """Return False: no stop was requested."""
    return False


class PlainFile:
    """A file without compression. `file` is its descriptor."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """Return the next bytes."""
        data = os.pread(self._file, size, self._at)
        self._at += len(data)
        return data

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Move to an offset."""
        if os.fstat(self._file).st_size < offset:
            return None
        self._at = offset
        return os.pread(self._file, head, 0), os.pread(self._file, tail, offset - tail)

    def left(self) -> int | None:
        """Return the remaining bytes."""
        return max(os.fstat(self._file).st_size - self._at, 0)


class Unpacked:
    """The unpacked bytes of a compressed stream of one or several members."""

    def __init__(self, packed: ByteStream, name: str, packing: Packing, stopped: Callable[[], bool] = never) -> None:
        self._packed = packed
        self._stopped = stopped
        self._name = name
        self._packing = packing
        self._taken = self._given = 0
        self._member: Any = None  # the decompressor of the member that was begun
        self._fed = self._spare = b""  # packed bytes, used up to `_at`, and unpacked ones that are left
        self._at = 0
        self._fault: SourceUnreadable | None = None

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """Return the next unpacked bytes."""
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
        """Unpack bytes. Empty bytes mean the end, where no member may be incomplete."""
        if not packed:
            if self._member is None:
                return b""
            raise SourceUnreadable(self._name, f"it is cut off after byte {self._taken:,}", _ANEW)
        if self._member is None:
            packed = packed.lstrip(b"\0")  # padding is allowed between members and after the last
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
        """Unpack all bytes before the offset."""
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
        """Return the remaining packed bytes."""
        return self._packed.left()


class Pipe:
    """A pipe or terminal, whose bytes can be read only once."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._waiting = select.poll()
        self._waiting.register(file, select.POLLIN)

    def read(self, size: int, wait: float = 0.0) -> bytes | None:
        """Return the bytes that arrived."""
        if not self._waiting.poll(wait * 1000):
            return None
        try:
            return os.read(self._file, size)
        except BlockingIOError:  # another process read them
            return None

    def go_to(self, offset: int, head: int, tail: int) -> tuple[bytes, bytes] | None:
        """Succeed only for offset 0, because a pipe can't be read again."""
        return None if offset else (b"", b"")

    def left(self) -> int | None:
        """Return None: the length of a pipe is unknown."""
        return None


@dataclass(frozen=True, slots=True)
class Packing:
    """A compression: its name, the packed bytes per step, its decompressor for one member, and the errors of that.

    A byte of gzip unpacks to at most 1,032 bytes. Four bytes of Zstandard unpack to up to 128 KiB.
    """

    name: str
    step: int
    unpacker: Callable[[], Any]
    faults: tuple[type[Exception], ...]


def packing_of(suffix: str) -> Packing:
    """Return the compression for a suffix. Raise MissingExtra if this Python has no package for it."""
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
    """Return the suffix of the compression that these first bytes belong to, or None."""
    return next((packing for packing, magic in _MAGIC.items() if first.startswith(magic)), None)
