"""The thread that scrubs an open store again and again, at a bounded rate.

A walk has one snapshot: only the pages of one transaction can be compared with its digests and its free list. The
snapshot keeps the pages that writers free meanwhile, so the file grows. So a walk of a large store is faster than the
rate, and takes ten minutes at most. Invariant: `close` waits for one step of a walk, never for a walk.
"""

from __future__ import annotations

import logging
import mmap
import time
from collections.abc import Callable
from typing import Protocol

from penstock.cache import Closed, ForkedStore, PenstockError, error_text
from penstock.core.settings import Scrubbing
from penstock.core.upkeep.scrub_result import ScrubResult
from penstock.core.upkeep.store_thread import StoreThread
from penstock.views import Progress

__all__ = ["ScrubEnded", "ScrubPace", "ScrubbedEngine", "start_scrubs"]

_LONGEST = 600.0  # seconds of a walk
_STEP = 256  # pages between two pauses
_AGAIN = 60.0  # seconds before a failed walk is retried
_log = logging.getLogger("penstock.engine")


class ScrubEnded(Exception):
    """A signal that the thread must end and give up its walk."""


class ScrubPace:
    """The pauses of one walk: they keep it at the rate.

    >>> pauses = []
    >>> pace = ScrubPace(rate=4096 * 1000, wait=lambda seconds: pauses.append(seconds), clock=lambda: 0.0)
    >>> pace(100, 1000), pace(300, 1000), pace(400, 1000)
    (None, None, None)
    >>> pauses
    [0.3]
    """

    def __init__(
        self, rate: float, wait: Callable[[float], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate / mmap.PAGESIZE
        self._wait = wait
        self._clock = clock
        self._passed = 0
        self._began = clock()

    def __call__(self, passed: int, total: int) -> None:
        """Wait if a pause is due. Raise ScrubEnded if the thread must end."""
        pages = passed - self._passed
        if 0 <= pages < _STEP:
            return
        rate = max(self._rate, total / _LONGEST)
        pause = max(pages, 0) / rate - (self._clock() - self._began)
        if self._wait(max(pause, 0.0)):
            raise ScrubEnded
        self._passed, self._began = passed, self._clock()


class ScrubbedEngine(Protocol):
    """The engine, as the thread uses it."""

    def last_scrub(self) -> ScrubResult | None:
        """Return the result of the last scrub."""
        ...

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Walk all pages."""
        ...


def start_scrubs(
    engine: ScrubbedEngine, scrubbing: Scrubbing, wait: Callable[[float], bool] | None = None
) -> StoreThread[ScrubbedEngine]:
    """Start the thread that scrubs at intervals. To end it takes a step of its walk at most."""

    def step(engine: ScrubbedEngine, wait: Callable[[float], bool]) -> float | None:
        pause = _due(engine.last_scrub(), scrubbing)
        if pause > 0:
            return pause
        try:
            engine.scrub_once(ScrubPace(scrubbing.rate, wait))
        except ScrubEnded:
            return None
        except (Closed, ForkedStore):
            raise
        except PenstockError as error:
            _log.warning(
                "the store could not be scrubbed, and it is tried again in %d s: %s", _AGAIN, error_text(error)
            )
            return _AGAIN
        except Exception as error:
            _log.exception("the store could not be scrubbed: %s; it is tried again in %d s", error_text(error), _AGAIN)
            return _AGAIN
        return scrubbing.every

    return StoreThread("penstock-scrub", engine, step, wait)


def _due(last: ScrubResult | None, scrubbing: Scrubbing) -> float:
    """Return the seconds until the next walk; a clock that was set back does not postpone it further."""
    if last is None or last.damaged:
        return 0.0
    return min(last.ended + scrubbing.every - time.time(), scrubbing.every)
