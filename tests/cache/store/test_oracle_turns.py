"""Draw histories of a few rows through turns, and compare each read with plain dicts. Wrong variants are found.

`test_agreement_store` has the histories over all rules of a store. These are short and many, so that each wrong variant
is found within seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.cache.errors import PenstockError
from penstock.cache.store.memory_store import MemoryStore
from penstock.cache.store.protocol import Reader
from penstock.cache.store.row_changes import RowChanges
from penstock.cache.store.turn_store import TurnReader, TurnStore, TurnWriter

Rows = dict[bytes, bytes]
KEYS = [b"a", b"b", b"c", b"d", b"e"]


def agrees(reader: Reader, rows: Rows) -> None:
    expected = sorted(rows.items())
    assert list(reader.scan("rows")) == expected
    assert list(reader.scan("rows", b"b", b"d", reverse=True)) == [
        row for row in expected[::-1] if b"b" <= row[0] < b"d"
    ]
    assert reader.get_many("rows", KEYS) == list(map(rows.get, KEYS))
    assert reader.count("rows") == len(rows)
    for key in KEYS:
        last = max((own for own in rows if own <= key), default=None)
        found = reader.floor("rows", key)
        assert (found and (found[0], bytes(found[1]))) == (None if last is None else (last, rows[last]))


def one_history(seed: int) -> None:
    draw = Random(seed)
    store = TurnStore(MemoryStore())
    decided: Rows = {}
    committed: Rows = {}
    for _ in range(draw.randint(2, 8)):
        with store.write() as txn:
            rows = dict(committed)
            for _ in range(draw.randint(1, 4)):
                change(draw, txn, rows)
                agrees(txn, rows)
        committed = rows
        with store.read() as snap:
            agrees(snap, committed)
        fate = draw.random()
        if fate < 0.3:
            store.keep_turn([(b"mark", b"%d" % seed)])
            decided = committed
        elif fate < 0.4:
            store = TurnStore(store.base)
            committed = decided
        with store.base.read() as snap, store.read() as turn:
            agrees(snap, decided)
            agrees(turn, committed)


def change(draw: Random, txn: TurnWriter, rows: Rows) -> None:
    some = draw.sample(KEYS, draw.randint(1, 3))
    match draw.randrange(5):
        case 0 | 1:
            items = [(key, b"%d" % draw.randrange(100)) for key in some]
            txn.put_many("rows", items)
            rows.update(items)
        case 2:
            txn.delete_many("rows", some)
            for key in some:
                rows.pop(key, None)
        case 3:
            txn.clear("rows")
            rows.clear()
        case _:
            ahead(draw, txn, rows)


def ahead(draw: Random, txn: TurnWriter, rows: Rows) -> None:
    """A row put or deleted ahead of a scan counts."""
    scan = txn.scan("rows")
    first = next(scan, None)
    if first is not None:
        key = draw.choice(KEYS)
        txn.put_many("rows", [(key, b"ahead")])
        rows[key] = b"ahead"
        assert list(scan) == sorted(row for row in rows.items() if row[0] > first[0])


def all_histories() -> None:
    for seed in range(300):
        one_history(seed)


def test_any_history_agrees_with_plain_dicts() -> None:
    all_histories()


def test_rows_are_appended_after_those_of_the_base_only() -> None:
    store = TurnStore(MemoryStore())
    with store.write() as txn:
        txn.put_many("rows", [(b"b", b"1")], append=True)
    store.keep_turn()
    late = store.write()
    with pytest.raises(PenstockError, match="out of order"):
        late.put_many("rows", [(b"a", b"2")], append=True)
    with pytest.raises(PenstockError, match="undone"):
        late.__exit__(None, None, None)
    with store.write() as txn:
        txn.delete_many("rows", [b"b"])
        txn.put_many("rows", [(b"a", b"2")], append=True)
    with store.read() as snap:
        assert list(snap.scan("rows")) == [(b"a", b"2")]


def test_a_snapshot_knows_whether_it_is_the_newest() -> None:
    store = TurnStore(MemoryStore())
    with store.read() as snap:
        assert snap.is_newest()
        with store.write() as txn:
            txn.put_many("rows", [(b"a", b"1")])
            assert txn.is_newest()
        assert not snap.is_newest()
    with store.read() as snap:
        store.keep_turn()
        assert not snap.is_newest()


def test_a_transaction_that_waited_for_a_decision_is_one_of_the_next_turn() -> None:
    store = TurnStore(MemoryStore())
    with store.write() as txn:
        txn.put_many("rows", [(b"a", b"1")])
    begin, waited = store._turn.write, []

    def write() -> Any:  # the turn is kept while this transaction waits for its lock
        if not waited:
            waited.append(True)
            store.keep_turn()
        return begin()

    store._turn.write = write  # type: ignore[method-assign]
    with store.write() as txn:
        txn.put_many("rows", [(b"b", b"2")])
    assert store.changes() == [RowChanges("rows", False, [], [(b"b", b"2")])]


def forgets_deletions(patch: pytest.MonkeyPatch) -> None:
    delete = TurnWriter.delete_many

    def of_the_turn(self: Any, db: str, keys: list[bytes]) -> None:
        delete(self, db, keys)
        if len(keys) > 2:
            self._turn.clear(f"{db}\0deleted")

    patch.setattr(TurnWriter, "delete_many", of_the_turn)


def keeps_tombstones(patch: pytest.MonkeyPatch) -> None:
    put = TurnWriter.put_many

    def without_removal(self: Any, db: str, items: Any, append: bool = False, new: Any = None) -> None:
        deleted = list(self._turn.scan(f"{db}\0deleted"))
        put(self, db, items, append, new)
        self._turn.put_many(f"{db}\0deleted", deleted)

    patch.setattr(TurnWriter, "put_many", without_removal)


def reads_ahead_of_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TurnWriter, "_walk", lambda self, *bounds: self._merged(*bounds))


def floors_at_a_deleted_row(patch: pytest.MonkeyPatch) -> None:
    def floor(self: Any, db: str, key: bytes) -> Any:
        mine = self._turn.floor(db, key)
        base = None if self._is_cleared(db) else self._base.floor(db, key)
        return max((one for one in (mine, base) if one is not None), key=lambda one: one[0], default=None)

    for kind in (TurnReader, TurnWriter):
        patch.setattr(kind, "floor", floor)


def keeps_cleared_rows(patch: pytest.MonkeyPatch) -> None:
    changes = TurnStore.changes
    patch.setattr(TurnStore, "changes", lambda self: [one._replace(cleared=False) for one in changes(self)])


def counts_puts_as_new(patch: pytest.MonkeyPatch) -> None:
    def count(self: Any, db: str) -> int:
        mine, deleted = (sum(1 for _ in self._turn.scan(name)) for name in (db, f"{db}\0deleted"))
        return mine if self._is_cleared(db) else self._base.count(db) + mine - deleted

    patch.setattr(TurnReader, "count", count)


def keeps_the_base(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TurnStore, "keep_turn", lambda self, rows=(): None)


@pytest.mark.parametrize(
    "bug",
    [
        forgets_deletions,
        keeps_tombstones,
        reads_ahead_of_writes,
        floors_at_a_deleted_row,
        keeps_cleared_rows,
        counts_puts_as_new,
        keeps_the_base,
    ],
)
def test_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        all_histories()
