"""Snapshots that one front uses again for many reads, each by one thread at a time.

Invariants:

- a read shows each write that was answered before it. A snapshot is used again only if the store has no later commit;
- an eventual read may show the store of 10 ms ago, and skips that check;
- no snapshot stays open for seconds, because it keeps old pages from reuse, and the file from being replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.cache import PenstockError
from penstock.engine import Snapshot

__all__ = ["SnapshotPool"]

_AGE = 1.0  # seconds after which a snapshot is opened anew
_EVENTUAL = 0.01  # seconds between two checks of eventual reads


class _PooledSnapshot:
    """An open snapshot, with the times of its opening and of its last check."""

    __slots__ = ("checked", "opened", "snap")

    def __init__(self, snap: Snapshot, now: float) -> None:
        self.snap = snap
        self.opened = self.checked = now

    def usable(self, now: float, eventual: bool) -> bool:
        """Return True if the snapshot shows the store of now, or nearly so for an eventual read."""
        if now - self.opened > _AGE:
            return False
        if eventual and now - self.checked <= _EVENTUAL:
            return True
        self.checked = now
        return self.snap.is_newest()


class SnapshotPool:
    """The snapshots of one front."""

    def __init__(self, make: Callable[[], Snapshot], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._idle: list[_PooledSnapshot] = []  # the last one used comes last; append and pop need no lock
        self._closed = False
        self._turn = threading.Lock()

    @contextmanager
    def use(self, eventual: bool = False) -> Iterator[Snapshot]:
        """Yield a snapshot for this thread alone."""
        own = self._taken(eventual)
        try:
            yield own.snap
        finally:
            self._idle.append(own)
            if self._closed:
                self._close_idle()

    def close_old(self) -> None:
        """Close snapshots that have been open for a second and are not in use."""
        now = self._clock()
        with self._turn:
            for own in list(self._idle):
                if now - own.opened > _AGE:
                    self._close(own)

    def close(self) -> None:
        """Close the snapshots that are not in use, and each other one after its use."""
        self._closed = True
        self._close_idle()

    def _close(self, own: _PooledSnapshot) -> None:
        try:
            self._idle.remove(own)
        except ValueError:
            return  # another thread took it
        own.snap.close()

    def _taken(self, eventual: bool) -> _PooledSnapshot:
        now = self._clock()
        try:
            own = self._idle.pop()
        except IndexError:
            return _PooledSnapshot(self._opened(), now)
        try:
            if own.usable(now, eventual):
                return own
        except BaseException:
            own.snap.close()
            raise
        own.snap.close()
        return _PooledSnapshot(self._opened(), now)

    def _opened(self) -> Snapshot:
        try:
            return self._make()
        except PenstockError:
            self._close_idle()  # one of them may prevent a change of the map
            return self._make()

    def _close_idle(self) -> None:
        with self._turn:
            for own in list(self._idle):
                self._close(own)
