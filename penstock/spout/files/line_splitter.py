"""Bytes to lines: whole ones, cut in one go, and what stands after the last line feed kept until its end comes.

Invariants: lines come without their line feed and otherwise as they are; no more is held than one batch and one line;
a line that is longer than any document may be is passed over. Up to MOST_KEPT bytes it is kept whole; of a longer one
the beginning and the length are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.gateway import MOST_RECEIVED
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.file_identity import BLOCK
from penstock.spout.files.streams import CHUNK, Stream

MOST_LINE = 16 << 20
MOST_KEPT = MOST_RECEIVED
_MOST_HELD = 8 << 20  # bytes of a batch, about
_MOST_PASSED = 64 << 20  # bytes of a line that is passed over, about, until a stop is looked for
_GRACE = 0.005  # seconds that lines which came wait for others
_HEAD = 1 << 20
_LF = b"\n"


@dataclass(slots=True)
class Huge:
    """A line that was passed over."""

    size: int
    first: bytes  # a block of it
    last: bytes
    parts: list[bytes]  # to be kept: all of it, or of more than MOST_KEPT bytes the beginning

    @property
    def data(self) -> bytes:
        """The bytes to be kept."""
        return b"".join(self.parts)

    def keep(self, part: bytes) -> None:
        """Keep a part that follows, of which `size` has the bytes already."""
        if self.size <= MOST_KEPT:
            self.parts.append(part)
        else:
            self.parts = [self.parts[0][:_HEAD]]


class Lines:
    """The lines of a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._whole: list[bytes] = []
        self._parts: list[bytes] = []  # of the line that has no end yet
        self._held = 0  # bytes of them
        self._passing: Huge | None = None  # the line that is passed over
        self._huge: Huge | None = None  # one that was
        self._after = b""  # what follows it
        self._before_fault = 0
        self.at_end = False  # nothing more was there the last time

    def take(self, limit: int, wait: float) -> list[bytes]:
        """The next lines, at most so many; none where `huge` stands next."""
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
                self._before_fault = len(self._whole)  # these come first, unless nothing can be made of them
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
        """A line that was passed over, if it stands next; it is told once."""
        if self._whole:
            return None
        huge, self._huge = self._huge, None
        return huge

    @property
    def unended(self) -> bool:
        """Whether something stands after the last line feed."""
        return bool(self._parts) or self._passing is not None

    @property
    def rest(self) -> bytes:
        """That, unless it is passed over."""
        self._parts = [b"".join(self._parts)] if self._parts else []
        return self._parts[0] if self._parts else b""

    def take_rest(self) -> bytes:
        """The same, as a line that ends where the source does."""
        rest, self._parts, self._held = self.rest, [], 0
        return rest

    def give_back(self, lines: list[bytes]) -> None:
        """These were not used: they come again."""
        self._whole[:0] = lines

    def left(self) -> int | None:
        """Bytes of the stream that were not read."""
        return self._stream.left()
