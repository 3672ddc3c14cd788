"""The offset of each partition in each source, remembered by the process that serves the store.

Invariant: after a batch failed at some partition nothing is remembered, and the partitions are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.core import Resume, check_fence
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.spout import Remembered, SourceMoved, SpoutBatch

__all__ = ["SourcePositions"]


class SourcePositions:
    """The offsets of sources by partition, and the notes of their spouts.

    `finish` finishes a switch that only some partitions made. It runs before they are asked: the switch of a refill
    moves sources.
    """

    def __init__(
        self, handles: Sequence[PartitionHandle], sources: list[dict[str, int]], finish: Callable[[], None]
    ) -> None:
        self._handles = handles
        self._finish = finish
        self._sources = sources
        self._spout_states: dict[str, bytes] = {}
        self.sure = True

    def of(self, source: str) -> list[int | None]:
        """Return the offset of each partition in a source; None for one that has not begun it."""
        return [own.get(source) for own in self._known()]

    def least(self, source: str) -> int:
        """Return the lowest offset of a source among all partitions; 0 if one has not begun it."""
        return min(offset or 0 for offset in self.of(source))

    def remembered(self, source: str) -> Remembered | None:
        """Return the lowest offset of a source with its spout state; None if a partition has not begun it."""
        known = self.of(source)
        offsets = [offset for offset in known if offset is not None]
        if len(offsets) < len(known):
            return None
        least = min(offsets)
        if source not in self._spout_states:
            self._spout_states[source] = self._handles[offsets.index(least)].spout_state(source)
        return Remembered(least, self._spout_states[source])

    def follows(self, batch: SpoutBatch, source: str) -> bool:
        """Return True if a batch begins at the lowest offset or before it, and False for a redelivery.

        Raise SourceMoved if it begins after that, or if its reader had an outdated offset.
        """
        least = self.least(source)
        if batch.fenced:
            check_fence(batch, self.remembered(source))
        if batch.again:
            return True
        if batch.resume > least < batch.start:
            raise SourceMoved(source, batch.start, least)
        return batch.resume > least

    def within(self, batch: SpoutBatch, source: str) -> bool:
        """Return True if some partition has a part of the batch."""
        return not batch.again and any(batch.start < (done or 0) < batch.resume for done in self.of(source))

    def moved(self, source: str, resume: Resume, everywhere: bool) -> None:
        """Note that a batch is stored, which moved the source `everywhere` or only in some partitions."""
        if everywhere:
            self._spout_states[source] = resume.spout_state
        else:
            self._spout_states.pop(source, None)
        for own in self._known():
            own[source] = resume.offset if resume.again else max(resume.offset, own.get(source, 0))

    def _known(self) -> list[dict[str, int]]:
        if not self.sure:
            self._finish()
            self._sources = [dict(handle.standing().sources) for handle in self._handles]
            self._spout_states.clear()
            self.sure = True
        return self._sources
