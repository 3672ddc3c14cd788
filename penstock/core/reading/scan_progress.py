"""The progress of scans of several partitions, reported as that of one scan."""

from __future__ import annotations

from penstock.views import Progress

__all__ = ["Passed"]


class Passed:
    """Adds up the progress of several scans. Each counts as long as the mean of the scans whose lengths are known."""

    def __init__(self, partitions: int, progress: Progress | None) -> None:
        self._progress = progress
        self._done = [(0, 0)] * partitions

    def of(self, partition: int) -> Progress | None:
        """Return the callback for the scan of one partition; None if nobody wants to know."""
        if self._progress is None:
            return None
        tell = self._progress

        def passed(done: int, total: int) -> None:
            self._done[partition] = done, total
            known = [own for own in self._done if own[1]]
            tell(sum(own for own, _ in known), sum(own for _, own in known) * len(self._done) // len(known))

        return passed
