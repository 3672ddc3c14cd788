"""The thread that builds views which changed, in steps between the batches of others.

While others write, they have several times the length of a step for themselves, so that they keep most of their rate:
what a step waited for the lock counts, and a pause is the rest. Beside long batches a step may do more.
While nobody writes, steps follow each other. What fails is tried again after a while, and said in `status()`.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.cache import Closed, ForkedStore, said

__all__ = ["Pace", "Sweeper", "Turn"]

_IDLE, _BUSY, _LONG = 0.02, 0.008, 0.05  # seconds that a step should take; what it may beside long batches
_REST = 3.5  # times the length of a step that others have for themselves
_LEAST, _MOST = 64, 1 << 14  # documents of a step
_AGAIN, _LONGEST = 1.0, 60.0  # seconds after which what failed is tried again
_log = logging.getLogger("penstock.engine")


@dataclass(frozen=True, slots=True)
class Turn:
    """A step that was done: whether there is another, the seconds that it took and that it waited for its turn, and
    whether others wrote since the last one.
    """

    more: bool
    took: float
    waited: float
    busy: bool


class Pace:
    """How much a step does, and how long the pause after it is: both from what the last one took.

    >>> pace = Pace()
    >>> pace.after(Turn(True, took=0.02, waited=0.01, busy=True))
    >>> pace.limit, round(pace.pause, 3)
    (102, 0.06)
    """

    def __init__(self) -> None:
        self.limit = 256
        self.pause = 0.0

    def after(self, turn: Turn) -> None:
        """A step is done."""
        should = min(max(_BUSY, turn.waited / _REST), _LONG) if turn.busy else _IDLE
        wanted = self.limit * should / max(turn.took, 1e-6)
        self.limit = int(min(max(wanted, self.limit / 4, _LEAST), self.limit * 2, _MOST))
        self.pause = max(0.0, turn.took * _REST - turn.waited) if turn.busy else 0.0


class Sweeping(Protocol):
    """What the thread needs of an engine."""

    def sweep_once(self, limit: int) -> Turn:
        """One step."""
        ...

    def sweep_failed(self, why: str | None) -> None:
        """The last step failed, and why; None: it didn't."""
        ...


class Sweeper:
    """The thread, from its making until there is nothing left to do, or until `close`. It keeps no engine alive."""

    def __init__(self, engine: Sweeping, wait: Callable[[float], bool] | None = None) -> None:
        self._engine = weakref.ref(engine)
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._thread = threading.Thread(target=self._run, name="penstock-sweep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it after the step that is under way."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        pace, again = Pace(), _AGAIN
        while not self._ended.is_set():
            engine = self._engine()
            if engine is None:
                return
            try:
                turn = engine.sweep_once(pace.limit)
                engine.sweep_failed(None)
            except (Closed, ForkedStore):
                return
            except Exception as error:
                _log.exception("views could not be built further; it is tried again in %d s", again)
                engine.sweep_failed(said(error))
                pause, again = again, min(2 * again, _LONGEST)
            else:
                if not turn.more:
                    return
                pace.after(turn)
                pause, again = pace.pause, _AGAIN
            del engine
            self._wait(pause)
