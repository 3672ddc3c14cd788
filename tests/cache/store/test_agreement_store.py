"""Run one state machine on both stores. Each must behave like plain dicts, so they agree with each other.

The model is a dict of dicts, copied at every snapshot and at every commit. Wrong variants of the store in memory show
that the machine finds faults.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import islice
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.cache.errors import PenstockError
from penstock.cache.lmdb.lmdb_store import open_lmdb
from penstock.cache.store.memory_database import Database
from penstock.cache.store.memory_store import MemoryReader, MemoryStore, MemoryWriter
from penstock.cache.store.protocol import META, Reader, Store, Writer
from penstock.cache.store.row_changes import apply_changes
from penstock.cache.store.turn_store import TurnStore

Rows = dict[bytes, bytes]
Model = dict[str, Rows]

DBS = st.sampled_from(["a", "b"])
KEYS = st.one_of(
    st.lists(st.sampled_from([b"\x00", b"\x01", b"m", b"\xff"]), min_size=1, max_size=3).map(b"".join),
    st.sampled_from([b"k" * 511, b"k" * 510 + b"\xff"]),
)
VALUES = st.one_of(st.binary(max_size=6), st.just(b"v" * 9000))
STARTS = st.one_of(st.just(b""), KEYS)
STOPS = st.one_of(st.none(), st.just(b""), KEYS)


def in_range(rows: Rows, start: bytes, stop: bytes | None, reverse: bool) -> list[tuple[bytes, bytes]]:
    keys = sorted((k for k in rows if start <= k and (stop is None or k < stop)), reverse=reverse)
    return [(k, rows[k]) for k in keys]


class Machine(RuleBasedStateMachine):
    """Transactions, and snapshots that stay open across them."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store = self.open()
        self.committed: Model = {}
        self.staged: Model = {}
        self.txn: Writer | None = None
        self.held: list[tuple[Reader, Model]] = []

    def open(self) -> Store:
        raise NotImplementedError

    @initialize(rows=st.dictionaries(KEYS, VALUES, min_size=1, max_size=6))
    def some_rows(self, rows: Rows) -> None:
        with self.store.write() as txn:
            txn.put_many("a", list(rows.items()))
        self.committed = {"a": dict(rows)}

    @precondition(lambda self: self.txn is None)
    @rule()
    def begin(self) -> None:
        self.txn = self.store.write()
        self.txn.__enter__()
        self.staged = {db: dict(rows) for db, rows in self.committed.items()}

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS, items=st.lists(st.tuples(KEYS, VALUES), max_size=8))
    def put(self, db: str, items: list[tuple[bytes, bytes]]) -> None:
        assert self.txn is not None
        self.txn.put_many(db, items)
        self.staged.setdefault(db, {}).update(items)

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS, first=st.integers(1, 50), count=st.integers(1, 50))
    def put_many_new(self, db: str, first: int, count: int) -> None:
        assert self.txn is not None
        items = [(b"n%03d" % i, b"%d" % i) for i in range(first, first + count)]
        self.txn.put_many(db, items)
        self.staged.setdefault(db, {}).update(items)

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS, tails=st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=4, unique=True))
    def append(self, db: str, tails: list[bytes]) -> None:
        assert self.txn is not None
        last = max(self.staged.get(db, {}), default=b"")[:500]
        items = [(last + b"\xff" + tail, tail) for tail in sorted(tails)]
        if items[0][0] > max(self.staged.get(db, {}), default=b""):
            self.txn.put_many(db, items, append=True)
            self.staged.setdefault(db, {}).update(items)

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS, keys=st.lists(KEYS, max_size=6))
    def delete(self, db: str, keys: list[bytes]) -> None:
        assert self.txn is not None
        self.txn.delete_many(db, keys)
        assert self.txn.get_many(db, keys) == [None] * len(keys), "a deleted row is read"
        for key in keys:
            self.staged.get(db, {}).pop(key, None)

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS, start=STARTS, stop=STOPS)
    def delete_range(self, db: str, start: bytes, stop: bytes | None) -> None:
        assert self.txn is not None
        keys = [key for key, _ in in_range(self.staged.get(db, {}), start, stop, False)]
        self.txn.delete_many(db, keys)
        for key in keys:
            del self.staged[db][key]

    @precondition(lambda self: self.txn is not None)
    @rule(db=DBS)
    def clear(self, db: str) -> None:
        assert self.txn is not None
        self.txn.clear(db)
        self.staged[db] = {}

    @precondition(lambda self: self.txn is not None)
    @rule(
        db=DBS,
        start=STARTS,
        stop=STOPS,
        reverse=st.booleans(),
        steps=st.integers(0, 3),
        items=st.lists(st.tuples(KEYS, VALUES), max_size=4),
        gone=st.lists(KEYS, max_size=4),
    )
    def scan_while_writing(
        self, db: str, start: bytes, stop: bytes | None, reverse: bool, steps: int,
        items: list[tuple[bytes, bytes]], gone: list[bytes],
    ) -> None:  # fmt: skip
        """The rest of a scan is all rows that are now ahead of its last row."""
        assert self.txn is not None
        before = in_range(self.staged.get(db, {}), start, stop, reverse)[:steps]
        scan = self.txn.scan(db, start, stop, reverse)
        assert list(islice(scan, steps)) == before
        self.put(db, items)
        self.delete(db, gone)
        if len(before) == steps:
            if before and reverse:
                stop = before[-1][0]
            elif before:
                start = before[-1][0] + b"\0"
            assert list(scan) == in_range(self.staged.get(db, {}), start, stop, reverse)

    @precondition(lambda self: self.txn is not None)
    @rule()
    def commit(self) -> None:
        assert self.txn is not None
        self.txn.__exit__(None, None, None)
        self.txn = None
        self.committed = self.staged

    @precondition(lambda self: self.txn is not None)
    @rule(by_error=st.booleans())
    def undo(self, by_error: bool) -> None:
        assert self.txn is not None
        if by_error:
            self.txn.__exit__(ValueError, ValueError(), None)
        else:
            self.txn.close()
        self.txn = None

    @precondition(lambda self: self.txn is not None)
    @rule(bad=st.sampled_from(["order", "empty", "long"]))
    def fail(self, bad: str) -> None:
        """Make a change that fails part way. After it the transaction can't commit."""
        assert self.txn is not None
        items = {"order": [(b"z", b""), (b"y", b"")], "empty": [(b"z", b""), (b"", b"")], "long": [(b"z" * 512, b"")]}
        with pytest.raises((PenstockError, AssertionError)):
            self.txn.put_many("a", items[bad], append=bad == "order")
        with pytest.raises(PenstockError, match="undone"):
            self.txn.__exit__(None, None, None)
        self.txn = None

    @precondition(lambda self: len(self.held) < 3)
    @rule()
    def hold(self) -> None:
        self.held.append((self.store.read(), {db: dict(rows) for db, rows in self.committed.items()}))

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 2))
    def let_go(self, which: int) -> None:
        snap, _ = self.held.pop(which % len(self.held))
        snap.close()
        with pytest.raises(PenstockError, match="snapshot is closed"):
            snap.count("a")

    @precondition(lambda self: self.txn is None and not self.held)
    @rule()
    def reopen(self) -> None:
        self.store = self.reopened()

    def reopened(self) -> Store:
        return self.store

    @rule(db=DBS, keys=st.lists(KEYS, max_size=6))
    def get(self, db: str, keys: list[bytes]) -> None:
        for reader, model in self.readers():
            rows = model.get(db, {})
            assert reader.get_many(db, keys) == [rows.get(key) for key in keys]
            for key in keys:
                found = reader.floor(db, key)
                least = max((own for own in rows if own <= key), default=None)
                assert (None if found is None else (found[0], bytes(found[1]))) == (
                    None if least is None else (least, rows[least])
                )

    @rule(db=DBS, start=STARTS, stop=STOPS, reverse=st.booleans())
    def range(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> None:
        for reader, model in self.readers():
            assert list(reader.scan(db, start, stop, reverse)) == in_range(model.get(db, {}), start, stop, reverse)

    @invariant()
    def counts(self) -> None:
        for reader, model in self.readers():
            for db in ("a", "b", "never"):
                assert reader.count(db) == len(model.get(db, {}))

    @invariant()
    def latest(self) -> None:
        with self.store.read() as snap:
            for db in ("a", "b"):
                assert list(snap.scan(db)) == in_range(self.committed.get(db, {}), b"", None, False)

    def readers(self) -> list[tuple[Reader, Model]]:
        return self.held + ([(self.txn, self.staged)] if self.txn is not None else [])

    def teardown(self) -> None:
        if self.txn is not None:
            self.txn.close()
        for snap, _ in self.held:
            snap.close()
        self.store.close()


class OnDisk(Machine):
    def open(self) -> Store:
        self.path = tempfile.mkdtemp(prefix="agreement-")
        return open_lmdb(self.path)

    def reopened(self) -> Store:
        self.store.close()
        return open_lmdb(self.path)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.path)


class InMemory(Machine):
    def open(self) -> Store:
        return MemoryStore()


class OfTurns(Machine):
    """Turns that are kept or dropped between transactions. The base has the rows of the last decision."""

    def open(self) -> Store:
        self.turns = TurnStore(MemoryStore())
        self.decided: Model = {}
        return self.turns

    @precondition(lambda self: self.txn is None)
    @rule(mark=VALUES)
    def keep(self, mark: bytes) -> None:
        self.turns.keep_turn([(b"mark", mark)])
        self.committed = self.committed | {META: {b"mark": mark}}
        self.decided = {db: dict(rows) for db, rows in self.committed.items()}

    @precondition(lambda self: self.txn is None)
    @rule()
    def drop(self) -> None:
        self.store = self.turns = TurnStore(self.turns.base)
        self.committed = {db: dict(rows) for db, rows in self.decided.items()}

    @precondition(lambda self: self.txn is None)
    @rule()
    def copy(self) -> None:
        """The changes of the turn make the rows of the turn from those of the base, however often they are applied."""
        copy = MemoryStore()
        with copy.write() as txn:
            for db, rows in self.decided.items():
                txn.put_many(db, list(rows.items()))
        for _ in range(2):
            with copy.write() as txn:
                apply_changes(txn, self.turns.changes())
        with copy.read() as snap:
            for db in ("a", "b", META):
                assert list(snap.scan(db)) == in_range(self.committed.get(db, {}), b"", None, False)

    @invariant()
    def base(self) -> None:
        with self.turns.base.read() as snap:
            for db in ("a", "b", META):
                assert list(snap.scan(db)) == in_range(self.decided.get(db, {}), b"", None, False)


TestOnDisk = OnDisk.TestCase
TestInMemory = InMemory.TestCase
TestOfTurns = OfTurns.TestCase


def never_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "copy", lambda self, made: self)


def shows_deleted(patch: pytest.MonkeyPatch) -> None:
    def get_many(self: Any, db: str, keys: list[bytes]) -> list[bytes | None]:
        staged, rows = self._staged.get(db, {}), self._under(db).rows
        return [staged.get(key) or rows.get(key) for key in keys]

    patch.setattr(MemoryWriter, "get_many", get_many)


def gives_the_stop(patch: pytest.MonkeyPatch) -> None:
    walk = MemoryReader._walk

    def inclusive(self: Any, database: Database, start: bytes, stop: bytes | None, reverse: bool) -> Any:
        return walk(self, database, start, stop + b"\0" if stop and reverse else stop, reverse)

    patch.setattr(MemoryReader, "_walk", inclusive)


def scans_stale_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryWriter, "_walk", lambda self, *bounds: iter(list(self._rows(*bounds))))


def leaves_keys(patch: pytest.MonkeyPatch) -> None:
    order = Database._order
    patch.setattr(Database, "_order", lambda self, gone, new: order(self, gone[1:] if len(gone) > 2 else gone, new))


def commits_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryWriter, "_failed", property(lambda self: False, lambda self, value: None), raising=False)


@pytest.mark.parametrize(
    "bug", [never_copies, shows_deleted, gives_the_stop, scans_stale_rows, leaves_keys, commits_failures]
)
def test_planted_bug_is_found(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)):
        run_state_machine_as_test(
            InMemory,
            settings=settings(max_examples=5000, report_multiple_bugs=False, database=None, phases=[Phase.generate]),
        )
