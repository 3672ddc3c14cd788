"""The build of changed views in a store of several partitions: each adds its documents, and all switch together.

Each step runs at every partition, under the lock of the process that serves them. So writers take turns with the build.
Once no partition has documents left, writers pause until all productions have arrived. Then each partition switches in
its own transaction. Invariants:

- no partition switches before all documents are built and all their productions have arrived;
- nothing else is committed between the first switch and the last one, by this process or the next writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol, TypeVar

from penstock.cache import PenstockError
from penstock.core import OpenState, Snapshot, StoreThread
from penstock.generations import (
    AT_ONCE,
    STEP,
    BuildingEngine,
    BuildProgress,
    BuildTurns,
    Switch,
    Turn,
    migrated_of,
    start_build,
)
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.views import Changed, Migrated, Progress

__all__ = ["PartitionedBuilding", "ServedStore"]

_T = TypeVar("_T")


class ServedStore(Protocol):
    """A store of several partitions, open for writing, with the methods that a build needs."""

    @property
    def state(self) -> OpenState:
        """Its process, its lock and its end."""
        ...

    def snapshot(self) -> Snapshot:
        """Make a snapshot of each partition."""
        ...

    def still(self, settled: bool = True) -> AbstractContextManager[None]:
        """Hold all partitions, with nothing in flight."""
        ...

    @property
    def push(self) -> Callable[[], None]:
        """Carry productions that are in flight."""
        ...

    def at_each(self, one: Callable[[PartitionHandle], _T]) -> list[_T]:
        """Call a function for each partition; return the answers in the order of the partitions."""
        ...


class PartitionedBuilding:
    """The builds of views in a store of several partitions.

    `changed` are those whose definition changed at the opening. `feed` says whether the store keeps changes.
    """

    def __init__(
        self, store: ServedStore, handles: Sequence[PartitionHandle], changed: Sequence[Changed], feed: bool
    ) -> None:
        self._store = store
        self._state = store.state
        self._handles = handles
        self._changed = tuple(changed)
        self._feed = feed
        self._turns = BuildTurns(store.state)
        self.sweeper: StoreThread[BuildingEngine] | None = None
        self.trouble: str | None = None
        """The reason why the last step failed."""
        self.switching = False
        """True if some partitions may have switched, and others have not."""
        self.switched_join = ""
        """The join whose sides they switch; "" if they switch all views."""
        self.refilled = 0
        """The lowest number of the refill to which they switch; 0 if they switch to views that were built."""

    def migrate(self, progress: Progress | None) -> Migrated:
        """Build the rest now, and report the views that were built since the store was opened."""
        steps = self.build_all(progress)
        applied, switched = sum(own.applied for own in steps), [own.switched for own in steps]
        return migrated_of(self._changed, applied, switched, self._feed, self._store.snapshot)

    def begin(self) -> None:
        """Build the rest, if there is any: a small rest at once, a large one by a thread."""
        self._state.must_be_open()
        steps = self._build_steps(None)
        if not any(own.more or own.waits_or_unfinished for own in steps):
            return
        if sum(own.total - own.done for own in steps) <= AT_ONCE:
            self.build_all(None)
        else:
            self.sweeper = start_build(self)

    def stop(self) -> None:
        """End the thread after its step."""
        if self.sweeper is not None:
            self.sweeper.close()

    def settle(self) -> None:
        """Build all views that are being built, so that the next call concerns one generation only."""
        self.build_all(None)

    def build_once(self, limit: int) -> Turn:
        """Do one step."""
        return self._turns.take(lambda: self.build(limit)[0])

    def build_failure(self, reason: str | None) -> None:
        """Note why the last step of the thread failed; None if it succeeded."""
        self.trouble = reason

    def build_all(self, progress: Progress | None) -> list[BuildProgress]:
        """Build the rest in steps; return the last answers of the partitions."""
        more, steps = True, list[BuildProgress]()
        while more:
            with self._state.lock.next():
                self._state.must_be_open()
                more, steps = self.build(STEP)
            if progress is not None and any(own.total for own in steps):
                progress(sum(own.done for own in steps), sum(own.total for own in steps))
        return steps

    def build(self, limit: int) -> tuple[bool, list[BuildProgress]]:
        """Take a step at each partition; once none has any left, all switch.

        Return True if more is left, and the answers of the partitions.
        """
        if self.switched_join:  # a switch of its sides failed at some partition
            self.finish_switch_first()
        steps = self._build_steps(limit)
        with suppress(PenstockError):  # a later call reports a production that is refused, and repairs begin with this
            self._store.push()
        if any(own.waits_or_unfinished for own in steps) and not any(own.more for own in steps):
            self.switching = self.switching or any(own.unfinished for own in steps)
            with self._store.still():
                self.switching = True
                self.switched_join = max(own.of for own in steps)
                steps = self.finish_switch()
        return any(own.more or own.waits_or_unfinished for own in steps), steps

    def finish_switch(self) -> list[BuildProgress]:
        """Switch those partitions that wait, if a switch was begun, and let all of them drop the former generation.

        Call this while nothing is in flight and no other process writes.
        """
        if not self.switching:
            return []
        if self.refilled:
            for handle in self._handles:
                handle.repair("refill", "switch", self.refilled)
        else:
            self._build_steps(None, "switch", self.switched_join)
        steps = self._build_steps(None, "finish")
        self.switching, self.refilled, self.switched_join = False, 0, ""
        return steps

    def finish_switch_first(self) -> None:
        """Finish a switch that failed between two partitions, before anything else is committed."""
        if self.switching:
            with self._store.still(settled=False):
                pass

    def _build_steps(self, limit: int | None, switch: Switch | None = None, of: str = "") -> list[BuildProgress]:
        return self._store.at_each(lambda handle: handle.build_step(limit, switch, of))
