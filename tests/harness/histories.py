"""Seeded histories over all merges and views, on a store in memory that fails at times and outlives its engine.

One step after the other goes to the engine and to the oracle, and to an engine that nothing disturbs and that never
folds. After each all that is shown is compared with the one, and the digest with that of the other. Steps are single
documents, lists, batches over several tables, sources that deliver again; versions that are new, equal and late; what
can't be mapped; a commit that fails; memory forgotten; the engine closed or lost, and opened again. Tables are folded
and compacted in steps between all of it, into so many small buckets that the index doubles under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

import penstock as ps
from penstock.cache import Limits, MemoryStore
from penstock.cache.log import hash_index
from penstock.engine import opening
from tests.harness.beside import WORLD
from tests.harness.checks import check, counts_of
from tests.harness.worlds import TINY
from tests.oracle.model import Counts, Record

KEYS = 60
HOT = 4
GROUPS = ["Sue", "Joe", "Bob", "Ann", "Bobby", "Robert", "Joanna", "Susannah", "x" * 450]
VALUES: list[Any] = [1, -7, 0.1, 0.2, 0.3, 1e16, -1e16, 1 << 62, (1 << 63) - 1, None, "no number", "none either"]
SOURCE = "file:a"
# What is folded is compacted soon, and every other record is of a few keys; or it rests in an index that grows.
LIMITS = (TINY, Limits(fold_least=4, fold_most=8, fold_buckets=1, space=2.5, entries=16))
FEW = (16, 0, 4)  # batches up to which are taken as plain values


class Failed(Exception):
    """What a store says whose disk failed."""


class LastingStore(MemoryStore):
    """A store in memory that stays when its engine is closed; one of its next commits may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_in = -1  # commits until the one that fails

    def commit(self, cleared: set[str], staged: dict[str, dict[bytes, bytes | None]]) -> None:
        """Commit, or fail and leave everything as it was."""
        self.fails_in -= 1
        if self.fails_in == -1:
            raise Failed
        super().commit(cleared, staged)

    def close(self) -> None:
        """Nothing: the next engine finds it as it is."""


class History:
    """An engine with its oracle, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.choose = Random(seed)
        self.hot = LIMITS[seed % len(LIMITS)] is TINY
        self.limits = replace(LIMITS[seed % len(LIMITS)], few=FEW[seed % len(FEW)])
        self.store = LastingStore()
        self.clock = 0
        self.log: list[Record] = []
        self.known: dict[str, list[dict[str, Any]]] = {table.name: [] for table in WORLD.tables}
        self.model = WORLD.model()
        self.twin: Any = ps.open(WORLD.app(), None)
        self._open()

    def run(self, steps: int) -> None:
        """So many steps, each compared."""
        kinds = [self.put, self.many, self.delete, self.batch] * 2
        kinds += [self.ingest, self.undone, self.strict, self.failing, self.forget, self.reopen]
        for _ in range(steps):
            self.clock += 1
            self.choose.choice(kinds)()
            check(self.engine, self.model)
            assert self.engine.digest() == self.twin.digest(), "content differs from that of an undisturbed engine"

    # -- what is put

    def document(self, table: str) -> dict[str, Any]:
        """A document of a table, with a ts around the present; now and then one that was there before."""
        pick = self.choose.choice
        known = self.known[table]
        if known and self.choose.random() < 0.15:
            return pick(known)
        doc: dict[str, Any] = {"id": self.key()}
        known.append(doc)
        if table == "plain":
            doc |= {"g": pick(GROUPS), "v": pick(VALUES), "gs": [pick(GROUPS) for _ in range(self.choose.randrange(4))]}
            if self.choose.random() < 0.1:
                del doc["gs"]  # a function that asks for it fails
            return doc
        doc["ts"] = self.ts()
        if table == "users":
            doc["name"] = pick(GROUPS)
        else:
            fields = {"a": pick([1, None]), "b": pick([1, 2]), "g": pick(GROUPS)}
            doc |= {name: value for name, value in fields.items() if self.choose.random() < 0.6}
        return doc

    def key(self) -> int:
        """One of the keys."""
        return self.choose.randrange(self.choose.choice([HOT, KEYS]) if self.hot else KEYS)

    def ts(self) -> int:
        """New, equal or late."""
        return self.clock + self.choose.choice([1, 0, 0, -1, -4, -16])

    def table(self) -> str:
        """One of the tables."""
        return self.choose.choice([table.name for table in WORLD.tables])

    def record(self, offset: int | None) -> Record:
        """A document or a deletion."""
        table, key = self.table(), self.key()
        if self.choose.random() < 0.3:
            return Record(table, key, None, self.deletion(table), offset)
        doc = self.document(table)
        return Record(table, doc["id"], doc, None, offset)

    def deletion(self, table: str) -> int | None:
        """The ts of a deletion, or none."""
        return None if table == "plain" or self.choose.random() < 0.3 else self.ts()

    # -- what happens

    def put(self) -> None:
        """One document."""
        table = self.table()
        self._both("put", table, self.document(table))

    def many(self) -> None:
        """Several, of one key more than once at times."""
        table = self.table()
        self._both("put_many", table, [self.document(table) for _ in range(self.choose.choice([1, 2, 5, 16]))])

    def delete(self) -> None:
        """One deletion."""
        table = self.table()
        self._both("delete", table, self.key(), ts=self.deletion(table))

    def batch(self) -> None:
        """One transaction over tables."""
        with self.engine.batch() as real, self.model.batch() as model, self.twin.batch() as twin:
            self._fill([real, model, twin], self.choose.randrange(8))
        _same("batch", real.counts, model.counts)

    def _fill(self, targets: Any, size: int) -> None:
        for _ in range(size):
            record = self.record(None)
            for target in targets:
                if record.doc is None:
                    target.delete(record.table, record.key, record.ts)
                else:
                    target.put(record.table, record.doc)

    def undone(self) -> None:
        """A batch that its user gives up."""
        try:
            with self.engine.batch() as real:
                self._fill([real], 3)
                raise Failed
        except Failed:
            pass

    def ingest(self) -> None:
        """What a source delivers, some of it for the second time."""
        start = max(0, len(self.log) - self.choose.randrange(4))
        self.log += [self.record(len(self.log) + i) for i in range(self.choose.randrange(6))]
        told = [ps.Record(r.table, r.key, r.doc, ts=r.ts, offset=r.offset) for r in self.log[start:]]
        got = self.engine.ingest(told, source=SOURCE, resume=len(self.log))
        self.twin.ingest(told, source=SOURCE, resume=len(self.log))
        _same("ingest", got, self.model.ingest(self.log[start:], SOURCE, len(self.log)))

    def strict(self) -> None:
        """Documents that go in together or, where one of them is bad, not at all."""
        table = self.table()
        docs = [self.document(table) for _ in range(self.choose.randrange(1, 6))]
        if self.choose.random() < 0.5:
            docs.append({"id": None})
        try:
            self.engine.put_many(table, docs, strict=True)
        except ps.BatchRejected:
            return
        self._alone("put_many", table, docs)

    def failing(self) -> None:
        """The store fails in a commit of the batch or of the work before it: the batch is in if the call succeeds."""
        table = self.table()
        docs = [self.document(table) for _ in range(self.choose.choice([1, 2, 5, 16]))]
        self.store.fails_in = self.choose.randrange(3)
        try:
            self.engine.put_many(table, docs)
        except Failed:
            pass
        else:
            self._alone("put_many", table, docs)
        self.store.fails_in = -1
        if self.choose.random() < 0.3:
            self._open()

    def forget(self) -> None:
        """As where memory ran out."""
        for node in self.engine._core.tables.values():
            node.forget()

    def reopen(self) -> None:
        """The engine is closed, or lost with its memory."""
        if self.choose.random() < 0.5:
            self.engine.close()
        self._open()

    def _open(self) -> None:
        with mock.patch.object(opening, "MemoryStore", return_value=self.store):
            self.engine: Any = ps.open(WORLD.app(), None, limits=self.limits)

    def _both(self, call: str, *args: Any, **options: Any) -> None:
        _same(call, getattr(self.engine, call)(*args, **options), self._alone(call, *args, **options))

    def _alone(self, call: str, *args: Any, **options: Any) -> Counts:
        """A call that the engine took, in the oracle and the undisturbed engine."""
        getattr(self.twin, call)(*args, **options)
        return getattr(self.model, call)(*args, **options)


def _same(call: str, got: Any, wanted: Counts) -> None:
    counted = counts_of(got)
    assert counted == wanted, f"{call}: counted {counted}, should be {wanted}"


@contextmanager
def small_buckets() -> Iterator[None]:
    """An index of a bucket for each key, so that it doubles with few of them."""
    with mock.patch.object(hash_index, "BUCKET", 1):
        yield


def run(seed: int, steps: int) -> None:
    """One history; an AssertionError says what was shown and what should be."""
    with small_buckets():
        History(seed).run(steps)
