"""Split bytes into complete lines, and keep the bytes after the last line feed until their line ends.

Invariants: lines come without their line feed and are otherwise unchanged. Memory holds at most one batch and one line.
A line that is longer than any document may be is skipped. It is kept whole up to MOST_KEPT bytes. Of a longer line the
beginning and the length are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.gateway import MOST_RECEIVED
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.file_identity import BLOCK
from penstock.spout.files.streams import CHUNK, ByteStream

MOST_LINE = 16 << 20
MOST_KEPT = MOST_RECEIVED
_MOST_HELD = 8 << 20  # approximate bytes of a batch
_MOST_PASSED = 64 << 20  # approximate bytes of a skipped line after which a stop is noticed
_GRACE = 0.005  # seconds that lines wait for further lines
_HEAD = 1 << 20
_LF = b"\n"


@dataclass(slots=True)
class Huge:
    """A line that is skipped because of its length."""

    size: int
    first: bytes  # its first block
    last: bytes
    parts: list[bytes]  # bytes to keep: the whole line, or its beginning if it is longer than MOST_KEPT

    @property
    def data(self) -> bytes:
        """Return the bytes to keep."""
        return b"".join(self.parts)

    def keep(self, part: bytes) -> None:
        """Keep the next part, which `size` includes already."""
        if self.size <= MOST_KEPT:
            self.parts.append(part)
        else:
            self.parts = [self.parts[0][:_HEAD]]


class LineSplitter:
    """The lines of a stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._whole: list[bytes] = []
        self._parts: list[bytes] = []  # parts of the line that has no end yet
        self._held = 0  # bytes of these parts
        self._passing: Huge | None = None  # the line that is being skipped
        self._huge: Huge | None = None  # a skipped line that has ended
        self._after = b""  # the bytes after it
        self._before_fault = 0
        self.at_end = False  # the last read found the end

    def take(self, limit: int, wait: float) -> list[bytes]:
        """Return at most `limit` next lines. Return none if `huge` has the next line."""
        held = 0
        self.at_end = False
        if self._huge is None:
            after, self._after = self._after, b""
            self._cut(after)
        while len(self._whole) < limit and self._huge is None:
            if held >= (_MOST_HELD if self._whole else _MOST_PASSED):
                break
            try:
                data = self._stream.read(CHUNK, _GRACE if self._whole else wait)
            except SourceUnreadable:
                if not self._whole or self._before_fault == len(self._whole):
                    raise
                self._before_fault = len(self._whole)  # these lines come first, unless they give no record
                break
            if not data:
                self.at_end = data is not None
                break
            held += len(data)
            self._cut(data)
        taken, self._whole = self._whole[:limit], self._whole[limit:]
        return taken

    def _cut(self, data: bytes) -> None:
        if self._passing is not None:
            end = data.find(_LF)
            part = data if end < 0 else data[:end]
            self._passing.size += len(part)
            self._passing.last = (self._passing.last + part)[-BLOCK:]
            self._passing.keep(part)
            if end >= 0:
                self._huge, self._passing, self._after = self._passing, None, data[end + 1 :]
            return
        if _LF in data:
            first, *lines = data.split(_LF)
            self._whole.append(b"".join((*self._parts, first)))
            data, self._parts, self._held = lines.pop(), [], 0
            self._whole += lines
        if data:
            self._parts.append(data)
            self._held += len(data)
        if self._held > MOST_LINE:
            rest = self.take_rest()
            self._passing = Huge(len(rest), rest[:BLOCK], rest[-BLOCK:], [rest])

    def huge(self) -> Huge | None:
        """Return a skipped line once, if it is the next one."""
        if self._whole:
            return None
        huge, self._huge = self._huge, None
        return huge

    @property
    def unended(self) -> bool:
        """Return whether bytes follow the last line feed."""
        return bool(self._parts) or self._passing is not None

    @property
    def rest(self) -> bytes:
        """Return the bytes after the last line feed, unless they belong to a skipped line."""
        self._parts = [b"".join(self._parts)] if self._parts else []
        return self._parts[0] if self._parts else b""

    def take_rest(self) -> bytes:
        """Take these bytes as a line that ends with the file."""
        rest, self._parts, self._held = self.rest, [], 0
        return rest

    def give_back(self, lines: list[bytes]) -> None:
        """Put unused lines back. They come again."""
        self._whole[:0] = lines

    def left(self) -> int | None:
        """Return the bytes of the stream that were not read."""
        return self._stream.left()
