"""Split a stream of bytes into frames, with a limit on their size.

Invariants:

- frames do not depend on how the bytes arrive;
- a frame above the limit is refused by its length, before its bytes take memory;
- the caller may change the limit between two frames.
"""

from __future__ import annotations

import struct

from penstock.connector.errors import ProtocolFault

__all__ = ["LARGEST_FRAME", "LARGEST_HELLO", "FrameSplitter"]

_HEADER = 27  # the bytes of a MESSAGE before its body, without a key
LARGEST_FRAME = (16 << 20) + _HEADER
"""The default limit of a frame: a document of the largest size and its header."""
LARGEST_HELLO = 64 << 10
"""The limit of a frame before HELLO."""

_LENGTH = struct.Struct(">I")


class FrameSplitter:
    """The bytes of one connection that are not decoded yet.

    >>> splitter = FrameSplitter(LARGEST_HELLO)
    >>> splitter.feed(bytes.fromhex("000000050100"))
    >>> splitter.next()
    >>> splitter.feed(bytes.fromhex("0001f4ff"))
    >>> splitter.next().hex(), splitter.next(), splitter.waiting
    ('01000001f4', None, 1)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = bytearray()
        self._at = 0

    @property
    def waiting(self) -> int:
        """The number of bytes that belong to no returned frame."""
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data += data

    def next(self) -> bytes | None:
        """Return the next frame without its length, or None if more bytes are needed."""
        start = self._at + _LENGTH.size
        if start > len(self._data):
            self._release()
            return None
        (size,) = _LENGTH.unpack_from(self._data, self._at)
        if not size:
            raise ProtocolFault("a frame has length 0, so it has no tag")
        if size > self.limit:
            raise ProtocolFault(f"a frame has {size:,} bytes, and the limit is {self.limit:,}")
        if start + size > len(self._data):
            self._release()
            return None
        self._at = start + size
        return bytes(memoryview(self._data)[start : self._at])

    def _release(self) -> None:
        """Release the bytes of returned frames, once for each series of frames."""
        del self._data[: self._at]
        self._at = 0
