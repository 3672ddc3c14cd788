"""The embedded engine's heart: one writer, its nodes, and the transaction that is a batch.

A commit goes so: every node reads through the write transaction and leaves what it would write; all of it is written,
with the offsets and the state, and committed and synced once; then memory follows. A crash leaves the batch whole or
not at all. Invariants:

- what fails leaves memory in doubt, wherever it was interrupted: memory is then read again before it is next used;
- work between batches (folding, compacting, dropping memory) is done in bounded steps, each a transaction of its own,
  before the next batch: what fails there is no failure of a batch that is in.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import msgspec
import numpy as np

from penstock.cache import DocLog, Limits, PenstockError, Reader, Store
from penstock.engine.catalog import Catalog, State, read_state, write_state
from penstock.gateway import REJECTED, Outcome, Report, TableBatch, TableNode, Tails
from penstock.mapreduce import FunctionMapper, Spaces, ViewNode, Writes, held_db, rows_db, told_db
from penstock.views import App, FieldMap, Source, Table

_T = TypeVar("_T")
_BASE = 96 << 20  # bytes that Python, NumPy and a batch in flight take
_SLOT = 40  # bytes a key takes at least
_LEAST_SLOTS, _MOST_SLOTS = 1 << 16, 1 << 27
_COMPACT_LEAST = 1 << 10
_COLLECT_BELOW = 256
_WEIGH_EVERY = 1 << 12  # records between two looks at what memory holds


class Core:
    """The nodes of one store, and its writer."""

    def __init__(
        self, app: App, store: Store, catalog: Catalog, memory: int, limits: Limits, readonly: bool = False
    ) -> None:
        self.app = app
        self.store = store
        self.catalog = catalog
        self.tails = Tails()
        self._budget = max(memory - _BASE, 8 << 20)
        self._readonly = readonly  # such a one remembers nothing of documents: its snapshots read the store
        self._slots = 1 if readonly else min(max(self._budget // _SLOT, _LEAST_SLOTS), _MOST_SLOTS)
        self._limits = limits
        self._unweighed = 0
        self._busy = False
        self.views: dict[str, ViewNode] = {}
        self.tables: dict[str, TableNode] = {}
        self._recall()

    # -- opening

    def _recall(self) -> None:
        """Begin with what the store says, and nothing else in memory."""
        forgotten = list(self.tables.values())
        views: dict[str, ViewNode] = {}
        with self.store.read() as reader:
            self.state = read_state(reader)
            tables = {table.name: self._table(reader, table, views) for table in self.app.tables()}
        self.tables, self.views = tables, views
        self._owed: dict[str, int] = dict.fromkeys(tables, 0)  # records whose share of the work between batches is due
        self._sure = True
        for node in forgotten:
            node.release()

    def begin_epoch(self) -> None:
        """A writer opened the store: what an older one might still say no longer counts."""
        self.state = msgspec.structs.replace(self.state, epoch=self.state.epoch + 1)
        with self.store.write() as writer:
            write_state(writer, self.state)

    def _table(self, reader: Reader, table: Table, known: dict[str, ViewNode]) -> TableNode:
        number = self.catalog.entries[table.name].number
        log = DocLog(number, table.has_ts, self._slots, self._limits)
        if not self._readonly:
            log.open(reader)
        spaces = Spaces()
        views = self._views_on(reader, table, spaces, known)
        log.sides = [told_db(v.number) for v in views if isinstance(v.mapper, FunctionMapper)]
        node = TableNode(table, number, views, log, spaces, self.catalog.seed)
        node.ts_kind = self.state.ts.get(table.name)
        return node

    def _views_on(
        self, reader: Reader, source: Source, spaces: Spaces | None, known: dict[str, ViewNode]
    ) -> list[ViewNode]:
        nodes: list[ViewNode] = []
        for view in self.app.views():
            if view.source is not source:
                continue
            number = self.catalog.entries[view.name].number
            empty = reader.count(rows_db(number)) == 0
            node = ViewNode(view, number, spaces if isinstance(view.map, FieldMap) else None, empty)
            node.held = reader.count(held_db(number))
            known[view.name] = node
            node.children = self._views_on(reader, view, None, known)
            nodes.append(node)
        return nodes

    # -- a batch

    def commit(
        self,
        batches: Mapping[str, TableBatch],
        sources: Mapping[str, int] | None = None,
        strict: bool = False,
    ) -> dict[str, Report]:
        """One transaction: these records, and these offsets with them; under `strict` a rejection undoes it."""
        return self._work(lambda: self._commit(batches, sources, strict))

    def ready(self) -> None:
        """Memory is what the store says, and the work that is due between batches is done."""
        self._work(self._tend_all)

    def _work(self, work: Callable[[], _T]) -> _T:
        """Do a piece of work; until it is done memory is in doubt."""
        if self._busy:
            raise PenstockError("a function of a view wrote to the engine that was asking it; let it yield instead")
        self._busy = True
        try:
            if not self._sure:
                self._recall()
            self._sure = False
            out = work()
            self._sure = True
            return out
        finally:
            self._busy = False

    def _commit(
        self, batches: Mapping[str, TableBatch], sources: Mapping[str, int] | None, strict: bool
    ) -> dict[str, Report]:
        self._tend_all()
        out: dict[str, Report] = {}
        kinds = {name: self.tables[name].ts_kind for name in batches}
        offsets = dict(self.state.sources)
        for source, resume in (sources or {}).items():
            offsets[source] = max(resume, offsets.get(source, 0))
        writes = Writes()
        try:
            with _no_collector(sum(batch.n for batch in batches.values())), self.store.write() as writer:
                for name, batch in batches.items():
                    self._make_room(self.tables[name], batch.n)
                    out[name] = self.tables[name].process(writer, batch, writes)
                refused = {name: len(out[name].rejected) + batch.refused for name, batch in batches.items()}
                if strict and any(refused.values()):
                    raise _Undone
                state = self._state(refused, writes, offsets)
                if state != self.state:
                    writes.write(writer)
                    write_state(writer, state)
        except _Undone:
            for name, kind in kinds.items():
                self.tables[name].ts_kind = kind
            return out
        self.state = state
        writes.committed()
        for name, batch in batches.items():
            self._owed[name] += batch.n
        return out

    def _state(self, refused: Mapping[str, int], writes: Writes, offsets: dict[str, int]) -> State:
        old = self.state
        ts = dict(old.ts)
        rejected = dict(old.rejected)
        for name, more in refused.items():
            kind = self.tables[name].ts_kind
            if kind is not None:
                ts[name] = kind
            if more:
                rejected[name] = rejected.get(name, 0) + more
        held = dict(old.held_groups)
        for name, moved in writes.held_groups.items():
            held[name] = held.get(name, 0) + moved
        return State(old.position + writes.changed, old.epoch, offsets, ts, rejected, held)

    # -- between batches

    def _make_room(self, node: TableNode, n: int) -> None:
        if not node.log.keys.room(n):
            node.forget(n)

    def _tend_all(self) -> None:
        for name, n in self._owed.items():
            if n:
                self._owed[name] = 0
                self._tend(self.tables[name], n)

    def _tend(self, node: TableNode, n: int) -> None:
        log = node.log
        steps = log.fold_steps(n)
        if steps:
            with self.store.write() as writer:
                done = log.fold_step(writer, steps)
            done()
        if log.compact_due():
            if not log.keys.room(2 * n + _COMPACT_LEAST):
                node.forget(2 * n + _COMPACT_LEAST)
            with self.store.write() as writer:
                then = log.compact_step(writer, 2 * n + _COMPACT_LEAST, node.telling.carry)
            if then is not None:
                then()
        if steps and not log.folding:
            self.store.trim()  # once a fold: memory that a system took back is slow to come again
        self._unweighed += n
        if self._unweighed >= _WEIGH_EVERY:
            self._unweighed = 0
            self._stay_within()

    def _stay_within(self) -> None:
        """Drop what memory holds, the largest first, until it is within its budget."""
        sizes = {name: node.nbytes() for name, node in self.tables.items()}
        chained = [v for v in self.views.values() if not isinstance(v.view.source, Table)]
        total = sum(sizes.values()) + sum(v.nbytes(spaces=True) for v in chained)
        if total <= self._budget:
            return
        for view in chained:
            view.forget(None)
        if sum(sizes.values()) > self._budget:
            self.tables[max(sizes, key=sizes.__getitem__)].forget()

    def close(self) -> None:
        """Let go of what memory holds, and of the store."""
        for node in self.tables.values():
            node.release()
        self.store.close()


@contextmanager
def _no_collector(records: int) -> Iterator[None]:
    """Python's cycle collector waits for the end of a large batch: what a batch makes has no cycles."""
    pause = records > _COLLECT_BELOW and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


class _Undone(Exception):
    """A strict batch that is to be undone."""


def counts_of(report: Report, places: slice | None = None) -> tuple[int, int, int, int, int]:
    """(applied, equal, late, held, rejected) of a report's records, or of some of them."""
    outcome = report.outcome if places is None else report.outcome[places]
    tally = np.bincount(outcome, minlength=REJECTED + 1)
    held = len(report.held)
    if places is not None:
        held = sum(1 for i in report.held if places.start <= i < places.stop)
    return (
        int(tally[Outcome.APPLIED]),
        int(tally[Outcome.EQUAL]),
        int(tally[Outcome.LATE]),
        held,
        int(tally[REJECTED]),
    )
