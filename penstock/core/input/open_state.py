"""An open store as all its parts share it: its process, the lock before its writer, and its end.

Invariant: in a forked child every call is refused before it waits for a lock, as no thread there would release it.
"""

from __future__ import annotations

import os
import threading

from penstock.cache import Closed, ForkedStore, ReadOnly
from penstock.core.input.fair_lock import FairLock
from penstock.core.input.meters import Meters
from penstock.views import App

__all__ = ["OpenState"]


class OpenState:
    """The state of one open store; `path` is None for a store in memory."""

    def __init__(self, app: App, path: str | None, readonly: bool) -> None:
        self.app = app
        self.path = path
        self.readonly = readonly
        self.closed = False
        self._pid = os.getpid()
        self.lock = FairLock(self.must_be_own_process)
        self.meters = Meters(table.name for table in app.inputs())
        self.repairing = threading.Lock()  # one repair at a time; it waits here before it takes the other lock
        self._ended = threading.Event()

    @property
    def inherited(self) -> bool:
        """True if this process inherited the store by a fork."""
        return self._pid != os.getpid()

    def must_be_own_process(self) -> None:
        """Raise ForkedStore in a process that inherited the store by a fork."""
        if self._pid != os.getpid():
            raise ForkedStore(self.path or "memory", self._pid)

    def must_be_open(self) -> None:
        """Raise Closed if the store was closed."""
        self.must_be_own_process()
        if self.closed:
            raise Closed(f"the engine of {self.app.name!r}")

    def must_be_writable(self, *tables: str) -> None:
        """Raise an error if the store takes no writes, or the app has no table or stream of one of these names."""
        self.must_be_open()
        if self.readonly:
            raise ReadOnly(self.path or "memory")
        for table in tables:
            self.app.input_of(table)

    def rest(self, seconds: float) -> bool:
        """Wait for some seconds, or until the store is closed. Return True if it was closed."""
        self.must_be_own_process()
        return self._ended.wait(seconds)

    def end(self) -> None:
        """Refuse every call from now on, and wake those that rest."""
        self.closed = True
        self._ended.set()
