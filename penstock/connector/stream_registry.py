"""The streams of all source sessions, in any thread: a stream is active in at most one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["StreamRegistry"]


class StreamRegistry:
    """The active streams, and the last committed message of each stream.

    >>> streams = StreamRegistry({7: 12}.get)
    >>> streams.claim(7), streams.claim(7), streams.committed(7), streams.committed(8)
    (True, False, 12, None)
    """

    def __init__(self, committed: Callable[[int], int | None]) -> None:
        self.committed = committed
        self._active: set[int] = set()
        self._lock = threading.Lock()

    def claim(self, stream: int) -> bool:
        """Take a stream for a session; false if one has it."""
        with self._lock:
            if stream in self._active:
                return False
            self._active.add(stream)
            return True

    def release(self, stream: int) -> None:
        """Free a stream."""
        self._active.discard(stream)
