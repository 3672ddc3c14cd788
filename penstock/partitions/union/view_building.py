"""Building views that changed in a store of several partitions: each tells what it owns, and all switch together.

Every step is one at each partition, behind the lock of who serves them, so that writers take turns with it as in a
store of one. Once nothing is left anywhere nothing is given any more, all that partitions owe each other arrives, and
each of them switches in a transaction of its own. Invariants:

- no partition switches before all of them were told everything, and it has arrived;
- after the first switch nothing else is committed before the last one, by this process or the next that opens them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from penstock.cache import PenstockError
from penstock.core import differing
from penstock.engine.partitioned_reading import SpannedEngine
from penstock.generations import AT_ONCE, STEP, Sweeper, Swept, Switch
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.views import Changed, Migrated, Progress

__all__ = ["PartedBuilding"]


class PartedBuilding(SpannedEngine):
    """The part of a store of several partitions that builds views."""

    _seats: list[PartitionHandle]
    _carry: Callable[[], None]
    _changed: Sequence[Changed] = ()
    switching = False
    """Whether some partitions may have switched, and others not."""
    _refilled = 0
    """The lowest number of the refill to which they switch; 0 if they switch to views that were built."""

    @abstractmethod
    def still(self, settled: bool = True) -> AbstractContextManager[None]:
        """Hold all partitions, with nothing on its way."""

    def migrate(self, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that changed, now; a thread does the same, leaving most of the time to writers.

        When it returns readers see all views as the app defines them. The report says which views were built since the
        store was opened and why, and in how many groups readers find another result. `progress` is told how many
        documents and rows views were told of, of how many.

        engine.migrate().groups
        """
        self._writable()
        swept = self._all_built(progress)
        changed = tuple(self._changed)
        at = [own.switched for own in swept]
        if all(position is None for position in at):
            return Migrated(changed, 0, 0)
        told = sum(own.told for own in swept)
        if not self._core.feed.on:
            return Migrated(changed, told, None)
        with self.snapshot() as snap:
            names, groups = snap.schema.followed(), 0
            for part, position in zip(snap.parts, at, strict=True):
                if position is not None:
                    groups += sum(1 for _ in differing(part.reader(), part.schema, names, position))
        return Migrated(changed, told, groups)

    def begin_sweeping(self) -> None:
        """Build what is left, if there is anything: at once where that is done in a moment, else by a thread."""
        self._open()
        swept = self._swept(None)
        if not any(own.more or own.waits_or_unfinished for own in swept):
            return
        if sum(own.total - own.done for own in swept) <= AT_ONCE:
            self._finish(None)
        else:
            self._sweeper = Sweeper(self)

    def _step(self, limit: int) -> bool:
        return self._build(limit)[0]

    @property
    def _behind(self) -> int:
        return 0  # a step at a partition tells what came since itself

    def _settle(self) -> None:
        self._all_built(None)

    def _finish(self, progress: Progress | None) -> None:
        self._all_built(progress)

    def _all_built(self, progress: Progress | None) -> list[Swept]:
        more, swept = True, list[Swept]()
        while more:
            with self._lock.next():
                self._open()
                more, swept = self._build(STEP)
            if progress is not None and any(own.total for own in swept):
                progress(sum(own.done for own in swept), sum(own.total for own in swept))
        return swept

    def _build(self, limit: int) -> tuple[bool, list[Swept]]:
        """A step at each partition; once none has any left all switch. Whether there is more, and how far they are."""
        swept = self._swept(limit)
        with suppress(PenstockError):  # what can't be taken is told where it must be, and repairs begin with this
            self._carry()
        if any(own.waits_or_unfinished for own in swept) and not any(own.more for own in swept):
            self.switching = self.switching or any(own.unfinished for own in swept)
            with self.still():
                self.switching = True
                swept = self.finish_switch()
        return any(own.more or own.waits_or_unfinished for own in swept), swept

    def finish_switch(self) -> list[Swept]:
        """Switch those partitions that wait, if a switch was begun, and let all of them drop the former generation.

        Called where nothing is on its way, and nobody else writes.
        """
        if not self.switching:
            return []
        if self._refilled:
            for seat in self._seats:
                seat.repair("refill", "switch", self._refilled)
        else:
            self._swept(None, "switch")
        swept = self._swept(None, "finish")
        self.switching, self._refilled = False, 0
        return swept

    def _finish_switch_first(self) -> None:
        """Finish a switch that failed between two partitions, before anything else is committed."""
        if self.switching:
            with self.still(settled=False):
                pass

    @abstractmethod
    def _swept(self, limit: int | None, switch: Switch | None = None) -> list[Swept]:
        """Do at each partition what `swept_by` does."""
