"""Random histories on every store: after each step the engine shows the same rows as the oracle.

One state machine runs in memory, and on LMDB under both durabilities. It puts, deletes, redelivers, undoes, reopens and
reads. A snapshot must keep showing its own position.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import penstock as ps
from penstock.cache import Limits
from tests.harness import strategies as some
from tests.harness.checks import Picture, check, check_recompute, counts_of, differences, rows_of
from tests.harness.worlds import HEARD, RICH, TINY, TOLD
from tests.oracle.model import Counts, Record
from tests.oracle.tables import Table
from tests.oracle.views import select

TABLES = st.sampled_from(TOLD)
VIEWS = st.sampled_from([view.name for view in RICH.views])


class Undone(Exception):
    """An exception that a user's code raises inside a batch."""


class EngineMachine(RuleBasedStateMachine):
    """The engine beside its model."""

    store = "memory"
    durability = "sync"
    limits = Limits()

    @initialize(ts=st.sampled_from([some.NUMBERS, some.INSTANTS]), few=st.sampled_from([16, 0]))
    def open(self, ts: list[Any], few: int) -> None:
        self.ts = ts
        self.limits = replace(self.limits, few=few)
        self.path = None if self.store == "memory" else tempfile.mkdtemp(prefix="penstock-")
        self.model = RICH.model()
        self.log: dict[str, list[Record]] = {"a": [], "b": []}
        self.snapshots: list[tuple[Any, Picture]] = []
        self._open()

    def _open(self) -> None:
        where = None if self.path is None else f"{self.path}/state"
        self.engine = ps.open(RICH.app(), where, durability=self.durability, limits=self.limits)

    def _expect(self, answer: Any, wanted: Counts, position: Any) -> None:
        assert counts_of(answer) == wanted
        assert (self.position() != position) is self.model.changed, (
            "the position moves where content changes, only there"
        )

    def position(self) -> Any:
        with self.engine.snapshot() as snap:
            return json.loads(json.dumps(snap.position))

    @rule(data=st.data(), table=TABLES)
    def put(self, data: st.DataObject, table: Table) -> None:
        doc = data.draw(some.documents(table, self.ts))
        before = self.position()
        self._expect(self.engine.put(table.name, doc), self.model.put(table.name, doc), before)

    @rule(data=st.data())
    def put_with_its_ts_beside(self, data: st.DataObject) -> None:
        doc = data.draw(some.documents(HEARD, self.ts))
        ts = data.draw(some.mostly(self.ts, some.BAD_TS))
        before = self.position()
        self._expect(self.engine.put(HEARD.name, doc, ts=ts), self.model.put(HEARD.name, doc, ts), before)

    @rule(data=st.data(), table=TABLES, strict=st.booleans())
    def put_dicts(self, data: st.DataObject, table: Table, strict: bool) -> None:
        docs = data.draw(st.lists(some.documents(table, self.ts), max_size=8))
        self._put_many(table, docs, docs, strict)

    @rule(data=st.data(), table=TABLES, strict=st.booleans(), form=st.sampled_from(["bytes", "str", "block", "text"]))
    def put_lines(self, data: st.DataObject, table: Table, strict: bool, form: str) -> None:
        lines = data.draw(st.lists(some.lines(table, self.ts), max_size=8))
        if form in ("block", "text"):
            lines = [line for line in lines if line]
        text = "".join(f"{line}\n" for line in lines)
        given = {"bytes": [line.encode() for line in lines], "str": lines, "block": text.encode(), "text": text}[form]
        self._put_many(table, given, lines, strict)

    def _put_many(self, table: Table, given: Any, docs: list[Any], strict: bool) -> None:
        before = self.position()
        trial = RICH.model()
        trial.tables = {name: documents.copy() for name, documents in self.model.tables.items()}
        if strict and trial.put_many(table.name, docs).rejected:
            with pytest.raises(ps.BatchRejected) as refused:
                counts_of(self.engine.put_many(table.name, given, strict=True))
            assert refused.value.accepted == 0
            assert self.position() == before
            return
        answer = self.engine.put_many(table.name, given, strict=strict)
        self._expect(answer, self.model.put_many(table.name, docs), before)

    @rule(data=st.data(), table=TABLES)
    def delete(self, data: st.DataObject, table: Table) -> None:
        key = data.draw(some.keys(table))
        ts = data.draw(st.none() | some.mostly(self.ts, some.BAD_TS)) if table.ts else None
        before = self.position()
        answer = self.engine.delete(table.name, key, ts=ts)
        self._expect(answer, self.model.delete(table.name, key, ts), before)

    @precondition(lambda self: any(documents.entries for documents in self.model.tables.values()))
    @rule(data=st.data(), gone=st.lists(st.booleans(), min_size=1, max_size=5))
    def meet_again(self, data: st.DataObject, gone: list[bool]) -> None:
        """Put or delete further versions of a known key, living or dead, in any order of their ts."""
        met = [(d.table, e.key) for d in self.model.tables.values() for e in d.entries.values()]
        table, key = data.draw(st.sampled_from(met))
        for one in gone:
            ts = data.draw(st.sampled_from(self.ts)) if table.ts else None
            before = self.position()
            if one:
                self._expect(self.engine.delete(table.name, key, ts=ts), self.model.delete(table.name, key, ts), before)
            else:
                doc = some.with_key(table, data.draw(some.documents(table, [ts], wrong=False)), key)
                beside = ts if table == HEARD else None
                answer = self.engine.put(table.name, doc, ts=beside)
                self._expect(answer, self.model.put(table.name, doc, beside), before)

    @rule(data=st.data(), size=st.integers(0, 6), undone=st.booleans())
    def batch(self, data: st.DataObject, size: int, undone: bool) -> None:
        before = self.position()
        try:
            with self.engine.batch() as real, self.model.batch() as model:
                for _ in range(size):
                    self._one(data, real, model)
                if undone:
                    raise Undone
        except Undone:
            assert self.position() == before
            return
        self._expect(real.counts, model.counts, before)

    def _one(self, data: st.DataObject, real: Any, model: Any) -> None:
        """Make one call inside a batch."""
        table = data.draw(TABLES)
        match data.draw(st.sampled_from(["put", "many", "delete"])):
            case "put":
                doc = data.draw(some.documents(table, self.ts))
                real.put(table.name, doc)
                model.put(table.name, doc)
            case "many":
                docs = data.draw(st.lists(some.documents(table, self.ts), max_size=3))
                real.put_many(table.name, docs)
                for doc in docs:
                    model.put(table.name, doc)
            case "delete":
                key = data.draw(some.keys(table))
                ts = data.draw(st.sampled_from(self.ts)) if table.ts else None
                real.delete(table.name, key, ts=ts)
                model.delete(table.name, key, ts)

    @rule(data=st.data(), source=st.sampled_from(["a", "b"]), again=st.integers(0, 4), size=st.integers(0, 4))
    def ingest(self, data: st.DataObject, source: str, again: int, size: int) -> None:
        log = self.log[source]
        start = max(len(log) - again, 0)
        for _ in range(size):
            table = data.draw(TABLES | st.just(HEARD))
            doc = data.draw(some.documents(table, self.ts, wrong=False))
            ts = data.draw(st.sampled_from(self.ts)) if table == HEARD else None
            key = some.key_in(table, doc)
            log.append(Record(table.name, key, doc if data.draw(st.integers(0, 4)) else None, ts, len(log)))
        records = [ps.Record(r.table, r.key, r.doc, ts=r.ts, offset=r.offset) for r in log[start:]]
        before = self.position()
        answer = self.engine.ingest(records, source=source, resume=len(log))
        self._expect(answer, self.model.ingest(log[start:], source, len(log)), before)

    @precondition(lambda self: self.path is not None)
    @rule()
    def reopen(self) -> None:
        self._drop_snapshots()
        digest, position = self.engine.digest(), self.position()
        self.engine.close()
        self._open()
        assert self.engine.digest() == digest
        assert self.position() == position

    @precondition(lambda self: self.durability == "sync")  # under "group" nodes belong to the committing thread
    @rule()
    def forget(self) -> None:
        """Drop the cached documents and groups, as for lack of memory. Later steps read them again."""
        digest = self.engine.digest()
        for node in self.engine.store.core.tables.values():
            node.forget()
        for view in self.engine.store.core.views.values():
            if view.chained:
                view.forget(None)
        assert self.engine.digest() == digest

    @rule(asked=st.lists(st.tuples(VIEWS, some.bounds()), min_size=1, max_size=10))
    def read(self, asked: list[tuple[str, dict[str, Any]]]) -> None:
        for view, bounds in asked:
            wanted = select(rows_of(self.model, view), **bounds)
            with self.engine.snapshot() as snap:
                found = differences(f"{view}{bounds}", snap.view(view).items(**bounds), wanted)
            assert not found, "\n".join(found)

    @rule(level=st.integers(0, 2))
    def roll_up(self, level: int) -> None:
        with self.engine.snapshot() as snap:
            got = [(prefix, value) for prefix, value in snap.view("revenue").rollup(level=level)]
        found = differences(f"rollup({level})", got, self.model.rollup("revenue", level))
        assert not found, "\n".join(found)

    @precondition(lambda self: len(self.snapshots) < 2)
    @rule()
    def keep_a_snapshot(self) -> None:
        self.snapshots.append((self.engine.snapshot().__enter__(), Picture(self.model)))

    @precondition(lambda self: self.snapshots)
    @rule()
    def look_at_a_snapshot(self) -> None:
        snap, picture = self.snapshots.pop()
        found = picture.differences(snap)
        snap.__exit__(None, None, None)
        assert not found, "\n".join(found)

    @invariant()
    def shows_what_the_oracle_shows(self) -> None:
        if self._opened():
            check(self.engine, self.model)
            check_recompute(self.engine, self.model)

    def _opened(self) -> bool:
        return hasattr(self, "engine")

    def _drop_snapshots(self) -> None:
        while self.snapshots:
            self.snapshots.pop()[0].__exit__(None, None, None)

    def teardown(self) -> None:
        if self._opened():
            self._drop_snapshots()
            self.engine.close()
            if self.path:
                shutil.rmtree(self.path)


class FoldingMachine(EngineMachine):
    """The engine in memory, with an index fold and compaction between almost all batches."""

    limits = TINY


class LmdbMachine(FoldingMachine):
    """The engine on disk. A commit is synced before a call returns."""

    store = "lmdb"


class GroupMachine(EngineMachine):
    """The engine on disk. Every call returns a ticket, and the test waits for it."""

    store = "lmdb"
    durability = "group"


BUDGET = settings(max_examples=settings().max_examples // 3)
TestMemory = EngineMachine.TestCase
TestFolding = FoldingMachine.TestCase
TestLmdb = LmdbMachine.TestCase
TestGroup = GroupMachine.TestCase
TestMemory.settings = TestFolding.settings = TestLmdb.settings = TestGroup.settings = BUDGET
