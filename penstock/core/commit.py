"""The embedded engine's heart: one writer, its nodes, and the transaction that is a batch.

A commit goes so: every node reads through the write transaction and leaves what it would write; all of it is written,
with the offsets and the state, and committed and synced once; then memory follows. A crash leaves the batch whole or
not at all. Invariants:

- what fails leaves memory in doubt, wherever it was interrupted: memory is then read again before it is next used;
- work between batches (folding, compacting, dropping memory) is done in bounded steps, each a transaction of its own,
  before the next batch: what fails there is no failure of a batch that is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

import msgspec

from penstock.cache import PenstockError, Reader, Store, StoreDamaged, Writer, naming
from penstock.core.catalog import (
    Built,
    Catalog,
    Resume,
    State,
    catalog_of,
    catalog_row,
    read_built,
    read_state,
    state_after,
    write_notes,
    write_state,
)
from penstock.core.damage_names import places_of
from penstock.core.feed_log import Feed
from penstock.core.gc_pause import no_collector
from penstock.core.nodes import Making, drop_largest, filling_nodes, halting, moves_noted
from penstock.core.protocol import Exchange, Listener, RefillRun, ViewBuild
from penstock.core.schema import Schema
from penstock.core.settings import Settings
from penstock.core.trash import empty_trash, forget_former
from penstock.gateway import Reject, Report, TableBatch, TableNode, Tails, keep_rejected, note_repeats
from penstock.mapreduce import ViewNode, Writes
from penstock.views import App, Changed

_T = TypeVar("_T")
_BASE = 96 << 20  # bytes that Python, NumPy and a batch in flight take
_SLOT = 40  # bytes a key takes at least
_LEAST_SLOTS, _MOST_SLOTS = 1 << 16, 1 << 27
_COMPACT_LEAST = 1 << 10
_WEIGH_EVERY = 1 << 12  # records between two looks at what memory holds


class Core:
    """The nodes of one store, and its writer."""

    def __init__(
        self,
        app: App,
        store: Store,
        settings: Settings,
        path: str = "memory",
        readonly: bool = False,
        parting: Exchange | None = None,
        begin_build: BeginBuild | None = None,
    ) -> None:
        self.app = app
        self.parting = parting  # where the store is one partition of several
        self.refilling: RefillRun | None = None  # the refill that this process takes part in
        self._begin_build = begin_build
        self.store = store
        self.tails = Tails()
        self._path = path
        self._schema: Schema | None = None
        self._budget = max(settings.memory - _BASE, 8 << 20)
        self._readonly = readonly  # such a one remembers nothing of documents: its snapshots read the store
        self._slots = 1 if readonly else min(max(self._budget // _SLOT, _LEAST_SLOTS), _MOST_SLOTS)
        self._limits = settings.limits
        self._unweighed = 0
        self._busy = False
        self.feed = Feed(settings.changes)
        self.state = State()
        self.watched: dict[str, Listener] = {}  # by view: who hears what it is told, while it is repaired
        self.changed: tuple[Changed, ...] = ()  # the views that this opening began to build, or went on with
        self.told = 0  # documents and rows that they were told of since
        self.switched: int | None = None  # the position at which readers came to see them
        self.trouble: str | None = None  # why they can't be built further
        self.damaged: StoreDamaged | None = None  # further transactions would build on this damage
        self._following = False  # a batch is committed, and memory and who hears it follow
        self.views: dict[str, ViewNode] = {}
        self.tables: dict[str, TableNode] = {}
        self.filling: dict[str, TableNode] = {}  # by name the tables that a refill has copied
        self.relearn()

    # -- opening

    def relearn(self) -> None:
        """Begin with what the store says, and nothing else in memory."""
        with self.naming():
            self._recall_all()

    def naming(self) -> AbstractContextManager[None]:
        """Damage that is found within is named as users know it."""
        return naming(lambda: places_of(self.catalog))

    def _recall_all(self) -> None:
        forgotten = [*self.tables.values(), *self.filling.values()]
        views, tables = dict[str, ViewNode](), dict[str, TableNode]()
        with self.store.read() as reader:
            row = catalog_row(reader)
            assert row is not None, "a store is opened with its catalog"
            self.catalog = catalog_of(row, self._path)
            state = read_state(reader)
            if not self._readonly:
                making = self.making({name: entry.written for name, entry in self.catalog.entries.items()}, state.ts)
                tables = {table.name: making.table(reader, table, views) for table in self.app.tables()}
            self.sweep: ViewBuild | None = None
            if self.catalog.since is not None and not self._readonly:
                assert self._begin_build is not None, "a store with views under way is opened to build them"
                self.sweep = self._begin_build(self, read_built(reader), tables, views)
            if self.parting is not None:
                self.parting.recall(reader, state)
            self._catalog_row, self._schema = row, None
            self.tables, self.views = tables, views
            self.fill(reader)
        self.feed.forget()
        self._owed: dict[str, int] = dict.fromkeys(tables, 0)  # records whose share of the work between batches is due
        self._sure = True
        for name, heard in self.watched.items():
            heard.lost = heard.lost or self._following or state.position != self.state.position
            views[name].watch = heard
        self.state, self._following = state, False
        for node in forgotten:
            node.release()

    def fill(self, reader: Reader) -> None:
        """Have the nodes of what a refill has copied."""
        self.filling, views = ({}, []) if self._readonly else filling_nodes(self.catalog, self.making, self.app, reader)
        if self.parting is not None:
            self.parting.arrange([*self.views.values(), *views])

    def take_catalog(self, catalog: Catalog, row: bytes) -> None:
        """The store has this catalog now, written as this row."""
        self.catalog, self._catalog_row = catalog, row

    def schema(self, reader: Reader) -> Schema:
        """What can be asked for in this snapshot of the store."""
        row, known = catalog_row(reader), self._schema
        assert row is not None, "a store is opened with its catalog"
        if known is None or known.row != row:
            live = self.views if row == self._catalog_row else None
            known = self._schema = Schema(row, catalog_of(row, self._path), live, self.app)
        return known

    def making(self, numbers: Mapping[str, int], kinds: Mapping[str, str]) -> Making:
        """Makes nodes of tables and views that have these numbers."""
        return Making(self.app, numbers, kinds, self.catalog.seed, self._slots, self._limits)

    def begin_epoch(self) -> None:
        """A writer opened the store: what an older one might still say no longer counts."""
        early = self.state.early or any(view.early for view in self.views.values())
        self.state = msgspec.structs.replace(self.state, epoch=self.state.epoch + 1, early=early, counted=True)
        with self.store.write() as writer:
            write_state(writer, self.state)
        if self.parting is not None:
            self.parting.begin(self.state)

    # -- a batch

    def commit(
        self,
        batches: Mapping[str, TableBatch],
        sources: Mapping[str, Resume] | None = None,
        strict: bool = False,
        rejects: Callable[[Mapping[str, Report]], Iterable[Reject]] | None = None,
        dry: Writes | None = None,
    ) -> dict[str, Report]:
        """One transaction: these records, and these offsets with them; under `strict` a rejection undoes it.

        `rejects` says of those that were rejected what quarantine keeps. With `dry`, where it leaves all, it is undone.
        """
        return self._work(lambda: self._commit(batches, sources, strict, rejects, dry))

    def ready(self) -> None:
        """Memory is what the store says, and the work that is due between batches is done."""
        self._work(self._tend_all)

    def sweep_step(self, limit: int = 1 << 10) -> bool:
        """One step of building the views that changed, or of emptying what they replace; whether there is another."""
        self._work(lambda: self._sweep_step(limit))
        return self.has_step

    @property
    def has_step(self) -> bool:
        """Return True if another step is left; the former generation of an unfinished switch is not emptied."""
        waits = self.sweep is None or self.sweep.waits
        return not waits or (bool(self.catalog.trash) and self.catalog.unfinished is None)

    @property
    def behind(self) -> int:
        """How many rows came since the last step, which are to be told before others write again."""
        return 0 if self.sweep is None else self.sweep.owed

    def _sweep_step(self, limit: int) -> None:
        if self.sweep is not None and not self.sweep.waits:
            self.sweep.step(limit)
        elif self.has_step and (emptied := empty_trash(self.store, self.catalog)) is not None:
            self.take_catalog(*emptied)

    def between(self, step: Callable[[], _T]) -> _T:
        """One step of work between batches, of a kind that is not done by itself."""
        return self._work(step)

    def watch(self, view: str, heard: Listener | None) -> None:
        """From now on what a view is told is heard; with None no longer."""
        self.views[view].watch = heard
        self.watched.pop(view, None)
        if heard is not None:
            self.watched[view] = heard

    def _took(self, state: State, writes: Writes) -> None:
        """That is committed: memory follows."""
        self.state = state
        self._following = True
        writes.committed()
        self._following = False

    def forget(self) -> None:
        """Memory is read again before it is next used."""
        self._sure = False

    def amend(self, change: Callable[[Writer, Writes], _T], then: Callable[[State], State] | None = None) -> _T:
        """One transaction without records: `change` leaves what it writes, `then` says what its state says besides."""
        return self._work(lambda: self._amend(change, then))

    def _amend(self, change: Callable[[Writer, Writes], _T], then: Callable[[State], State] | None) -> _T:
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
        """All that a transaction tells views is told: of a parted store they fold it now."""
        if self.parting is not None:
            self.parting.fold(writer, writes)

    def _write(self, writer: Writer, writes: Writes, state: State) -> State:
        """Write what a transaction leaves, where it changes anything; the state that it ends in."""
        if state == self.state and not writes.leaving and not writes.derived and not writes.during:
            return state  # trees may change where no row does
        writes.write(writer)
        if writes.fed and self.feed.on:
            state = self.feed.put(writer, writes.fed, state)
        state = self.owing(writer, writes, state)
        write_state(writer, state)
        return state

    def owing(self, writer: Writer, writes: Writes, state: State) -> State:
        """Save what a transaction owes other partitions; what the state then says."""
        return state if self.parting is None else self.parting.save(writer, writes, state)

    def retake(self, writer: Writer, table: str, batch: TableBatch, writes: Writes) -> Report:
        """Take records that were rejected once, within `amend`."""
        self._owed[table] += batch.n
        return self.tables[table].process(writer, batch, writes)

    def _work(self, work: Callable[[], _T]) -> _T:
        """Do a piece of work; until it is done memory is in doubt."""
        if self._busy:
            raise PenstockError("a function of a view wrote to the engine that was asking it; let it yield instead")
        if self.damaged is not None:
            raise StoreDamaged(self.damaged.where, self.damaged.key, self.damaged.step)
        self._busy = True
        try:
            if not self._sure:
                self.relearn()
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
        rejects: Callable[[Mapping[str, Report]], Iterable[Reject]] | None,
        dry: Writes | None,
    ) -> dict[str, Report]:
        self._tend_all()
        out: dict[str, Report] = {}
        kinds = {name: self.tables[name].ts_kind for name in batches}
        offsets = dict(self.state.sources)
        for source, resume in (sources or {}).items():
            offsets[source] = resume.offset if resume.again else max(resume.offset, offsets.get(source, 0))
        writes = Writes(feeding=self.feed.on) if dry is None else dry
        try:
            with no_collector(sum([batch.n for batch in batches.values()])), self.store.write() as writer:
                for name, batch in batches.items():
                    self.make_room(self.tables[name], batch.n)
                    out[name] = self.tables[name].process(writer, batch, writes)
                    if self.catalog.refill is not None and name in self.catalog.refill.since:
                        note_repeats(self.tables[name], batch, out[name], writes)
                refused = {name: len(out[name].rejected) + batch.refused for name, batch in batches.items()}
                if dry is not None and not dry.planning:
                    self.settle(writer, writes)  # which damaged groups may prevent
                if dry is not None or (strict and any(refused.values())):
                    raise _Undone
                if rejects is not None and any(refused.values()):
                    tails = {name: node.log.mark.tail for name, node in self.tables.items()}
                    keep_rejected(rejects(out), self.state.quarantined, tails, writes)
                self.settle(writer, writes)
                state = self._write(writer, writes, self._state(refused, writes, offsets))
                if sources:
                    write_notes(writer, sources)
        except _Undone:
            for name, kind in kinds.items():
                self.tables[name].ts_kind = kind
            return out
        self._took(state, writes)
        for name, batch in batches.items():
            self._owed[name] += batch.n
        return out

    def _state(self, refused: Mapping[str, int], writes: Writes, offsets: dict[str, int]) -> State:
        kinds = {name: node.ts_kind for name, node in self.tables.items() if node.ts_kind is not None}
        return state_after(self.state, writes, refused, offsets, kinds, self.feed.on)

    # -- between batches

    def make_room(self, node: TableNode, n: int) -> None:
        """There is room in memory for so many keys of a table."""
        if not node.log.keys.room(n):
            node.forget(n)

    def _tend_all(self) -> None:
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
        if log.compact_due() and node.sweep is None:  # it gives records other numbers
            room = 2 * n + _COMPACT_LEAST
            self.make_room(node, room)
            carry = node.carry(moves_noted(self.catalog, self.state, node.table))
            then = None
            with halting(log), self.naming(), self.store.write() as writer:
                then = log.compact_step(writer, room, carry)
            if then is not None:
                then()
        if steps and not log.folding:
            self.store.trim()  # once a fold: memory that a system took back is slow to come again
        self.weigh(n)

    def weigh(self, n: int) -> None:
        """So many documents were looked at: see now and then what memory holds."""
        self._unweighed += n
        if self._unweighed >= _WEIGH_EVERY:
            self._unweighed = 0
            drop_largest(self.tables, self.views.values(), self._budget)

    def close(self) -> None:
        """Let go of what memory holds, and of the store."""
        for node in [*self.tables.values(), *self.filling.values()]:
            node.release()
        self.end_refill()
        self.store.close()

    def end_refill(self) -> None:
        """Close the store that a refill reads."""
        run, self.refilling = self.refilling, None
        if run is not None:
            run.close()


BeginBuild = Callable[[Core, Built, Mapping[str, TableNode], Mapping[str, ViewNode]], ViewBuild]
"""Begins to build views, or goes on with it, in the nodes of a core."""


class _Undone(Exception):
    """A strict batch that is to be undone."""
