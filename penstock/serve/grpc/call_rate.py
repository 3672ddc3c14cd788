"""The rate of one kind of calls. A call beyond it is refused at once, with the time to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import grpc

from penstock.serve.grpc.error_status import CallRefused

__all__ = ["CallRate"]


class CallRate:
    """So many calls per second, of which a full second may come at once; `kind` names them in the refusal.

    >>> now = 0.0
    >>> rate = CallRate(2, "calls", lambda: now)
    >>> rate.count(); rate.count()
    >>> rate.count()
    Traceback (most recent call last):
    penstock.serve.grpc.error_status.CallRefused: more than 2 calls per second; repeat the call in 0.5 s
    >>> now = 0.5
    >>> rate.count()
    """

    def __init__(self, most: int, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._kind = kind
        self._clock = clock
        self._turn = threading.Lock()
        self._left = float(most)
        self._at = clock()

    def count(self) -> None:
        """Count a call. Raise CallRefused if there were too many."""
        with self._turn:
            now = self._clock()
            self._left = min(float(self._most), self._left + (now - self._at) * self._most)
            self._at = now
            if self._left < 1:
                wait = (1 - self._left) / self._most
                message = f"more than {self._most} {self._kind} per second; repeat the call in {wait:.1f} s"
                raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE", message, again=wait)
            self._left -= 1
