"""Compare a table's log and index with a dict, with all orders of steps, undone steps, reopening, and old snapshots."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule
from numpy.typing import NDArray

from penstock.cache import (
    GONE,
    LOADED,
    PRESENT,
    RECORD,
    DocumentLog,
    Limits,
    MemoryStore,
    Reader,
    Segment,
    Writer,
    forget_step,
    record_key,
)
from penstock.cache.log import hash_index
from penstock.gateway import TableReader, Tails, unwrap
from penstock.gateway.lines.stored_lines import absent_line
from penstock.mapreduce import key_lanes
from penstock.views import App
from tests.engine.test_planted_bugs import Edit

SEED, TABLE, SIDE = 7, 1, "told:9"
LIMITS = Limits(fold_least=12, fold_most=24, fold_buckets=3, space=1.5, entries=5)
KEYS: list[Any] = [*range(-3, 45), 1 << 70, *(f"k{i}" for i in range(24)), (1, "a"), 0.5]
Documents = dict[Any, bytes]
_PLAIN = App("plain").table("t", key="id")
_STAMPED = App("stamped").table("t", key="id", ts="ts")


class _Undo(Exception):
    """Ends a transaction before its commit."""


class LogMachine(RuleBasedStateMachine):
    """`known` has the newest line of each key that has one. In a table without ts a deletion leaves no line."""

    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.known: Documents = {}
        self.version = 0
        self.tails = Tails()
        self.held: list[Reader] = []
        self._bucket, hash_index.BUCKET = hash_index.BUCKET, 1

    def teardown(self) -> None:
        hash_index.BUCKET = self._bucket
        for snap in self.held:
            snap.close()
        self.store.close()

    @initialize(stamped=st.booleans(), capacity=st.integers(1, 200))
    def begin(self, stamped: bool, capacity: int) -> None:
        self.table = _STAMPED if stamped else _PLAIN
        self.log = self.opened(capacity)

    def opened(self, capacity: int = 200) -> DocumentLog:
        log = DocumentLog(TABLE, self.table.has_ts, capacity, LIMITS)
        log.sides = [SIDE]
        with self.store.read() as snap:
            log.open(snap)
        return log

    def within(self, work: Callable[[Writer], Any], undo: bool) -> Any:
        """Run work in a transaction, and commit or undo it."""
        try:
            with self.store.write() as txn:
                out = work(txn)
                if undo:
                    raise _Undo
                return out
        except _Undo:
            return None

    def resolved(self, log: DocumentLog, reader: Reader, keys: Sequence[Any]) -> NDArray[np.int64]:
        """Return the slots of these keys, loaded like the gateway loads them."""
        if not log.keys.room(len(keys)):
            log.forget(len(keys))
        (k0, k1), refused = key_lanes(list(keys), SEED)
        assert not refused
        slots, cold = log.resolve(reader, k0, k1)
        if cold.size:
            absent = np.array([unwrap(line).absent for line in log.lines(reader, cold)], bool)
            log.keys.state[cold] = np.where(absent, GONE, PRESENT).astype(np.uint8) | LOADED | RECORD
        assert (log.keys.state[slots] & LOADED != 0).all()
        return slots

    def stored_documents(self, log: DocumentLog, reader: Reader, keys: Sequence[Any]) -> Documents:
        """Return the newest lines of these keys in the log, without deletions that leave no line."""
        slots = self.resolved(log, reader, keys)
        state = log.keys.state[slots]
        found_at = np.flatnonzero(state & (PRESENT | (GONE if log.tombstones else 0)))
        lines = log.lines(reader, slots[found_at])
        return {keys[i]: line for i, line in zip(found_at.tolist(), lines, strict=True)}

    @rule(
        changes=st.dictionaries(st.sampled_from(KEYS), st.booleans(), min_size=1, max_size=20),
        undo=st.sampled_from([False, False, False, True]),
    )
    def batch(self, changes: dict[Any, bool], undo: bool) -> None:
        self.version += 1
        keys, log, ts = list(changes), self.log, self.table.has_ts
        lines, after = [], dict(self.known)
        for key, puts in changes.items():
            name = list(key) if isinstance(key, tuple) else key
            doc = msgspec.msgpack.encode({"id": name if name != 1 << 70 else 0, "v": self.version, "ts": 1})
            lines.append(doc if puts else absent_line(key, self.version if ts else None))
            after[key] = lines[-1]
            if not puts and not ts:
                del after[key]
        gone = np.array([not puts for puts in changes.values()], bool)
        before, later = self.tally(self.known), self.tally(after)
        change = later[0] - before[0], later[1] - before[1]

        def write(txn: Writer) -> Any:
            slots = self.resolved(log, txn, keys)
            key = record_key(log.mark.tail)
            mark = log.append(txn, lines, slots, gone if gone.any() else None, change)
            txn.put_many(SIDE, [(key, msgspec.msgpack.encode(lines))])
            return mark, slots

        done = self.within(write, undo)
        if done is not None:
            log.appended(*done, gone if gone.any() else None)
            self.known = after

    @precondition(lambda self: self.log.keys.dirty_count or self.log._fold)
    @rule(undo=st.booleans(), steps=st.integers(1, 4))
    def fold(self, undo: bool, steps: int) -> None:
        done = self.within(lambda txn: self.log.fold_step(txn, steps), undo)
        if done is not None:
            done()

    @rule(n=st.integers(1, 200))
    def tend(self, n: int) -> None:
        steps = self.log.fold_steps(n)
        if steps:
            self.within(lambda txn: self.log.fold_step(txn, steps), False)()
        if self.log.compact_due():
            self.compact(False, n)

    @rule(undo=st.booleans(), n=st.integers(1, 60))
    def compact(self, undo: bool, n: int) -> None:
        if not self.log.keys.room(len(KEYS)):
            self.log.forget(len(KEYS))
        then = self.within(lambda txn: self.log.compact_step(txn, n, self.carry), undo)
        if then is not None:
            then()

    @precondition(lambda self: self.log.tombstones and not self.log.folding and not self.log.mark.doubling)
    @rule(undo=st.booleans(), n=st.integers(1, 40), age=st.integers(0, 6))
    def forget_old(self, undo: bool, n: int, age: int) -> None:
        """Remove the tombstones of an age that are in the index, and no others."""
        before = self.version - age

        def is_old(line: bytes) -> bool:
            found = unwrap(line)
            return found.absent and found.ts <= before

        with self.store.read() as snap:
            reader = TableReader(self.table, TABLE, SEED, lambda: snap, Tails(), frozenset)
            named = {line for base, _, line in reader.places() if base < self.log.mark.folded and is_old(line)}
        at, gone = self.log.head, 0
        while True:
            if not self.log.keys.room(len(KEYS)):
                self.log.forget(len(KEYS))
            done = self.within(lambda txn, at=at: forget_step(self.log, txn, at, n, is_old), undo)
            if done is None or done[0] == at:
                break
            at, gone = done[0], gone + done[1]
            done[2]()
        if not undo:
            assert gone == len(named)
            self.known = {key: line for key, line in self.known.items() if line not in named}

    def carry(self, txn: Writer, parts: Sequence[tuple[Segment, NDArray[np.int64]]], base: int) -> None:
        moved: list[bytes] = []
        for segment, at in parts:
            moved += [self.beside(txn, segment.base)[i] for i in at.tolist()]
        if moved:
            txn.put_many(SIDE, [(record_key(base), msgspec.msgpack.encode(moved))])

    def beside(self, reader: Reader, base: int) -> list[bytes]:
        row = reader.get_many(SIDE, [record_key(base)])[0]
        assert row is not None, base
        return msgspec.msgpack.decode(row, type=list[bytes])

    @rule(room=st.integers(0, 300))
    def forget(self, room: int) -> None:
        self.log.forget(room)
        assert self.log.keys.room(room)

    @rule(capacity=st.integers(1, 200))
    def reopen(self, capacity: int) -> None:
        self.log = self.opened(capacity)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6, unique=True))
    def look(self, keys: list[Any]) -> None:
        with self.store.read() as snap:
            assert self.stored_documents(self.log, snap, keys) == {k: self.known[k] for k in keys if k in self.known}

    @rule(target=snapshots)
    def hold(self) -> Any:
        if len(self.held) > 4:
            return multiple()
        self.held.append(self.store.read())
        return (
            self.held[-1],
            dict(self.known),
            TableReader(self.table, TABLE, SEED, lambda snap=self.held[-1]: snap, self.tails, frozenset),
        )

    @rule(held=snapshots)
    def look_back(self, held: tuple[Reader, Documents, TableReader]) -> None:
        self.read_through(held[2], held[1])

    def read_through(self, reader: TableReader, known: Documents) -> None:
        docs = {key: line for key, line in known.items() if not unwrap(line).absent}
        got = reader.get_many(KEYS)
        assert got == [msgspec.msgpack.decode(docs[key]) if key in docs else None for key in KEYS]
        assert len(reader) == len(docs)

    def tally(self, known: Documents) -> tuple[int, int]:
        absent = sum(unwrap(line).absent for line in known.values())
        return len(known) - absent, absent

    @invariant()
    def is_all_there(self) -> None:
        again = self.opened()
        assert (again.mark.present, again.mark.tombstones) == self.tally(self.known)
        assert again.mark == self.log.mark
        with self.store.read() as snap:
            assert self.stored_documents(again, snap, KEYS) == self.known
            tails = self.tails if self.version % 2 else Tails()  # only every second reader shares them
            reader = TableReader(self.table, TABLE, SEED, lambda: snap, tails, frozenset)
            self.read_through(reader, self.known)
            places = list(reader.places())
            assert sorted(line for _, _, line in places) == sorted(self.known.values())
            for base, at, line in places:
                assert self.beside(snap, base)[at] == line
            sides = [key for key, _ in snap.scan(SIDE)]
            assert sides == [key for key, _ in snap.scan("log:1")]


class TestLog(LogMachine.TestCase):
    settings = settings(max_examples=50, stateful_step_count=35)


def _filled(n: int, capacity: int = 1_000) -> LogMachine:
    machine = LogMachine()
    machine.begin(False, capacity)
    for i in range(0, n, 4):
        machine.batch(dict.fromkeys(KEYS[i : i + 4], True), False)
    return machine


def test_a_fold_of_deletions_only_leaves_no_row() -> None:
    machine = _filled(40)
    machine.batch(dict.fromkeys(KEYS[:40], False), False)
    while machine.log.keys.dirty_count:
        machine.fold(False, 100)
    machine.is_all_there()
    with machine.store.read() as snap:
        assert snap.count("index:1") == 0
    machine.teardown()


def test_a_large_batch_ends_a_fold_and_starts_no_other() -> None:
    machine = _filled(40)
    machine.fold(False, 1)
    machine.batch({KEYS[0]: True}, False)
    machine.fold(False, machine.log.fold_steps(10_000_000))
    assert machine.log._fold is None
    assert machine.log.keys.dirty_count == 1
    machine.is_all_there()
    machine.teardown()


def test_steady_writing_keeps_the_log_in_bounds() -> None:
    machine = _filled(60)
    sizes = []
    for i in range(300):
        machine.batch({KEYS[(7 * i + j) % 60]: True for j in range(6)}, False)
        machine.tend(6)
        with machine.store.read() as snap:
            sizes.append(snap.count("log:1"))
    assert max(sizes[150:]) <= max(sizes[:150])
    machine.is_all_there()
    machine.teardown()


@pytest.mark.parametrize("capacity", [1, 10, 100])
def test_a_small_cache_opens_a_long_log(capacity: int) -> None:
    machine = _filled(60)
    machine.reopen(capacity)
    machine.look(KEYS[:30])
    machine.batch(dict.fromkeys(KEYS, True), False)
    machine.is_all_there()
    machine.teardown()


def test_a_snapshot_before_a_fold_is_read_after_a_later_one() -> None:
    """Both snapshots share their knowledge of unfolded segments. The older one has more of these segments."""
    machine = _filled(40)
    older = machine.hold()
    machine.fold(False, 100)
    machine.look_back(machine.hold())
    machine.look_back(older)
    machine.teardown()


def _deleted() -> LogMachine:
    """Return a machine with tombstones in the index and outside of it. Readers know all of them."""
    machine = LogMachine()
    machine.begin(True, 1_000)
    machine.batch(dict.fromkeys(KEYS, True), False)
    machine.batch(dict.fromkeys(KEYS[:60], False), False)
    machine.batch(dict.fromkeys(KEYS[40:50], True), False)
    machine.look_back(machine.hold())
    while machine.log.keys.dirty_count or machine.log.folding:
        machine.fold(False, 100)
    machine.batch(dict.fromkeys(KEYS[30:35], True), False)
    machine.batch(dict.fromkeys(KEYS[60:70], False), False)
    machine.look_back(machine.hold())
    return machine


def _forgets_what_it_should() -> None:
    machine = _deleted()
    living, unfolded = [*KEYS[30:35], *KEYS[40:50], *KEYS[70:]], KEYS[60:70]
    older = machine.hold()
    machine.forget_old(True, 10, 0)
    assert len(machine.known) == len(KEYS)
    machine.forget_old(False, 10, 0)
    assert set(machine.known) == {*living, *unfolded}
    machine.look(KEYS[:40])
    machine.is_all_there()
    with machine.store.read() as snap:
        reader = TableReader(machine.table, TABLE, SEED, lambda: snap, machine.tails, frozenset)
        assert sorted(reader.lines()) == sorted(machine.known.values())
    machine.batch({KEYS[0]: True, KEYS[41]: False}, False)
    assert machine.log.mark.forgotten
    machine.compact(False, 1_000)
    while machine.log.keys.dirty_count or machine.log.folding:
        machine.fold(False, 100)
    machine.look_back(older)
    machine.is_all_there()
    machine.teardown()


def test_only_tombstones_in_the_index_are_removed() -> None:
    _forgets_what_it_should()


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("gateway.document_reader:Tails.of", "known.forgotten != mark.forgotten", "False"),
        ("cache.log.tombstone_removal:forget_step", "end > log.mark.folded or", ""),
        ("cache.log.tombstone_removal:forget_step", "log.keys.state[slots] = LOADED", "pass"),
        ("cache.log.tombstone_removal:forget_step", "log.mark.tombstones - int(slots.size)", "log.mark.tombstones"),
        ("cache.log.document_log:DocumentLog._append", "old.forgotten", "0"),
    ],
)
def test_a_bug_in_tombstone_removal_is_found(where: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Edit(where, old, new).plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):
        _forgets_what_it_should()
