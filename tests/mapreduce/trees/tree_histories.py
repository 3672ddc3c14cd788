"""Histories of reduce trees: an engine with tiny nodes, beside the oracle, the check of trees, and fresh engines.

After each step, rows equal the oracle's, and every node equals its recomputation. If nothing is held, two more
conditions hold. Rows and nodes have the same bytes as in a store that loads the documents at once. The digest equals
that of a twin that takes each record alone. Between steps the engine is closed or killed, commits fail, and caches are
dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from random import Random
from typing import Any
from unittest import mock

import penstock as ps
from penstock.engine import opening
from penstock.mapreduce import TreeReduce, check_trees, small_trees
from tests.harness.checks import check, check_recompute, counts_of, differences
from tests.harness.histories import Failed, LastingStore
from tests.harness.worlds import TINY
from tests.mapreduce.trees.tree_worlds import PATCHED, PLAIN, TREES, UNLUCKY, USERS, tied_hashes
from tests.oracle.model import Record
from tests.oracle.values import rank
from tests.oracle.views import recompute

LONG = "x" * 450
KEYS: list[Any] = [*range(1, 13), "a", "b", "c", "é", LONG, [1, "x"], [1, "y"], 1 << 63, -(1 << 70), 2.5, True]
GROUPS: list[Any] = ["A", "A", "A", "A", "B", "B", None, 7, (1, "a"), LONG]
NUMBERS: list[Any] = [0, 1, 1, 2, 2, 3, -7, 100, 1 << 62, None]
STRANGE: list[Any] = [
    0.0,
    -0.0,
    1.0,
    2.5,
    math.nan,
    math.inf,
    Decimal("1"),
    Decimal("2.50"),
    1 << 64,
    -(1 << 63),
    1e300,
]
CLOSE: list[Any] = [0.1 + 0.2, 0.3, (1 << 60) + 1, 1 << 60, float(1 << 60), Decimal(1 << 60) + 1, Decimal(1 << 60)]
Moods = tuple[list[Any], list[Any]]  # the values from which `v` and `w` are drawn
MOODS = [[NUMBERS, NUMBERS + STRANGE, NUMBERS + CLOSE], [NUMBERS, [None]], [CLOSE], [NUMBERS, STRANGE, CLOSE, [None]]]
WRONG: list[Any] = ["text", True, [1], {"a": 1}, *[UNLUCKY] * 4]
TABLES = {table.name: table for table in (USERS, PLAIN, PATCHED)}


def document(table: str, choose: Random, ts: int, wrong: bool, moods: Moods = (NUMBERS, NUMBERS)) -> dict[str, Any]:
    """Return a document. Most documents are in one group, and their values often tie."""
    doc: dict[str, Any] = {"id": choose.choice(KEYS), "g": choose.choice(GROUPS), "h": choose.choice([1, 1, 2, None])}
    for name, values in zip("vw", moods, strict=True):
        if name == "v" and wrong and choose.random() < 0.1:
            values = WRONG
        if choose.random() < 0.9:
            doc[name] = choose.choice(values)
    if table == "plain":
        doc["gs"] = [choose.choice(GROUPS) for _ in range(choose.randrange(4))]
        if wrong and choose.random() < 0.05:
            del doc["gs"]
        return doc
    if table == "patched":
        doc = {name: value for name, value in doc.items() if name == "id" or choose.random() < 0.7}
    return doc | {"ts": ts}


def nodes_of(engine: Any) -> dict[str, Any]:
    """Return all rows and nodes of the views that keep or index contributions."""
    found: dict[str, Any] = {}
    with engine.snapshot() as snap:
        reader = snap.reader()
        for name, view in engine.store.core.views.items():
            found[name] = dict(reader.scan(view.reduce.db))
            if isinstance(view.reduce, TreeReduce):
                found[f"{name}, nodes"] = dict(view.reduce.nodes(reader))
    return found


def faults_of(engine: Any) -> list[str]:
    """Return all faults of trees."""
    with engine.snapshot() as snap:
        trees = [view.reduce for view in engine.store.core.views.values() if isinstance(view.reduce, TreeReduce)]
        return [str(fault) for tree in trees for fault in check_trees(tree, snap.reader())]


class Trees:
    """An engine with trees, and everything that it is compared with."""

    def __init__(
        self, wrong: bool = False, path: str | None = None, ties: bool = False, capacity: int = 2, **behind: int
    ) -> None:
        self._open_until = ExitStack()
        self._open_until.enter_context(small_trees(capacity, **behind))
        if ties:
            self._open_until.enter_context(tied_hashes())
        self.wrong = wrong
        self.path = path
        self.store = LastingStore()
        self.model = TREES.model()
        self.twin: Any = ps.open(TREES.app(), None)
        self.opened()

    def close(self) -> None:
        """Close both engines, and end the use of small trees."""
        self.engine.close()
        self.twin.close()
        self._open_until.close()

    def opened(self) -> None:
        """Open the store, perhaps after its engine was lost."""
        if self.path is None:
            with mock.patch.object(opening, "MemoryStore", return_value=self.store):
                self.engine: Any = ps.open(TREES.app(), None, limits=TINY)
        else:
            self.engine = ps.open(TREES.app(), self.path, limits=TINY)

    # -- steps

    def take(self, records: Sequence[Record]) -> None:
        """Take these records in one transaction. The twin takes each alone."""
        with self.engine.batch() as real, self.model.batch() as model:
            for record in records:
                for target in (real, model, self.twin):
                    _give(target, record)
        got = counts_of(real.counts)
        assert got == model.counts, f"counted {got}, should be {model.counts}"

    def undone(self, records: Sequence[Record]) -> None:
        """Fail a transaction in its commit, or cancel it. Nothing of it may stay."""
        self.store.fails_in = 0
        try:
            with self.engine.batch() as real:
                for record in records:
                    _give(real, record)
                if self.path is not None:
                    raise Failed
        except Failed:
            pass
        else:  # there was nothing to commit
            for record in records:
                _give(self.model, record)
                _give(self.twin, record)
        self.store.fails_in = -1

    def reopen(self) -> None:
        """Close the store and open it."""
        self.engine.close()
        self.opened()

    def lose(self) -> None:
        """Lose the engine with its memory, and open the store in another one."""
        if self.path is None:
            self.opened()
        else:
            self.reopen()

    def forget(self) -> None:
        """Drop the caches, as when memory runs out."""
        for node in self.engine.store.core.tables.values():
            node.forget()
        for view in self.engine.store.core.views.values():
            if view.chained:
                view.forget(None)

    # -- checks

    def check(self) -> None:
        """Check everything that must hold after a step."""
        check(self.engine, self.model)
        found = faults_of(self.engine)
        assert not found, "\n".join(found[:5])
        if not self.wrong:
            assert self.engine.digest() == self.twin.digest(), "content differs from that of a twin"

    def check_anew(self, choose: Random) -> None:
        """Compare rows and nodes with a store that loads the documents at once or in parts."""
        if self.wrong:  # held groups show their last good result, which no other store can recompute
            return
        check_recompute(self.engine, self.model)
        wanted = nodes_of(self.engine)
        with ps.open(TREES.app(), None) as anew:
            for name, docs in self.documents().items():
                choose.shuffle(docs)
                size = choose.choice([1, 3, len(docs) or 1])
                for at in range(0, len(docs), size):
                    anew.put_many(name, docs[at : at + size])
            got = nodes_of(anew)
        for name, rows in wanted.items():
            differing = [key for key in rows.keys() | got[name].keys() if rows.get(key) != got[name].get(key)]
            assert not differing, f"{name} differs from the same loaded at once, at {differing[0]!r}"

    def documents(self) -> dict[str, list[dict[str, Any]]]:
        """Return the stored documents, each with the ts of its version."""
        found: dict[str, list[dict[str, Any]]] = {}
        for name, documents in self.model.tables.items():
            stamps = documents.stamps()
            living = documents.living()
            found[name] = [doc | ({"ts": int(stamps[at])} if stamps else {}) for at, (_, doc) in living.items()]
        return found


def _give(target: Any, record: Record) -> None:
    if record.doc is None:
        target.delete(record.table, record.key, record.ts)
    else:
        target.put(record.table, record.doc)


class TreeHistory:
    """A seeded history. `choose` draws all of it."""

    def __init__(self, choose: Random, wrong: bool, **how: Any) -> None:
        self.choose = choose
        self.trees = Trees(wrong, **how)
        self.clock = 0
        self.moods = choose.choice(MOODS)
        self.known: list[Record] = []

    def records(self, size: int) -> Iterator[Record]:
        """Yield documents and deletions. Some repeat earlier documents, with another ts or the same."""
        moods = self.choose.choice(self.moods), self.choose.choice(self.moods)
        for _ in range(size):
            self.clock += 1
            choose, table = self.choose, self.choose.choice(list(TABLES))
            ts = self.clock + (choose.choice([0, 0, 0, -2, -9]) if self.trees.wrong or table != "patched" else 0)
            if choose.random() < 0.35:
                key = choose.choice(self.known).key if self.known else 1
                yield Record(table, key, None, ts if TABLES[table].ts and choose.random() < 0.7 else None)
                continue
            doc = document(table, choose, ts, self.trees.wrong, moods)
            if self.known and choose.random() < 0.15:
                again = choose.choice(self.known)
                if again.table == table and again.doc is not None:
                    doc = again.doc | ({"ts": ts} if TABLES[table].ts else {"o": ts})
            self.known.append(Record(table, doc["id"], doc))
            yield self.known[-1]

    def deletions(self, choose: Random, share: float) -> Iterator[Record]:
        """Yield deletions of a share of one table's documents."""
        table = choose.choice(list(TABLES))
        for key, _ in self.trees.model.living(table).values():
            if choose.random() < share:
                self.clock += 1
                yield Record(table, key, None, self.clock if TABLES[table].ts else None)

    def run(self, steps: int) -> None:
        """Run some steps, and check after each."""
        trees, choose = self.trees, self.choose
        try:
            for _ in range(steps):
                kind = choose.random()
                if kind < 0.1:
                    trees.take(list(self.deletions(choose, choose.choice([0.3, 0.8, 1.0]))))
                elif kind < 0.75:
                    trees.take(list(self.records(choose.choice([1, 1, 2, 3, 8, 20, 40]))))
                elif kind < 0.8:
                    trees.undone(list(self.records(3)))
                else:
                    choose.choice([trees.reopen, trees.lose, trees.forget])()
                trees.check()
                if choose.random() < 0.15:
                    trees.check_anew(choose)
            trees.check_anew(choose)
        finally:
            trees.close()


def run(seed: int, steps: int, **how: Any) -> None:
    """Run one history. An AssertionError names the actual and the expected content."""
    TreeHistory(Random(seed), wrong=seed % 2 == 1, **how).run(steps)


def run_large(seed: int, steps: int, keys: int) -> None:
    """Run a history with thousands of documents and nodes of full size.

    Each step ends with a check of trees. The last state is compared with a store that loads the documents at once.
    Half of the keys are ints, half are texts.
    """
    choose, docs = Random(seed), dict[Any, dict[str, Any]]()
    store = LastingStore()
    for _ in range(steps):
        with mock.patch.object(opening, "MemoryStore", return_value=store):
            engine: Any = ps.open(TREES.app(), None)
        size = choose.choice([1, 40, 700, 2 * keys])
        with engine.batch() as batch:
            for _ in range(size):
                key: Any = choose.randrange(keys)
                key = key if key % 2 else f"k{key}"
                if choose.random() < 0.3:
                    docs.pop(key, None)
                    batch.delete("plain", key)
                    continue
                doc = document("plain", choose, 0, wrong=False) | {"id": key, "v": choose.randrange(keys)}
                docs[key] = doc
                batch.put("plain", doc)
        found = faults_of(engine)
        assert not found, "\n".join(found[:5])
    with ps.open(TREES.app(), None) as anew:
        anew.put_many("plain", choose.sample(list(docs.values()), len(docs)))
        assert nodes_of(engine) == nodes_of(anew), "rows or nodes differ from those of the same loaded at once"
    with engine.snapshot() as snap:
        for name in ("words", "told", "lowest", "each"):
            stored = {rank(key): (key, doc) for key, doc in snap.table("plain").items()}
            rows, _ = recompute(TREES.model().views[name], stored)
            wanted = [(shown.group, shown.result) for shown in rows.values()]
            wrong = differences(name, snap.view(name).items(), wanted)
            assert not wrong, "\n".join(wrong)
