"""Reads of one front by consistency: which snapshot a read gets, and how long it waits for a position.

Invariants:

- a read that is not eventual shows each write that was answered before it;
- with a position token it shows the store from that position on, or ends at its deadline;
- a linearizable read of a store of several partitions first waits until every view shows all earlier writes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cache import PenstockError
from penstock.engine import Snapshot
from penstock.remote import SETTLE
from penstock.serve.store.store_reading import StoreReading
from penstock.views import Position, position_text

__all__ = ["DeadlinePassed", "StoreReads"]

_LOOK = 0.005  # seconds between two looks at a position that the store has not reached


class DeadlinePassed(PenstockError):
    """The store did not reach a position before the deadline of a read.

    >>> print(DeadlinePassed(9, 4))
    the store did not reach position 9 in time, and is at 4; if that stays, the position is of another store
    """

    def __init__(self, asked: Position, position: Position) -> None:
        super().__init__(asked, position)
        self.asked = asked
        self.position = position

    def __str__(self) -> str:
        return (
            f"the store did not reach position {position_text(self.asked)} in time, and is at "
            f"{position_text(self.position)}; if that stays, the position is of another store"
        )


class StoreReads:
    """The reads of one front."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store
        self._rest = threading.Event()

    @contextmanager
    def eventual(self) -> Iterator[Snapshot]:
        """Yield a snapshot of about now."""
        with self._store.snapshot(eventual=True) as snap:
            yield snap

    @contextmanager
    def reached(self, position: Position, until: float) -> Iterator[Snapshot]:
        """Yield a snapshot that has reached a position; DeadlinePassed after the time `until`."""
        while True:
            with self._store.snapshot() as snap:
                if position is None or _reached(snap.position, position):
                    yield snap
                    return
                if time.monotonic() >= until:
                    raise DeadlinePassed(position, snap.position)
            self._rest.wait(_LOOK)

    @contextmanager
    def linearizable(self) -> Iterator[Snapshot]:
        """Yield a snapshot whose views show all writes that were answered before."""
        with self._store.snapshot() as snap:
            if len(snap.parts) == 1:
                yield snap
                return
        self._store.access.call(SETTLE)
        with self._store.snapshot() as snap:
            yield snap


def _reached(own: Position, asked: Position) -> bool:
    if isinstance(own, int) or isinstance(asked, int):
        return isinstance(own, int) and isinstance(asked, int) and own >= asked
    return len(own) == len(asked) and all(a >= b for a, b in zip(own, asked, strict=True))
