"""The thread that lets the streams of a store see the clock, when a source partition becomes idle.

It sleeps until the time that the last commit noted, and so polls nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.core import StoreThread
from penstock.flow import SystemClock

__all__ = ["ClockThread"]

_LONGEST = 3600.0  # seconds of one wait


class Ticking(Protocol):
    """A store with streams."""

    def tick(self) -> None:
        """Let the streams see the clock."""
        ...


class ClockThread:
    """The thread of one open store."""

    def __init__(self, store: Ticking, clock: SystemClock) -> None:
        self._clock = clock
        self._stopped = False
        self._thread = StoreThread("penstock clock", store, self._step, self._rest)

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._clock.wake()
        self._thread.close()

    def _step(self, store: Ticking, wait: Callable[[float], bool]) -> float:
        if self._clock.is_due():
            store.tick()
        return _LONGEST

    def _rest(self, seconds: float) -> bool:
        """Wait until the noted time. Return True to end."""
        if not self._stopped:
            self._clock.wait(seconds)
        return self._stopped
