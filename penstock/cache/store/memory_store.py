"""A store in memory with the behaviour of the store on disk, for the lifetime of the process.

A database is a dict of rows and the sorted list of its keys. Invariants:

- rows that a snapshot can see never change: a commit copies a database first if an open snapshot has it;
- a transaction stages its changes beside the rows, so undoing it only discards them;
- a commit of a few rows costs one binary search and one move of bytes per row, in a database of any size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import lt
from threading import Lock, RLock, get_ident
from typing import Self

from penstock.cache.errors import Closed, ForkedStore, PenstockError
from penstock.cache.store.database_watch import Moment, Watches
from penstock.cache.store.memory_database import Database
from penstock.cache.store.protocol import MAX_KEY, Info

__all__ = ["MemoryReader", "MemoryStore", "MemoryWriter"]

Row = tuple[bytes, bytes]
_Changes = dict[bytes, bytes | None]
_Staged = dict[str, _Changes]


_NONE = Database(0, {}, [], 0)


class MemoryStore:
    """Databases by name, and the open snapshots.

    >>> store = MemoryStore()
    >>> with store.write() as txn:
    ...     txn.put_many("rows", [(b"Joe", b"1")])
    >>> with store.read() as snap:
    ...     snap.get_many("rows", [b"Joe", b"Sue"])
    [b'1', None]
    """

    def __init__(self) -> None:
        self.closed = False
        self.pid = os.getpid()
        self.databases: dict[str, Database] = {}
        self.commits = 0
        self.watches = Watches()
        self.turn = RLock()
        self.open: dict[int, int] = {}
        self.write_lock = Lock()
        self.writing = 0

    def read(self) -> MemoryReader:
        """Open a snapshot of the committed rows."""
        self.check()
        return MemoryReader(self)

    def write(self) -> MemoryWriter:
        """Begin a transaction. Wait for the transaction of another thread."""
        self.check()
        return MemoryWriter(self)

    def info(self) -> Info:
        """Return sizes for status reports."""
        self.check()
        with self.turn:
            size = sum(database.size for database in self.databases.values())
            return {"path": None, "bytes": size, "used": size, "map_size": 0, "readers": len(self.open)}

    def trim(self) -> None:
        """Do nothing: the store has no memory but its rows."""
        self.check()

    def close(self) -> None:
        """Discard all rows."""
        self.closed = True
        self.databases = {}

    def check(self) -> None:
        """Raise ForkedStore in a forked child, and Closed if the store is closed."""
        if self.pid != os.getpid():
            raise ForkedStore("memory", self.pid)
        if self.closed:
            raise Closed("the store in memory")

    def commit(self, cleared: set[str], staged: _Staged) -> None:
        """Publish the changes of a transaction to later reads.

        Rows are changed in place, so an interruption could leave half of the changes. Then all of them are applied
        again before the interruption continues.
        """
        with self.turn:
            self.check()
            try:
                self._publish(cleared, staged, Database.apply)
            except BaseException:
                self._publish(cleared, staged, Database.reapply)
                raise

    def _publish(self, cleared: set[str], staged: _Staged, apply: Callable[[Database, _Changes], None]) -> None:
        self.commits += 1
        newest = max(self.open.values(), default=-1)
        databases = dict(self.databases)
        for name in cleared:
            databases.pop(name, None)
        for name, changes in staged.items():
            database = databases.get(name)
            if database is None:
                database = Database(self.commits, {}, [], 0)
            elif database.made <= newest:
                database = database.copy(self.commits)
            apply(database, changes)
            databases[name] = database
        self.databases = databases
        self.watches.committed_rows(self.commits, cleared, staged)


class MemoryReader:
    """A snapshot of the store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._open = True
        with store.turn:
            self._commit = store.open[id(self)] = store.commits
            self._databases = store.databases

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order, None for an absent row."""
        return list(map(self._database(db).rows.get, keys))

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows from `start` on and before `stop`. With `reverse` the last row comes first."""
        return self._walk(self._database(db), start, stop, reverse)

    def _walk(self, database: Database, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        rows, store = database.rows, self._store
        for key in database.walk(start, stop, reverse):
            if store.closed or not self._open:
                self._check()
            yield key, rows[key]

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None."""
        return self._database(db).floor(key)

    def count(self, db: str) -> int:
        """Return the number of rows in constant time."""
        return len(self._database(db).keys)

    def moments(self) -> Sequence[Moment]:
        """Return this snapshot with its commit number."""
        self._check()
        return (Moment(self, self._commit, self._store.watches),)

    def _database(self, db: str) -> Database:
        self._check()
        return self._databases.get(db, _NONE)

    def _check(self) -> None:
        self._store.check()
        if not self._open:
            raise Closed("the snapshot")

    def is_newest(self) -> bool:
        """Return True if the store has no later commit."""
        self._check()
        return self._commit == self._store.commits

    def close(self) -> None:
        """Release the rows. A second call does nothing, nor does a call in a forked child."""
        if self._open and self._store.pid == os.getpid():
            self._open = False
            self._databases = {}
            with self._store.turn:
                self._store.open.pop(id(self), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class MemoryWriter:
    """A transaction on the store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._thread = get_ident()
        self._open = False
        if store.writing == self._thread:
            raise PenstockError(
                "a transaction on the store in memory is open in this thread; end it before the next one"
            )
        store.write_lock.acquire()
        store.writing = self._thread
        self._open = True
        self._failed = False
        self._changes = 0
        self._cleared: set[str] = set()
        self._staged: dict[str, dict[bytes, bytes | None]] = {}
        self._sorted: dict[str, list[bytes]] = {}

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order, None for an absent row. Staged rows are included."""
        rows, staged = self._under(db).rows, self._staged.get(db)
        if not staged:
            return list(map(rows.get, keys))
        return [staged[key] if key in staged else rows.get(key) for key in keys]

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows from `start` on and before `stop`, last first with `reverse`.

        Rows put ahead of it are included.
        """
        self._check()
        return self._walk(db, start, stop, reverse)

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        """Yield rows. After a write, continue from the last row."""
        while True:
            seen = self._changes
            row: Row | None = None
            for row in self._rows(db, start, stop, reverse):
                yield row
                self._check()
                if self._changes != seen:
                    break
            else:
                return
            start, stop = (start, row[0]) if reverse else (row[0] + b"\0", stop)

    def _rows(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        under, staged = self._under(db), self._staged.get(db, {})
        if not staged:
            for key in under.walk(start, stop, reverse):
                yield key, under.rows[key]
            return
        if db not in self._sorted:
            self._sorted[db] = sorted(staged)
        over = Database(0, {}, self._sorted[db], 0)
        keys = merge(under.walk(start, stop, reverse), over.walk(start, stop, reverse), reverse=reverse)
        for key, _ in groupby(keys):
            value = staged[key] if key in staged else under.rows[key]
            if value is not None:
                yield key, value

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None. Staged rows are included."""
        if not self._staged.get(db):
            return self._under(db).floor(key)
        row = next(self.scan(db, b"", key + b"\0", reverse=True), None)
        return None if row is None else (row[0], memoryview(row[1]))

    def count(self, db: str) -> int:
        """Return the number of rows. Staged rows are included."""
        rows = self._under(db).rows
        change = 0
        for key, value in self._staged.get(db, {}).items():
            change += (value is not None) - (key in rows)
        return len(rows) + change

    def is_newest(self) -> bool:
        """Return True: a transaction sees its own writes."""
        return True

    def put_many(self, db: str, items: Sequence[Row], append: bool = False, new: object = None) -> None:
        """Put rows. A row replaces the row of the same key."""
        self._check()
        if not items:
            return
        keys = [key for key, _ in items]
        fit = min(map(len, keys)) > 0 and max(map(len, keys)) <= MAX_KEY
        if fit and (not append or self._ascends(db, keys)):
            self._change(db, dict(items))
            return
        self._failed = True
        if not fit:
            raise AssertionError("a key has 1 to 511 bytes")
        raise PenstockError(f"rows appended to {db} out of order; sort them, or put them without append=True")

    def _ascends(self, db: str, keys: list[bytes]) -> bool:
        if self._staged.get(db):
            row = next(self._rows(db, b"", None, True), None)
            last = None if row is None else row[0]
        else:
            under = self._under(db).keys
            last = under[-1] if under else None
        return all(map(lt, keys, keys[1:])) and (last is None or last < keys[0])

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete the rows of these keys. Keys without a row are ignored."""
        self._check()
        if keys:
            self._change(db, dict.fromkeys(keys))

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        self._check()
        self._cleared.add(db)
        self._staged.pop(db, None)
        self._change(db, {})

    def lost_rows(self, db: str) -> bool:
        """Return False: the store in memory loses no rows."""
        return False

    def _change(self, db: str, rows: dict[bytes, bytes | None] | dict[bytes, bytes]) -> None:
        self._changes += 1
        self._sorted.pop(db, None)
        self._staged.setdefault(db, {}).update(rows)

    def _under(self, db: str) -> Database:
        """Return the committed rows below the staged ones."""
        self._check()
        return _NONE if db in self._cleared else self._store.databases.get(db, _NONE)

    def _check(self) -> None:
        self._store.check()
        if not self._open:
            raise Closed("the transaction")
        if get_ident() != self._thread:
            raise PenstockError("a transaction is used by the thread that began it; begin another one here")

    def close(self) -> None:
        """Undo the transaction if it was not committed. A second call does nothing."""
        if self._open:
            self._open = False
            self._store.writing = 0
            self._store.write_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._check()
                if self._failed:
                    raise PenstockError("a change of this transaction failed, so it is undone; begin another one")
                self._store.commit(self._cleared, self._staged)
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()
