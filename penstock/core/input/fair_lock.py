"""The lock before the writer: reentrant, and fair to a thread that asks seldom.

A plain lock goes to the thread that asks at the right moment, so a thread that puts without a pause keeps it. A thread
that asks by `next` gets it after the current owner. Invariant: the owner waits for no other thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

__all__ = ["FairLock"]


class FairLock:
    """A lock, as a context manager.

    >>> lock = FairLock()
    >>> with lock, lock:
    ...     lock.taken
    1
    """

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self._check = check  # raises if the thread must not wait for this lock
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        self._asked = False
        self._owner = self._depth = 0
        self.taken = 0  # times that it was taken, except by `next`

    def __enter__(self) -> Self:
        self._check()
        if self._asked and self._owner != threading.get_ident():
            with self._gate:
                pass
        self._lock.acquire()
        if not self._depth:
            self.taken += 1
            self._owner = threading.get_ident()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
        self._lock.release()

    @contextmanager
    def next(self) -> Iterator[None]:
        """Take the lock directly after its current owner."""
        self._check()
        with self._gate:
            self._asked = True
            try:
                self._lock.acquire()
            finally:
                self._asked = False
        self._owner, self._depth = threading.get_ident(), self._depth + 1
        try:
            yield
        finally:
            self.__exit__()
