"""The scrubs of a store: they walk all its pages in the background, and keep and log damage."""

from __future__ import annotations

import logging

from penstock.core import (
    Core,
    OpenState,
    PageReport,
    ScrubbedEngine,
    Scrubbing,
    ScrubResult,
    StoreThread,
    read_result,
    start_scrubs,
    walk,
)
from penstock.recovery import RepairSteps
from penstock.views import Progress

__all__ = ["StoreScrubs"]

_GOES_ON = "The documents are whole, so batches go on"
_STOPS = "Batches would build on it, so the store takes none"
_log = logging.getLogger("penstock.engine")


class StoreScrubs:
    """The scrubs of one folder."""

    def __init__(self, core: Core, state: OpenState) -> None:
        self._core = core
        self._state = state
        self.scrubber: StoreThread[ScrubbedEngine] | None = None
        self._logged: set[str] = set()

    def begin(self, scrubbing: Scrubbing | None) -> None:
        """Start a thread that scrubs the store at intervals; a store in memory has no pages."""
        self._state.must_be_open()
        if scrubbing is not None and self._state.path is not None:
            self.scrubber = start_scrubs(self, scrubbing)

    def last_scrub(self) -> ScrubResult | None:
        """Return the result of the last scrub; None if there was none."""
        return None if self._state.path is None else read_result(self._state.path)

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Walk all pages, and keep and log the result. Damage that no check repairs stops all transactions."""
        self._state.must_be_open()
        walked = walk(self._core.store.read, progress)
        self._core.damaged = walked.worst()
        self._log_once(walked)
        if walked.uncounted and self._core.damaged is None:
            RepairSteps(self._core, self._state.lock, []).count(walked.uncounted)
        if self._state.path is not None:
            walked.keep(self._state.path)

    def _log_once(self, walked: PageReport) -> None:
        effect = _GOES_ON if walked.worst() is None else _STOPS
        for line in (*walked.damaged, *map(walked.message, walked.lost)):
            if line not in self._logged:
                self._logged.add(line)
                _log.error("a scrub of %s found damage: %s. %s", self._state.path, line, effect)

    def stop(self) -> None:
        """End the thread within a step of its walk."""
        if self.scrubber is not None:
            self.scrubber.close()
