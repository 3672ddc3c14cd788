"""A store of several partitions, open to be read: every way of reading that a store of one has, in any process.

Invariant: it writes nothing; what others write shows in the next snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.cache import PenstockError, StoreMissing, naming, open_lmdb
from penstock.core import Core, Layout, Settings, digest_of, must_be_known, must_be_partition, places_of
from penstock.engine.engine import Engine
from penstock.engine.partitioned_status import status_of_all
from penstock.mapreduce import Ranges
from penstock.partitions.union.union_feed import follow_all
from penstock.partitions.union.union_snapshot import SpannedSnapshot, Switching, settled
from penstock.views import App, Changes, Progress

if TYPE_CHECKING:
    from penstock.core import Consistency, Snapshot

__all__ = ["SpannedEngine", "cores_of", "open_spanned"]

_AGAIN = 0.01  # seconds after which a snapshot is tried again
_IN_FLIGHT = (
    "partitions have not taken yet what they owe each other, so there is no digest of the documents; run this again "
    "once less is written, or, if no process has the store open to write, open it, with `penstock check` for one"
)
_UNHELD = (
    "a snapshot with consistency='position' is made by the process that serves the store, which holds its partitions "
    "meanwhile; ask there, or leave consistency= out"
)


class SpannedEngine(Engine):
    """An open store of several partitions; made by `ps.open(…, readonly=True)`."""

    looks = 100
    """How often a snapshot is tried again while partitions switch to other views."""

    def __init__(self, cores: list[Core], path: str, layout: Layout) -> None:
        super().__init__(cores[0], path, None, True, False)
        self._cores = cores
        self._layout = layout
        self._ranges = layout.ranges()

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """All views and tables, each partition as of a commit of its own; it sees nothing of what comes after.

        With consistency="position" nothing is on its way between partitions: views show all that documents say. That
        takes the process which serves the store.

        with engine.snapshot() as snap:
            snap.view("namecount")["Sue"]
        """
        self._open()
        must_be_known(consistency)
        if consistency == "position":
            raise PenstockError(_UNHELD)
        return self._spanned()

    def _spanned(self) -> SpannedSnapshot:
        for _ in range(self.looks):
            try:
                return SpannedSnapshot(self._cores, self._ranges)
            except Switching:
                time.sleep(_AGAIN)  # partitions switch one right after the other
        return SpannedSnapshot(self._cores, self._ranges)

    def digest(self) -> str:
        """One digest over all content, with nothing in flight between partitions.

        engine.digest()
        """
        with self._settled() as snap:
            return digest_of(snap, self._core.app)

    def _settled(self) -> Snapshot:
        """Make a snapshot in which nothing is in flight. A reader can't hold the partitions, so it looks again.

        Each partition is shown as of a moment of its own. Where a second look shows the states of the first, all of
        them stood so at one moment between the two.
        """
        self._open()
        for _ in range(self.looks):
            snap = self._spanned()
            with self._spanned() as again:
                same = [part.state for part in again.parts] == [part.state for part in snap.parts]
            if same and settled(snap.parts):
                return snap
            snap.close()
            time.sleep(_AGAIN)
        raise PenstockError(_IN_FLIGHT)

    @property
    def _follows(self) -> Callable[..., Iterator[Changes]]:
        return partial(follow_all, self._cores, self.snapshot)

    def status(self) -> dict[str, Any]:
        """Tables, views, position, sources and sizes, as data: those of all partitions together, and of each.

        engine.status()["partitions"][0]["documents"]
        """
        self._open()
        with self._spanned() as snap, snap.naming():
            return status_of_all(self._cores, snap, self._path, self._readonly, self._layout)

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Refuse: the process of each partition scrubs its own folder."""
        self._open()
        raise PenstockError("each partition scrubs itself; open the store with scrub=, or run `penstock check`")

    def close(self) -> None:
        """Let go of the store.

        engine.close()
        """
        super().close()
        for core in self._cores[1:] if self._closed else ():
            core.close()


def cores_of(app: App, path: str, layout: Layout, settings: Settings) -> list[Core]:
    """The partitions of the store at a path, opened to be read; where one can't be, none stays open."""
    cores: list[Core] = []
    try:
        for number, folder in enumerate(layout.folders(path)):
            cores.append(_core(app, folder, settings, layout.ranges(), number))
    except BaseException:
        for core in cores:
            core.close()
        raise
    return cores


def open_spanned(app: App, path: str, layout: Layout, settings: Settings) -> SpannedEngine:
    """Open the store at a path to read it."""
    return SpannedEngine(cores_of(app, path, layout, settings), path, layout)


def _core(app: App, folder: str, settings: Settings, ranges: Ranges, number: int) -> Core:
    store = open_lmdb(folder, readonly=True)
    try:
        with store.read() as reader, naming(lambda: places_of(None)):
            if must_be_partition(reader, folder, ranges, number) is None:
                raise StoreMissing(folder)
        return Core(app, store, settings, folder, readonly=True)
    except BaseException:
        store.close()
        raise
