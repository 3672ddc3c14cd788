"""The watch for commits, for threads: one thread looks at the store's position while others wait for it to move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cache import PenstockError
from penstock.serve.store.snapshot_pool import SnapshotPool
from penstock.views import Position

__all__ = ["CommitWatch"]

_LOOK = 0.01  # seconds between two looks at the position


class CommitWatch:
    """The position of one store for the watchers of one front. It looks only while there are watchers."""

    def __init__(self, snapshots: SnapshotPool) -> None:
        self._snapshots = snapshots
        self._moved = threading.Condition()
        self._position: Position = None
        self._looking: threading.Thread | None = None
        self._ended = threading.Event()
        self.watchers = 0

    @property
    def ended(self) -> bool:
        """True if all watchers must end."""
        return self._ended.is_set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a watcher within the block."""
        with self._moved:
            self.watchers += 1
            if self._looking is None and not self.ended:
                self._looking = threading.Thread(target=self._look, name="penstock-look", daemon=True)
                self._looking.start()
        try:
            yield
        finally:
            with self._moved:
                self.watchers -= 1

    def wait(self, position: Position, seconds: float) -> Position:
        """Wait until the store has another position, or until the end. Return the current position."""
        with self._moved:
            self._moved.wait_for(lambda: self.ended or self._position not in (None, position), seconds)
            return position if self._position is None else self._position

    def end(self) -> None:
        """End all watchers."""
        self._ended.set()
        with self._moved:
            self._moved.notify_all()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK):
            try:
                with self._snapshots.use() as snap:
                    found = snap.position
            except PenstockError:
                continue  # the watchers get the same error, and tell of it
            with self._moved:
                if not self.watchers:
                    self._looking, self._position = None, None
                    return
                if found != self._position:
                    self._position = found
                    self._moved.notify_all()
