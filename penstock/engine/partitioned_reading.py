"""The partitions of a store, read as one in any process: snapshots, the feed, the status.

Invariant: it writes nothing. A snapshot shows the commits before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from penstock.cache import PenstockError, StoreMissing, naming, open_lmdb
from penstock.core import (
    Core,
    FeedRequest,
    OpenState,
    Settings,
    Snapshot,
    StoreLayout,
    database_labels,
    must_be_partition,
)
from penstock.engine.store_status import status_of
from penstock.mapreduce import KeyRanges
from penstock.partitions import PartitionedSnapshot, Switching, follow_all, snapshots_at_rest
from penstock.views import App, Changes

__all__ = ["PartitionedReading", "cores_of"]

_AGAIN = 0.01  # seconds after which a snapshot is tried again
_IN_FLIGHT = (
    "partitions have not taken yet what they owe each other, so there is no digest of the documents; run this again "
    "once less is written, or, if no process has the store open to write, open it, with `penstock check` for one"
)


class PartitionedReading:
    """The partitions of an open store, read as one; `cores` are those of the partitions, in their order."""

    looks = 100
    """How often a snapshot is tried again while partitions switch to other views."""

    def __init__(self, cores: list[Core], layout: StoreLayout, state: OpenState) -> None:
        self.cores = cores
        self.layout = layout
        self.ranges = layout.ranges()
        self._state = state

    def snapshot(self) -> PartitionedSnapshot:
        """Make a snapshot of each partition, as of a commit of its own."""
        self._state.must_be_open()
        for _ in range(self.looks):
            try:
                return PartitionedSnapshot(self.cores, self.ranges)
            except Switching:
                time.sleep(_AGAIN)  # partitions switch one right after the other
        return PartitionedSnapshot(self.cores, self.ranges)

    def settled(self) -> Snapshot:
        """Make a snapshot in which nothing is in flight. A reader can't hold the partitions, so it looks again.

        Each partition is read at a time of its own. If a second read finds the same states as the first, all partitions
        had these states at one time between the two.
        """
        for _ in range(self.looks):
            snap = self.snapshot()
            with self.snapshot() as again:
                same = [partition.state for partition in again.parts] == [partition.state for partition in snap.parts]
            if same and snapshots_at_rest(snap.parts):
                return snap
            snap.close()
            time.sleep(_AGAIN)
        raise PenstockError(_IN_FLIGHT)

    def follow(self, request: FeedRequest) -> Iterator[Changes]:
        """Iterate over the changes of a request."""
        state = self._state
        return follow_all(self.cores, self.snapshot, request, state.rest, lambda: not state.closed)

    def naming(self) -> AbstractContextManager[None]:
        """Name damage that is found within; all partitions give views and tables the same numbers."""
        return self.cores[0].naming()

    def status(self, trouble: str | None) -> dict[str, Any]:
        """Describe all partitions together, and each; `trouble` is the error of a failed build of views."""
        with self.snapshot() as snap, snap.naming():
            return status_of(self.cores, snap, self._state, trouble, self.layout)

    def close(self) -> None:
        """Release the cores."""
        for core in self.cores:
            core.close()


def cores_of(app: App, path: str, layout: StoreLayout, settings: Settings) -> list[Core]:
    """Open the partitions of the store at a path for reading. After an error none stays open."""
    cores: list[Core] = []
    try:
        for number, folder in enumerate(layout.folders(path)):
            cores.append(_core(app, folder, settings, layout.ranges(), number))
    except BaseException:
        for core in cores:
            core.close()
        raise
    return cores


def _core(app: App, folder: str, settings: Settings, ranges: KeyRanges, number: int) -> Core:
    store = open_lmdb(folder, readonly=True)
    try:
        with store.read() as reader, naming(lambda: database_labels(None)):
            if must_be_partition(reader, folder, ranges, number) is None:
                raise StoreMissing(folder)
        return Core(app, store, settings, folder, readonly=True)
    except BaseException:
        store.close()
        raise
