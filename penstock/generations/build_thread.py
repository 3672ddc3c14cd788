"""The thread that builds changed views, in steps between the batches of writers.

While others write, they get several times the length of a step, so that they keep most of their rate. The wait for the
lock counts toward that time; a pause is the rest. Between long batches a step may be longer. If nobody writes, steps
follow each other. A failed step is retried after a while, and `status()` reports the failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.cache import Closed, ForkedStore, error_text
from penstock.core import StoreThread

__all__ = ["BuildPace", "BuildingEngine", "Turn", "start_build"]

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

    def build_failure(self, why: str | None) -> None:
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
