"""The core of a store: one writer, its nodes, and one transaction per batch.

In a commit every node reads through the write transaction and collects its writes. All of them are written together
with the offsets and the state, and committed and synced once. Then the caches follow. A crash leaves the whole batch or
nothing. Invariants:

- any failure makes the caches doubtful: they are read from the store again before their next use;
- work between batches (index folds, compaction, cache eviction) runs in bounded steps before the next batch, each a
  transaction. A failure there does not fail a committed batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import msgspec

from penstock.cache import PenstockError, Reader, Store, StoreDamaged, Writer, naming
from penstock.core.cache_budget import CacheBudget
from penstock.core.catalog_nodes import NodeMaker, filling_nodes, halting, numbers_moved_lines
from penstock.core.damage_names import database_labels
from penstock.core.discarded_generations import empty_trash, forget_former
from penstock.core.feed_log import FeedLog
from penstock.core.gc_pause import no_collector
from penstock.core.metadata.catalog import BuildState, Catalog, catalog_of, catalog_row, read_built, serving_sides
from penstock.core.metadata.source_offsets import Resume, origin_of, write_spout_states
from penstock.core.metadata.store_state import StateRow, read_state, state_after, write_state
from penstock.core.protocol import Exchange, Listener, RefillRun, ViewBuild
from penstock.core.schema import Schema
from penstock.core.settings import Settings
from penstock.flow import Watermarks, close_windows
from penstock.gateway import IntakeReport, RejectedRecord, TableBatch, TableNode, Tails, keep_rejected, record_repeats
from penstock.join import JoinNodes
from penstock.mapreduce import ViewNode, Writes
from penstock.views import App, Changed

_T = TypeVar("_T")
_COMPACT_LEAST = 1 << 10


class Core:
    """The nodes of one store, and its writer."""

    def __init__(
        self,
        app: App,
        store: Store,
        settings: Settings,
        path: str = "memory",
        readonly: bool = False,
        exchange: Exchange | None = None,
        begin_build: BeginBuild | None = None,
    ) -> None:
        self.app = app
        self.exchange = exchange  # set if the store is one partition of several
        self.refilling: RefillRun | None = None  # the refill in which this process takes part
        self._begin_build = begin_build
        self.store = store
        self.tails = Tails()
        self._path = path
        self._schema: Schema | None = None
        self._budget = CacheBudget(settings.memory)
        self._readonly = readonly  # a read-only core caches no documents: its snapshots read the store
        self._limits = settings.limits
        self._busy = False
        self.feed = FeedLog(settings.changes)
        self.state = StateRow()
        self.watched: dict[str, Listener] = {}  # by view: the listener for its contributions during a repair
        self.changed: tuple[Changed, ...] = ()  # the views whose build this opening began or continued
        self.built_records = 0  # documents and rows that the build has read since
        self.switched: int | None = None  # the position at which readers began to see them
        self.trouble: str | None = None  # the error that stopped their build
        self.damaged: StoreDamaged | None = None  # further transactions would build on this damage
        self._following = False  # a batch is committed; caches and listeners are being updated
        self.views: dict[str, ViewNode] = {}
        self.tables: dict[str, TableNode] = {}
        self.joins = JoinNodes()
        self.watermarks = Watermarks(app.streams(), settings.clock)
        self.filling, self.filling_joins = dict[str, TableNode](), JoinNodes()  # of the tables that a refill has copied
        self.reload()

    # -- opening

    def reload(self) -> None:
        """Clear all caches, and read them from the store."""
        with self.naming():
            self._recall_all()

    def naming(self) -> AbstractContextManager[None]:
        """Return a context that names damage in the users' terms."""
        return naming(lambda: database_labels(self.catalog))

    def _recall_all(self) -> None:
        forgotten = [*self.tables.values(), *self.filling.values()]
        views, tables, joins = dict[str, ViewNode](), dict[str, TableNode](), JoinNodes()
        with self.store.read() as reader:
            row = catalog_row(reader)
            assert row is not None, "a store is opened with its catalog"
            self.catalog = catalog_of(row, self._path)
            state = read_state(reader)
            if not self._readonly:
                making = self.making({name: entry.written for name, entry in self.catalog.entries.items()}, state.ts)
                making = replace(making, serving=serving_sides(self.catalog))
                tables = {table.name: making.table(reader, table, views) for table in self.app.tables()}
                streams = self.app.streams()
                tables |= {own.name: making.stream(reader, own, views, self.watermarks) for own in streams}
                joins = making.joins(reader, tables, views)
            self.build: ViewBuild | None = None
            if self.catalog.since is not None and not self._readonly:
                assert self._begin_build is not None, "a store with views under way is opened to build them"
                self.build = self._begin_build(self, read_built(reader), tables, views, joins)
            if self.exchange is not None:
                self.exchange.recall(reader, state)
            self._catalog_row, self._schema = row, None
            self.tables, self.views, self.joins = tables, views, joins
            self.fill(reader)
            self.watermarks.recall(reader)
        self.feed.forget()
        self._owed: dict[str, int] = dict.fromkeys(tables, 0)  # records that count toward the work between batches
        self._sure = True
        for name, heard in self.watched.items():
            heard.lost = heard.lost or self._following or state.position != self.state.position
            views[name].watch = heard
        self.state, self._following = state, False
        for node in forgotten:
            node.release()

    def fill(self, reader: Reader) -> None:
        """Make the nodes of the tables that a refill has copied."""
        making = None if self._readonly else self.making
        self.filling, views, self.filling_joins = filling_nodes(self.catalog, making, self.app, reader)
        if self.exchange is not None:
            self.exchange.arrange([*self.views.values(), *views], [*self.joins, *self.filling_joins])

    def take_catalog(self, catalog: Catalog, row: bytes) -> None:
        """Set the catalog that was just written, and its row."""
        self.catalog, self._catalog_row = catalog, row

    def schema(self, reader: Reader) -> Schema:
        """Return the schema that this snapshot of the store shows."""
        row, known = catalog_row(reader), self._schema
        assert row is not None, "a store is opened with its catalog"
        if known is None or known.row != row:
            live = self.views if row == self._catalog_row else None
            known = self._schema = Schema(row, catalog_of(row, self._path), live, self.app)
        return known

    def making(self, numbers: Mapping[str, int], kinds: Mapping[str, str]) -> NodeMaker:
        """Return the factory for nodes of tables and views with these numbers."""
        slots = 1 if self._readonly else self._budget.slots
        return NodeMaker(self.app, numbers, kinds, self.catalog.seed, slots, self._limits)

    def begin_epoch(self) -> None:
        """Begin the epoch of a new writer: messages of older epochs count no longer."""
        early = self.state.early or any(view.early for view in self.views.values())
        self.state = msgspec.structs.replace(self.state, epoch=self.state.epoch + 1, early=early, counted=True)
        with self.store.write() as writer:
            write_state(writer, self.state)
        if self.exchange is not None:
            self.exchange.begin(self.state)

    # -- a batch

    def commit(
        self,
        batches: Mapping[str, TableBatch],
        sources: Mapping[str, Resume] | None = None,
        strict: bool = False,
        rejects: Callable[[Mapping[str, IntakeReport]], Iterable[RejectedRecord]] | None = None,
        dry: Writes | None = None,
    ) -> dict[str, IntakeReport]:
        """Commit these records and offsets in one transaction; with `strict` a rejection rolls it back.

        `rejects` returns the records for quarantine. `dry` collects the writes of a transaction that is rolled back.
        """
        return self._work(lambda: self._commit(batches, sources, strict, rejects, dry))

    def ready(self) -> None:
        """Bring the caches up to date, and do the work that is due between batches."""
        self._work(self._tend_all)

    def build_step(self, limit: int = 1 << 10) -> bool:
        """Run one step of a build, or empty a part of a former generation. Return True if another is left."""
        self._work(lambda: self._build_step(limit))
        return self.has_step

    @property
    def has_step(self) -> bool:
        """Return True if another step is left; the former generation of an unfinished switch is not emptied."""
        waits = self.build is None or self.build.waits
        return not waits or (bool(self.catalog.trash) and self.catalog.unfinished is None)

    @property
    def behind(self) -> int:
        """Return the number of rows that the build must read before others write again."""
        return 0 if self.build is None else self.build.owed

    def _build_step(self, limit: int) -> None:
        if self.build is not None and not self.build.waits:
            self.build.step(limit)
        elif self.has_step and (emptied := empty_trash(self.store, self.catalog)) is not None:
            self.take_catalog(*emptied)

    def between(self, step: Callable[[], _T]) -> _T:
        """Run one requested step of work between batches."""
        return self._work(step)

    def watch(self, view: str, heard: Listener | None) -> None:
        """Send the contributions to a view to this listener from now on; None ends that."""
        self.views[view].watch = heard
        self.watched.pop(view, None)
        if heard is not None:
            self.watched[view] = heard

    def _took(self, state: StateRow, writes: Writes) -> None:
        """Update the caches after a commit."""
        self.state = state
        self._following = True
        writes.committed()
        self._following = False

    def forget(self) -> None:
        """Mark the caches as doubtful: they are read again before their next use."""
        self._sure = False

    def amend(self, change: Callable[[Writer, Writes], _T], then: Callable[[StateRow], StateRow] | None = None) -> _T:
        """Run one transaction without records: `change` collects its writes, and `then` adjusts its state."""
        return self._work(lambda: self._amend(change, then))

    def _amend(self, change: Callable[[Writer, Writes], _T], then: Callable[[StateRow], StateRow] | None) -> _T:
        self._tend_all()
        writes = Writes(feeding=self.feed.on)
        with self.store.write() as writer:
            out = change(writer, writes)
            self.settle(writer, writes)
            state = self._state({}, writes, self.state.sources)
            state = state if then is None else then(state)
            state = self._write(writer, writes, state)
        self._took(state, writes)
        return out

    def settle(self, writer: Writer, writes: Writes) -> None:
        """Run the joins. In a partitioned store fold contributions too; elsewhere those of tables are folded by now."""
        if self.exchange is not None:
            self.exchange.fold(writer, writes)
        else:
            self.joins.run(writer, writes)
            close_windows(self.tables.values(), self.watermarks, writes)

    def _write(self, writer: Writer, writes: Writes, state: StateRow) -> StateRow:
        """Write the changes of a transaction, if there are any. Return the state after it."""
        if state == self.state and not writes.leaving and not writes.derived and not writes.during:
            return state  # trees may change without any row
        writes.write(writer)
        if writes.fed and self.feed.on:
            state = self.feed.put(writer, writes.fed, state)
        state = self.owing(writer, writes, state)
        write_state(writer, state)
        return state

    def owing(self, writer: Writer, writes: Writes, state: StateRow) -> StateRow:
        """Save the productions of a transaction for other partitions. Return the state after it."""
        return state if self.exchange is None else self.exchange.save(writer, writes, state)

    def retake(self, writer: Writer, table: str, batch: TableBatch, writes: Writes) -> IntakeReport:
        """Apply records that were rejected before, within `amend`."""
        self._owed[table] += batch.n
        self.watermarks.begin(None, False, writes)
        return self.tables[table].process(writer, batch, writes)

    def _work(self, work: Callable[[], _T]) -> _T:
        """Run a piece of work; until it ends the caches are doubtful."""
        if self._busy:
            raise PenstockError("a function of a view wrote to the engine that was asking it; let it yield instead")
        if self.damaged is not None:
            raise StoreDamaged(self.damaged.where, self.damaged.key, self.damaged.step)
        self._busy = True
        try:
            if not self._sure:
                self.reload()
            self._sure = False
            with self.naming():
                out = work()
            self._sure = True
            return out
        finally:
            self._busy = False

    def _commit(
        self,
        batches: Mapping[str, TableBatch],
        sources: Mapping[str, Resume] | None,
        strict: bool,
        rejects: Callable[[Mapping[str, IntakeReport]], Iterable[RejectedRecord]] | None,
        dry: Writes | None,
    ) -> dict[str, IntakeReport]:
        self._tend_all()
        out: dict[str, IntakeReport] = {}
        kinds = {name: self.tables[name].ts_kind for name in batches}
        offsets = dict(self.state.sources)
        for source, resume in (sources or {}).items():
            offsets[source] = resume.offset if resume.again else max(resume.offset, offsets.get(source, 0))
        writes = Writes(feeding=self.feed.on) if dry is None else dry
        self.watermarks.begin(*origin_of(sources), writes)
        try:
            with no_collector(sum([batch.n for batch in batches.values()])), self.store.write() as writer:
                for name, batch in batches.items():
                    self.make_room(self.tables[name], batch.n)
                    out[name] = self.tables[name].process(writer, batch, writes)
                    if self.catalog.refill is not None and name in self.catalog.refill.since:
                        record_repeats(self.tables[name], batch, out[name], writes)
                refused = {name: len(out[name].rejected) + batch.refused for name, batch in batches.items()}
                if dry is not None and not dry.planning:
                    self.settle(writer, writes)  # damaged groups may prevent this
                if dry is not None or (strict and any(refused.values())):
                    raise _Undone
                if rejects is not None and any(refused.values()):
                    tails = {name: node.log.mark.tail for name, node in self.tables.items()}
                    keep_rejected(rejects(out), self.state.quarantined, tails, writes)
                self.settle(writer, writes)
                state = self._write(writer, writes, self._state(refused, writes, offsets))
                if sources:
                    write_spout_states(writer, sources)
        except _Undone:
            for name, kind in kinds.items():
                self.tables[name].ts_kind = kind
            return out
        self._took(state, writes)
        for name, batch in batches.items():
            self._owed[name] += batch.n
        return out

    def _state(self, refused: Mapping[str, int], writes: Writes, offsets: dict[str, int]) -> StateRow:
        kinds = {name: node.ts_kind for name, node in self.tables.items() if node.ts_kind is not None}
        return state_after(self.state, writes, refused, offsets, kinds, self.feed.on)

    # -- between batches

    def make_room(self, node: TableNode, n: int) -> None:
        """Make room in the cache for so many keys of a table."""
        node.make_room(n)

    def _tend_all(self) -> None:
        self.joins.fold(self.store)
        for name, n in self._owed.items():
            if n:
                self._owed[name] = 0
                self._tend(self.tables[name], n)
                self.state = self.feed.trim(self.store, self.state)
                if (left := forget_former(self.store, self.catalog, self.state.followed)) is not None:
                    self.take_catalog(*left)

    def _tend(self, node: TableNode, n: int) -> None:
        log = node.log
        steps = log.fold_steps(n)
        if steps:
            with self.store.write() as writer:
                done = log.fold_step(writer, steps)
            done()
        if log.compact_due() and node.build is None:  # it gives records other numbers
            room = 2 * n + _COMPACT_LEAST
            self.make_room(node, room)
            carry = node.carry(numbers_moved_lines(self.catalog, self.state, node.table))
            then = None
            with halting(log), self.naming(), self.store.write() as writer:
                then = log.compact_step(writer, room, carry)
            if then is not None:
                then()
        if steps and not log.folding:
            self.store.trim()  # once per fold: memory that the system took back is slow to get again
        self.weigh(n)

    def weigh(self, n: int) -> None:
        """Count the documents that were processed, and measure the caches from time to time."""
        self._budget.weigh(n, self.tables, chain(self.views.values(), self.joins.sides.values()))

    def close(self) -> None:
        """Release the caches, and close the store."""
        for node in [*self.tables.values(), *self.filling.values()]:
            node.release()
        self.end_refill()
        self.store.close()

    def end_refill(self) -> None:
        """Close the store that a refill reads."""
        run, self.refilling = self.refilling, None
        if run is not None:
            run.close()


BeginBuild = Callable[[Core, BuildState, Mapping[str, TableNode], Mapping[str, ViewNode], JoinNodes], ViewBuild]
"""A function that begins or continues a build in the nodes of a core."""


class _Undone(Exception):
    """A signal that rolls back a strict or dry batch."""
