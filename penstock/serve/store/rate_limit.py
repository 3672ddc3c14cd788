"""Rates of calls: of one kind of calls, or of each access token.

Invariant: a call beyond the rate is refused at once with the seconds to wait, so none waits in the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["RateLimit", "TokenRates"]


class RateLimit:
    """So many calls per second, of which those of a full second may come at once.

    >>> now = 0.0
    >>> rate = RateLimit(2, lambda: now)
    >>> [rate.wait() for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> now = 0.5
    >>> rate.wait()
    0.0
    """

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._turn = threading.Lock()
        self._left = max(1.0, most)
        self._at = clock()

    def wait(self) -> float:
        """Count a call, and return 0; or return the seconds after which it may come again, and don't count it."""
        with self._turn:
            now = self._clock()
            self._left = min(max(1.0, self.most), self._left + (now - self._at) * self.most)
            self._at = now
            if self._left < 1:
                return (1 - self._left) / self.most
            self._left -= 1
            return 0.0


class TokenRates:
    """The rate of each access token in one front; None is no limit."""

    def __init__(self, most: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._rates: dict[str, RateLimit] = {}

    def wait(self, name: str) -> float:
        """Count a call of a token, and return 0 or the seconds after which it may come again."""
        if self.most is None:
            return 0.0
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates.setdefault(name, RateLimit(self.most, self._clock))
        return rate.wait()
