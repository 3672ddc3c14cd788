"""Where each partition of a store stands in each source, as who serves them remembers it.

Invariant: where a batch failed at some of them nothing is remembered, and they are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.core import Resume, check_fence
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.spout import Remembered, SourceMoved, SpoutBatch

__all__ = ["SourcePositions"]


class SourcePositions:
    """By partition the offsets of sources, and the notes of their spouts.

    `finish` finishes a switch that only some partitions made. It is called before they are asked: the switch of a
    refill moves sources.
    """

    def __init__(
        self, seats: Sequence[PartitionHandle], sources: list[dict[str, int]], finish: Callable[[], None]
    ) -> None:
        self._handles = seats
        self._finish = finish
        self._sources = sources
        self._notes: dict[str, bytes] = {}
        self.sure = True

    def of(self, source: str) -> list[int | None]:
        """Where each of them stands in a source; None where it has not begun with it."""
        return [own.get(source) for own in self._known()]

    def least(self, source: str) -> int:
        """The offset of a source up to which all have it."""
        return min(offset or 0 for offset in self.of(source))

    def remembered(self, source: str) -> Remembered | None:
        """Where the least of them stands; None where one has not begun."""
        known = self.of(source)
        offsets = [offset for offset in known if offset is not None]
        if len(offsets) < len(known):
            return None
        least = min(offsets)
        if source not in self._notes:
            self._notes[source] = self._handles[offsets.index(least)].note(source)
        return Remembered(least, self._notes[source])

    def follows(self, batch: SpoutBatch, source: str) -> bool:
        """Return True if a batch begins where the least of them stands, or before that, and False for a redelivery.

        SourceMoved is raised if it begins after that, or if its reader had an outdated offset.
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
        """A batch of it is in, and moved it `everywhere` or only in some."""
        if everywhere:
            self._notes[source] = resume.note
        else:
            self._notes.pop(source, None)
        for own in self._known():
            own[source] = resume.offset if resume.again else max(resume.offset, own.get(source, 0))

    def _known(self) -> list[dict[str, int]]:
        if not self.sure:
            self._finish()
            self._sources = [dict(seat.standing().sources) for seat in self._handles]
            self._notes.clear()
            self.sure = True
        return self._sources
