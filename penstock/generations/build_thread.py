"""The thread that builds changed views, in steps between the batches of writers.

While others write, they get several times the length of a step, so that they keep most of their rate. The wait for the
lock counts toward that time; a pause is the rest. Between long batches a step may be longer. If nobody writes, steps
follow each other. A failed step is retried after a while, and `status()` reports the failure.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.cache import Closed, ForkedStore, error_text
from penstock.core import OpenState, StoreThread

__all__ = ["BuildPace", "BuildTurns", "BuildingEngine", "Turn", "start_build"]

_IDLE, _BUSY, _LONG = 0.02, 0.008, 0.05  # seconds of a step: idle, beside writers, beside long batches
_REST = 3.5  # writers get this many times the length of a step
_LEAST, _MOST = 64, 1 << 14  # documents of a step
_AGAIN, _LONGEST = 1.0, 60.0  # seconds before a failed step is retried
_log = logging.getLogger("penstock.engine")


@dataclass(frozen=True, slots=True)
class Turn:
    """A finished step of a build, and the seconds that it `took` and `waited`.

    `more` means that another step is left, `busy` that others wrote since the last one.
    """

    more: bool
    took: float
    waited: float
    busy: bool


class BuildTurns:
    """The turns of builds at the lock of a store, with the facts from which the pace is computed."""

    def __init__(self, state: OpenState) -> None:
        self._state = state
        self._seen = 0  # how often the lock had been taken at the last step

    def take(self, step: Callable[[], bool], catch_up: Callable[[], bool | None] | None = None) -> Turn:
        """Run one step under the lock; it returns True if another one is left.

        `catch_up` then processes the rows that writers added since the last step. It returns None if there are none,
        else True if another step is left.
        """
        asked = time.perf_counter()
        with self._state.lock.next():
            self._state.must_be_open()
            began = time.perf_counter()
            more = step()
            took = time.perf_counter() - began
            busy, self._seen = self._state.lock.taken != self._seen, self._state.lock.taken
            left = None if catch_up is None else catch_up()
            if left is not None:
                busy = False  # writers make rows as fast as steps process them: they get every other turn at most
                more = left
        return Turn(more, took, began - asked, busy)


class BuildPace:
    """The size of the next step and the pause before it, computed from the last step.

    >>> pace = BuildPace()
    >>> pace.after(Turn(True, took=0.02, waited=0.01, busy=True))
    >>> pace.limit, round(pace.pause, 3)
    (102, 0.06)
    """

    def __init__(self) -> None:
        self.limit = 256
        self.pause = 0.0

    def after(self, turn: Turn) -> None:
        """Compute both after a step."""
        should = min(max(_BUSY, turn.waited / _REST), _LONG) if turn.busy else _IDLE
        wanted = self.limit * should / max(turn.took, 1e-6)
        self.limit = int(min(max(wanted, self.limit / 4, _LEAST), self.limit * 2, _MOST))
        self.pause = max(0.0, turn.took * _REST - turn.waited) if turn.busy else 0.0


class BuildingEngine(Protocol):
    """The engine, as the thread uses it."""

    def build_once(self, limit: int) -> Turn:
        """Run one step."""
        ...

    def build_failure(self, reason: str | None) -> None:
        """Record the failure of the last step, or None if it succeeded."""
        ...


class _Steps:
    """The steps of one thread: their pace, and the time until a failed one is retried."""

    def __init__(self) -> None:
        self._pace = BuildPace()
        self._again = _AGAIN

    def __call__(self, engine: BuildingEngine, _wait: Callable[[float], bool]) -> float | None:
        """Run one step; return the seconds until the next one, or None after the last one."""
        try:
            turn = engine.build_once(self._pace.limit)
            engine.build_failure(None)
        except (Closed, ForkedStore):
            raise
        except Exception as error:
            _log.exception("views could not be built further; it is tried again in %d s", self._again)
            engine.build_failure(error_text(error))
            pause, self._again = self._again, min(2 * self._again, _LONGEST)
            return pause
        if not turn.more:
            return None
        self._pace.after(turn)
        self._again = _AGAIN
        return self._pace.pause


def start_build(engine: BuildingEngine, wait: Callable[[float], bool] | None = None) -> StoreThread[BuildingEngine]:
    """Start the thread that builds. It runs until the build is complete."""
    return StoreThread("penstock-sweep", engine, _Steps(), wait)
