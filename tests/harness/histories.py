"""Seeded histories over all merges and views, on a store in memory that sometimes fails, and that outlives its engine.

Each step goes to the engine, to the oracle, and to a twin engine without faults and index folds. After each step, the
content is compared with the oracle, and the digest with that of the twin.

Steps are single documents, lists, batches over several tables, and sources that deliver again. Versions are later,
equal and late, and some documents can't be mapped. Commits fail, caches are dropped, and the engine is closed or
killed, and opened again. Between all this, tables are folded and compacted in steps. Their index has so many small
buckets that it doubles on the way.
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
# Either folded data is compacted soon, and half the records have few keys; or it stays in a growing index.
LIMITS = (TINY, Limits(fold_least=4, fold_most=8, fold_buckets=1, space=2.5, entries=16))
FEW = (16, 0, 4)  # the largest batches that are processed value by value


class Failed(Exception):
    """The error of a store whose disk failed."""


class LastingStore(MemoryStore):
    """A store in memory that stays when its engine is closed. One of its next commits may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_in = -1  # commits before the one that fails

    def commit(self, cleared: set[str], staged: dict[str, dict[bytes, bytes | None]]) -> None:
        """Commit, or fail and leave everything as it was."""
        self.fails_in -= 1
        if self.fails_in == -1:
            raise Failed
        super().commit(cleared, staged)

    def close(self) -> None:
        """Do nothing: the next engine finds the store as it is."""


class History:
    """An engine with its oracle and twin, and the steps of a history."""

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
        """Run some steps, and compare after each."""
        kinds = [self.put, self.many, self.delete, self.batch] * 2
        kinds += [self.ingest, self.undone, self.strict, self.failing, self.forget, self.reopen]
        for _ in range(steps):
            self.clock += 1
            self.choose.choice(kinds)()
            check(self.engine, self.model)
            assert self.engine.digest() == self.twin.digest(), "content differs from that of an undisturbed engine"

    # -- records

    def document(self, table: str) -> dict[str, Any]:
        """Return a document of a table, with a ts around the present. It may be an earlier document again."""
        pick = self.choose.choice
        known = self.known[table]
        if known and self.choose.random() < 0.15:
            return pick(known)
        doc: dict[str, Any] = {"id": self.key()}
        known.append(doc)
        if table == "plain":
            doc |= {"g": pick(GROUPS), "v": pick(VALUES), "gs": [pick(GROUPS) for _ in range(self.choose.randrange(4))]}
            if self.choose.random() < 0.1:
                del doc["gs"]  # a function that needs it fails
            return doc
        doc["ts"] = self.ts()
        if table == "users":
            doc["name"] = pick(GROUPS)
        else:
            fields = {"a": pick([1, None]), "b": pick([1, 2]), "g": pick(GROUPS)}
            doc |= {name: value for name, value in fields.items() if self.choose.random() < 0.6}
        return doc

    def key(self) -> int:
        """Draw a key."""
        return self.choose.randrange(self.choose.choice([HOT, KEYS]) if self.hot else KEYS)

    def ts(self) -> int:
        """Draw a later, equal or late ts."""
        return self.clock + self.choose.choice([1, 0, 0, -1, -4, -16])

    def table(self) -> str:
        """Draw a table."""
        return self.choose.choice([table.name for table in WORLD.tables])

    def record(self, offset: int | None) -> Record:
        """Draw a document or a deletion."""
        table, key = self.table(), self.key()
        if self.choose.random() < 0.3:
            return Record(table, key, None, self.deletion(table), offset)
        doc = self.document(table)
        return Record(table, doc["id"], doc, None, offset)

    def deletion(self, table: str) -> int | None:
        """Draw the ts of a deletion, or none."""
        return None if table == "plain" or self.choose.random() < 0.3 else self.ts()

    # -- steps

    def put(self) -> None:
        """Put one document."""
        table = self.table()
        self._both("put", table, self.document(table))

    def many(self) -> None:
        """Put several documents, some of them with the same key."""
        table = self.table()
        self._both("put_many", table, [self.document(table) for _ in range(self.choose.choice([1, 2, 5, 16]))])

    def delete(self) -> None:
        """Delete one key."""
        table = self.table()
        self._both("delete", table, self.key(), ts=self.deletion(table))

    def batch(self) -> None:
        """Run one transaction over several tables."""
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
        """Raise an error in a batch, which cancels it."""
        try:
            with self.engine.batch() as real:
                self._fill([real], 3)
                raise Failed
        except Failed:
            pass

    def ingest(self) -> None:
        """Ingest records of a source, some of them for the second time."""
        start = max(0, len(self.log) - self.choose.randrange(4))
        self.log += [self.record(len(self.log) + i) for i in range(self.choose.randrange(6))]
        records = [ps.Record(r.table, r.key, r.doc, ts=r.ts, offset=r.offset) for r in self.log[start:]]
        got = self.engine.ingest(records, source=SOURCE, resume=len(self.log))
        self.twin.ingest(records, source=SOURCE, resume=len(self.log))
        _same("ingest", got, self.model.ingest(self.log[start:], SOURCE, len(self.log)))

    def strict(self) -> None:
        """Put documents that are stored together, or not at all if one of them is bad."""
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
        """Let one of the next commits fail: of the batch, or of other work.

        The batch is stored if the call succeeds.
        """
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
        """Drop the caches, as when memory runs out."""
        for node in self.engine.store.core.tables.values():
            node.forget()

    def reopen(self) -> None:
        """Close the engine, or lose it with its memory, and open the next one."""
        if self.choose.random() < 0.5:
            self.engine.close()
        self._open()

    def _open(self) -> None:
        with mock.patch.object(opening, "MemoryStore", return_value=self.store):
            self.engine: Any = ps.open(WORLD.app(), None, limits=self.limits)

    def _both(self, call: str, *args: Any, **options: Any) -> None:
        _same(call, getattr(self.engine, call)(*args, **options), self._alone(call, *args, **options))

    def _alone(self, call: str, *args: Any, **options: Any) -> Counts:
        """Repeat a call that the engine accepted, on the oracle and the twin."""
        getattr(self.twin, call)(*args, **options)
        return getattr(self.model, call)(*args, **options)


def _same(call: str, got: Any, wanted: Counts) -> None:
    counted = counts_of(got)
    assert counted == wanted, f"{call}: counted {counted}, should be {wanted}"


@contextmanager
def small_buckets() -> Iterator[None]:
    """Give the index one bucket per key, so that it doubles with few keys."""
    with mock.patch.object(hash_index, "BUCKET", 1):
        yield


def run(seed: int, steps: int) -> None:
    """Run one history. An AssertionError names the actual and the expected content."""
    with small_buckets():
        History(seed).run(steps)
