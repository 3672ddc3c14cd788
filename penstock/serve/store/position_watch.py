"""Watch the position of the store for any number of followers: one look every 10 ms while there are any."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cache import PenstockError
from penstock.serve.store.store_reading import StoreReading
from penstock.views import Position

__all__ = ["PositionWatch"]

_LOOK = 0.01  # seconds between two looks
_AGAIN = 1.0  # the same, after an error
_log = logging.getLogger("penstock.serve")


class PositionWatch:
    """The position of the store, and its followers. After `end` no wait waits."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store
        self._moved = asyncio.Event()  # replaced by the next one when the position changes
        self._looking: asyncio.Task[None] | None = None
        self.position: Position = None
        """The last position that was seen; None before the first look."""
        self.ended = False
        self.followers = 0

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Look while a follower is there."""
        self._count(1)
        try:
            if self._looking is None:
                self.position = None
                self._looking = asyncio.create_task(self._look())
            yield
        finally:
            self._count(-1)
            if not self.followers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def wait(self, since: Position, seconds: float) -> bool:
        """Wait until the position is another one than `since`. Return False after so many seconds, or after `end`."""
        try:
            async with asyncio.timeout(seconds):
                while not self.ended and (self.position is None or self.position == since):
                    await self._moved.wait()
        except TimeoutError:
            return False
        return not self.ended

    def end(self) -> None:
        """End all waits."""
        self.ended = True
        self._moved.set()

    def _count(self, change: int) -> None:
        self.followers += change
        self._store.meter.watching(self.followers)

    async def _look(self) -> None:
        """Wake the followers after each commit."""
        while True:
            try:
                with self._store.snapshot() as snap:
                    found = snap.position
            except PenstockError as error:  # followers wait until the store can be read again
                _log.warning("the position is not known at present: %s", error)
                await asyncio.sleep(_AGAIN)
                continue
            if found != self.position:
                self.position = found
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()
            await asyncio.sleep(_LOOK)
