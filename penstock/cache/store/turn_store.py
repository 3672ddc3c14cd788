"""A store whose commits wait in memory for a decision: all of them become durable at once, or none of them.

A turn is the work of one batch in a partition, in several transactions. Another process decides later whether the batch
counts. Until then the base has the rows from before the turn, so a kill leaves exactly these. Invariants:

- readers and transactions see the committed rows of the turn above those of the base;
- the base changes only when a turn is kept, in one transaction, together with rows that the caller adds. A store that
  is closed drops its turn;
- the changes of a turn depend on its rows before and after only, not on the transactions between them.

A nested LMDB transaction would do the same, but its changes must be in memory anyway: the changelog contains them. In
memory they block no writer of the base, and a copy of the base is one of a decided state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter, lt
from typing import Generic, Self, TypeVar

from penstock.cache.errors import PenstockError
from penstock.cache.store.memory_store import MemoryReader, MemoryStore, MemoryWriter
from penstock.cache.store.protocol import MAX_KEY, META, Info, Reader, Store
from penstock.cache.store.row_changes import RowChanges, apply_changes

__all__ = ["TurnReader", "TurnStore", "TurnWriter"]

Row = tuple[bytes, bytes]
_Memory = TypeVar("_Memory", MemoryReader, MemoryWriter)
_CLEARED = "\0cleared"  # names of emptied databases; no database of a base has a name with a zero byte
_first = itemgetter(0)


def _deleted(db: str) -> str:
    """Return the database of the turn that has the keys of deleted rows."""
    return f"{db}\0deleted"


class TurnStore:
    """A base, and the rows of the undecided turn.

    >>> base = MemoryStore()
    >>> store = TurnStore(base)
    >>> with store.write() as txn:
    ...     txn.put_many("rows", [(b"Joe", b"1")])
    >>> with store.read() as turn, base.read() as before:
    ...     turn.get_many("rows", [b"Joe"]), before.get_many("rows", [b"Joe"])
    ([b'1'], [None])
    >>> store.keep_turn()
    >>> with base.read() as after:
    ...     after.get_many("rows", [b"Joe"])
    [b'1']
    """

    def __init__(self, base: Store) -> None:
        self.base = base
        self._turn = MemoryStore()

    def read(self) -> TurnReader:
        """Open a snapshot of the committed rows, with those of the turn."""
        memory = self._turn
        turn = memory.read()  # before the base: a turn that is kept meanwhile is then in both
        try:
            return TurnReader(turn, self.base.read(), lambda: self._turn is memory)
        except BaseException:
            turn.close()
            raise

    def write(self) -> TurnWriter:
        """Begin a transaction of the turn. Wait for the transaction of another thread."""
        turn = self._begin()
        try:
            return TurnWriter(turn, self.base.read())
        except BaseException:
            turn.close()
            raise

    def _begin(self) -> MemoryWriter:
        """Begin a transaction on the rows of the turn that is undecided after the wait."""
        while True:
            turn = self._turn
            writer = turn.write()
            if turn is self._turn:
                return writer
            writer.close()

    def info(self) -> Info:
        """Return sizes and the path of the base."""
        return self.base.info()

    def trim(self) -> None:
        """Release memory of the base that only serves to speed up later reads."""
        self.base.trim()

    def close(self) -> None:
        """Close the base. The rows of an undecided turn are lost."""
        self._turn.close()
        self.base.close()

    def changes(self) -> list[RowChanges]:
        """Return the changes of the turn, by database."""
        with self._turn.read() as turn:
            names = {name.partition("\0")[0] for name in self._turn.databases} - {""}
            cleared = {name.decode() for name, _ in turn.scan(_CLEARED)}
            return [
                RowChanges(db, db in cleared, [key for key, _ in turn.scan(_deleted(db))], list(turn.scan(db)))
                for db in sorted(names | cleared)
            ]

    def keep_turn(self, rows: Sequence[Row] = ()) -> None:
        """Write the turn to the base in one transaction, with these rows of `meta`. The next turn begins."""
        with self._begin():
            with self.base.write() as writer:
                apply_changes(writer, self.changes())
                writer.put_many(META, rows)
            self._turn = MemoryStore()


class _TurnRows(Generic[_Memory]):
    """Reads of rows of the turn above those of the base."""

    _turn: _Memory
    _base: Reader

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order, None for an absent row."""
        out = self._turn.get_many(db, keys)
        left = [i for i, value in enumerate(out) if value is None]
        if left and not self._is_cleared(db):
            asked = [keys[i] for i in left]
            deleted = self._turn.get_many(_deleted(db), asked)
            for i, value, gone in zip(left, self._base.get_many(db, asked), deleted, strict=True):
                out[i] = value if gone is None else None
        return out

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows from `start` on and before `stop`. With `reverse` the last row comes first."""
        return self._merged(db, start, stop, reverse)

    def _merged(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        mine = self._turn.scan(db, start, stop, reverse)
        if self._is_cleared(db):
            return mine
        base = self._base.scan(db, start, stop, reverse)
        deleted = {key for key, _ in self._turn.scan(_deleted(db), start, stop)}
        kept = (row for row in base if row[0] not in deleted) if deleted else base
        both = merge(mine, kept, key=_first, reverse=reverse)  # of equal keys the turn's comes first
        return (next(rows) for _, rows in groupby(both, key=_first))

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None."""
        mine = self._turn.floor(db, key)
        base = None if self._is_cleared(db) else self._base.floor(db, key)
        if base is not None and self._turn.get_many(_deleted(db), [base[0]]) != [None]:
            row = next(self._merged(db, b"", key + b"\0", True), None)
            return None if row is None else (row[0], memoryview(row[1]))
        if mine is None or base is None:
            return mine or base
        return mine if mine[0] >= base[0] else base

    def count(self, db: str) -> int:
        """Return the number of rows. It looks up the changed rows of the turn in the base."""
        mine = [key for key, _ in self._turn.scan(db)]
        if self._is_cleared(db):
            return len(mine)
        deleted = [key for key, _ in self._turn.scan(_deleted(db))]
        new = self._base.get_many(db, mine).count(None)
        gone = len(deleted) - self._base.get_many(db, deleted).count(None)
        return self._base.count(db) + new - gone

    def _is_cleared(self, db: str) -> bool:
        return self._turn.get_many(_CLEARED, [db.encode()]) != [None]

    def close(self) -> None:
        """Release a snapshot, or undo an open transaction. A second call does nothing."""
        self._turn.close()
        self._base.close()

    def __enter__(self) -> Self:
        return self


class TurnReader(_TurnRows[MemoryReader]):
    """A snapshot of a turn and its base."""

    def __init__(self, turn: MemoryReader, base: Reader, undecided: Callable[[], bool]) -> None:
        self._turn = turn
        self._base = base
        self._undecided = undecided

    def is_newest(self) -> bool:
        """Return True if the store has no later commit, and the turn is undecided."""
        return self._turn.is_newest() and self._base.is_newest() and self._undecided()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        self.close()


class TurnWriter(_TurnRows[MemoryWriter]):
    """A transaction of a turn."""

    def __init__(self, turn: MemoryWriter, base: Reader) -> None:
        self._turn = turn
        self._base = base
        self._changes = 0
        self._failed = False

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows from `start` on and before `stop`, last first with `reverse`.

        Rows put ahead of it are included.
        """
        self._turn.count(db)  # a closed transaction raises at the call
        return self._walk(db, start, stop, reverse)

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        """Yield rows. After a write, continue from the last row: the merge has read ahead."""
        while True:
            seen = self._changes
            row: Row | None = None
            for row in self._merged(db, start, stop, reverse):
                yield row
                if self._changes != seen:
                    break
            else:
                return
            start, stop = (start, row[0]) if reverse else (row[0] + b"\0", stop)

    def put_many(self, db: str, items: Sequence[Row], append: bool = False, new: Sequence[bytes] | None = None) -> None:
        """Put rows. A row replaces the row of the same key."""
        self._changes += 1
        if append and items:
            last = next(self._merged(db, b"", None, True), None)
            keys = [key for key, _ in items]
            if not all(map(lt, keys, keys[1:])) or (last is not None and last[0] >= keys[0]):
                self._failed = True
                raise PenstockError(f"rows appended to {db} out of order; sort them, or put them without append=True")
        self._turn.put_many(db, items)
        if self._turn.count(_deleted(db)):
            self._turn.delete_many(_deleted(db), [key for key, _ in items])

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete the rows of these keys. Keys without a row are ignored."""
        self._changes += 1
        self._turn.delete_many(db, keys)
        if not self._is_cleared(db):
            self._turn.put_many(_deleted(db), [(key, b"") for key in keys if 0 < len(key) <= MAX_KEY])

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        self._changes += 1
        self._turn.clear(db)
        self._turn.clear(_deleted(db))
        self._turn.put_many(_CLEARED, [(db.encode(), b"")])

    def is_newest(self) -> bool:
        """Return True: a transaction sees its own writes."""
        return True

    def lost_rows(self, db: str) -> bool:
        """Return False: the base compares its digests when it is opened, and a turn loses no rows."""
        return False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        self._base.close()
        if kind is None and self._failed:
            self._turn.close()
            raise PenstockError("a change of this transaction failed, so it is undone; begin another one")
        self._turn.__exit__(kind, error, trace)
