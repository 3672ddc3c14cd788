"""The part of the engine that scrubs its store: all pages walked in the background, and their damage told."""

from __future__ import annotations

import logging

from penstock.core import Scrubber, Scrubbing, ScrubResult, Walked, read_result, walk
from penstock.engine.calls.refill_calls import Refills
from penstock.recovery import Steps
from penstock.views import Progress

__all__ = ["Scrubs"]

_GOES_ON = "The documents are whole, so batches go on"
_STOPS = "Batches would build on it, so the store takes none"
_log = logging.getLogger("penstock.engine")


class Scrubs(Refills):
    """The scrubs of an engine, whose writer is behind its lock."""

    def __init__(self) -> None:
        super().__init__()
        self._scrubber: Scrubber | None = None
        self._told: set[str] = set()  # damage that was logged

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Have a thread scrub the store now and then; a store in memory has no pages."""
        self._open()
        if scrubbing is not None and self._path is not None:
            self._scrubber = Scrubber(self, scrubbing)

    def last_scrub(self) -> ScrubResult | None:
        """The result of the last scrub; None if there was none."""
        return None if self._path is None else read_result(self._path)

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Walk all pages, and keep and log the result. Damage that no check repairs stops all transactions."""
        self._open()
        walked = walk(self._core.store.read, progress)
        self._core.damaged = walked.worst()
        self._tell(walked)
        if walked.uncounted and self._core.damaged is None:
            Steps(self._core, self._lock, []).count(walked.uncounted)
        if self._path is not None:
            walked.keep(self._path)

    def _tell(self, walked: Walked) -> None:
        """Log damage, each once."""
        effect = _GOES_ON if walked.worst() is None else _STOPS
        for line in (*walked.damaged, *map(walked.said, walked.lost)):
            if line not in self._told:
                self._told.add(line)
                _log.error("a scrub of %s found damage: %s. %s", self._path, line, effect)

    def _stop_scrubbing(self) -> None:
        if self._scrubber is not None:
            self._scrubber.close()
