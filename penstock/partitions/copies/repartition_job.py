"""A repartitioning: the rows of a store move into a new number of partitions, which then replace it.

    leftovers cleared ─▶ new stores `<turn>-<i>` filled, synced, read back ─▶ the file `partitions` replaced ─▶
    the old stores removed

A kill leaves the old store or the new one, and the next run deletes the leftovers. A store of one partition has no such
file, so the removal of the file makes it the store. Invariants:

- no other process writes or reads a partition when the file changes;
- positions continue after the highest of all partitions, and the feed begins there. Earlier positions have expired.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from penstock.cache import (
    DefinitionError,
    Limits,
    PenstockError,
    StoreMissing,
    Tell,
    WriterLock,
    check_file,
    checked,
    key_text,
    must_have_no_other,
    must_have_room,
    naming,
    open_lmdb,
    opened_folder,
    sync_folder,
)
from penstock.core import (
    Catalog,
    Core,
    Schema,
    Settings,
    Snapshot,
    StoreLayout,
    catalog_of,
    catalog_row,
    database_labels,
    identity_of,
    is_store,
    layout_of,
    must_be_alone,
    read_layout,
)
from penstock.mapreduce import KeyRanges, even_starts
from penstock.partitions.copies.repartition_target import RepartitionTarget
from penstock.partitions.copies.row_moves import RowMoves
from penstock.partitions.copies.store_replacement import StoreReplacement, clear_leftovers, next_turn
from penstock.partitions.partition_catalogs import catalogs_of
from penstock.partitions.union.union_snapshot import PartitionedSnapshot
from penstock.recovery import in_flight, unconfirmed_batches
from penstock.views import check_no_streams

__all__ = ["MOST_PARTITIONS", "Repartitioned", "repartition"]

MOST_PARTITIONS = 256
_MEMORY = 512 << 20  # of all new stores together, without Python's own
_BASE = 96 << 20


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The result: the number of partitions before and after, and the documents and bytes of each present partition."""

    before: int
    after: int
    documents: tuple[int, ...]
    bytes: tuple[int, ...]

    def data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)


@checked
def repartition(path: str | os.PathLike[str], to: int, tell: Tell | None = None) -> Repartitioned:
    """Change the number of partitions of the store at a path to `to`. Each partition owns an equal share of the hashes.

    The content and its digest stay the same, and no map or reducer runs. No other process may have the store open.
    `tell` receives the step ("moving", "checking"), the amount done and the total.
    """
    where = os.fspath(path)
    if isinstance(to, bool) or not isinstance(to, int) or not 1 <= to <= MOST_PARTITIONS:
        raise DefinitionError(
            f"a store can't have {key_text(to)} partitions; write a number from 1 to {MOST_PARTITIONS}"
        )
    if not is_store(where):
        raise StoreMissing(where)
    with ExitStack() as stack:
        stack.enter_context(WriterLock(where))
        layout = read_layout(where)
        folders = [where] if layout is None else layout.folders(where)
        if layout is not None:
            for folder in folders:
                stack.enter_context(WriterLock(folder))
        clear_leftovers(where, layout)
        for folder in folders if layout is not None else ():
            with opened_folder(folder) as opened:
                must_have_no_other(opened, folder)
        return _Repartition(where, layout, folders, to, tell or _nobody).run()


class _Repartition:
    """One repartitioning. The caller has the writer locks of the store and its partitions."""

    def __init__(self, path: str, layout: StoreLayout | None, folders: list[str], to: int, tell: Tell) -> None:
        self._path = path
        self._layout = layout
        self._folders = folders
        self._to = to
        self._tell = tell
        self._replacement = StoreReplacement(path, layout)

    def run(self) -> Repartitioned:
        """Perform all steps, and return the result."""
        self._replacement.must_be_unread()
        before = len(self._folders)
        with _opened(self._folders, self._layout) as (cores, snap):
            if before == self._to:
                return Repartitioned(before, before, *_sizes(cores, snap.parts))
            _check_at_rest(snap)
            check_no_streams(snap.schema.app.streams(), "a store of several partitions", "stay with one partition")
            catalog = snap.schema.catalog
            after = layout_of(catalog.app, catalog.seed, even_starts(self._to), next_turn(self._layout))
            must_have_room(self._path, self._path, sum(core.store.info()["used"] for core in cores))
            self._fill(snap, after)
        for folder in after.folders(self._path):
            check_file(folder, None, self._tell)
        self._replacement.take(after, alone=self._to == 1)
        now = read_layout(self._path)
        with _opened([self._path] if now is None else now.folders(self._path), now) as (cores, snap):
            return Repartitioned(before, self._to, *_sizes(cores, snap.parts))

    def _fill(self, snap: Snapshot, after: StoreLayout) -> None:
        """Make the new stores, complete and synced."""
        catalog = _catalog(snap.schema.catalog)
        memory = _BASE + _MEMORY // self._to
        targets: list[RepartitionTarget] = []
        try:
            for number, folder in enumerate(after.folders(self._path)):
                own = None if self._to == 1 else identity_of(after.ranges(), number)
                targets.append(RepartitionTarget(folder, snap.schema.app, replace(catalog, partition=own), memory))
            with snap.naming():
                RowMoves(snap, targets, after.ranges(), self._tell).run()
        finally:
            for target in targets:
                target.close()
        sync_folder(self._path)


@contextmanager
def _opened(folders: Sequence[str], layout: StoreLayout | None) -> Iterator[tuple[list[Core], Snapshot]]:
    """Open the stores in these folders, and a snapshot over them; the catalog defines their app."""
    cores: list[Core] = []
    if layout is not None:
        catalogs_of(folders, layout.ranges())
    try:
        for folder in folders:
            store = open_lmdb(folder, readonly=True)
            with store.read() as reader, naming(lambda: database_labels(None)):
                row = catalog_row(reader)
                if row is None:
                    raise StoreMissing(folder)
                catalog = catalog_of(row, folder)
                if layout is None:
                    must_be_alone(catalog, folder)
                app = Schema(row, catalog).app
            cores.append(Core(app, store, Settings(_BASE, Limits()), folder, readonly=True))
        ranges = KeyRanges((0,), cores[0].catalog.seed) if layout is None else layout.ranges()
        with PartitionedSnapshot(cores, ranges) as snap:
            yield cores, snap
    finally:
        for core in cores:
            core.close()


def _check_at_rest(snap: Snapshot) -> None:
    """Raise PenstockError if a build, a refill, a production or an early set is under way."""
    for i, part in enumerate(snap.parts):
        catalog = part.schema.catalog
        building = [name for name, entry in catalog.entries.items() if entry.next is not None]
        if building:
            raise PenstockError(
                f"view {building[0]!r} is being built anew; run `penstock migrate`, and repartition after that"
            )
        if catalog.refill is not None and catalog.refill.filling:
            raise PenstockError("a backfill of the store is under way; let it end, and repartition after that")
        owed = in_flight(part.reader())
        if owed:
            raise PenstockError(
                f"partition {i} has {owed:,} productions that others did not take yet; open the store, which sends "
                "them, close it, and repartition after that"
            )
        batches, states = unconfirmed_batches(part.reader()), [own.state for own in snap.parts]
        unsaved = [of for of, batch in batches.items() if batch > states[of].unheard.get(i, states[of].batch)]
        early = next(iter(unsaved), None)
        if early is not None:
            raise PenstockError(
                f"partition {i} was told of something that partition {early} does not have; open the store, which "
                "takes that back, close it, and repartition after that"
            )


def _catalog(catalog: Catalog) -> Catalog:
    """Return the catalog of a new store: the same definitions, without former generations."""
    clean = replace(catalog, last=catalog.highest(), since=None, former=(), trash=(), refill=None)
    return replace(clean, unfinished=None)


def _sizes(cores: Sequence[Core], parts: Sequence[Snapshot]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    documents = tuple(sum(len(part.table(name)) for name in part.schema.tables) for part in parts)
    return documents, tuple(core.store.info()["bytes"] for core in cores)


def _nobody(what: str, done: int, total: int) -> None:
    """Report no progress."""
