"""Snapshots and transactions of LMDB.

Invariants:

- a database is emptied, never dropped, while anything may read it;
- a transaction in which a change failed never commits, and one whose end is not reached is undone;
- where the map can grow, a transaction keeps what it was told to do, and does it again in the larger map.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

import lmdb

from penstock.cache.errors import Closed, PenstockError
from penstock.cache.lmdb_env import LARGEST, Handles, Opening, translated

__all__ = ["LmdbReader", "LmdbWriter"]

Row = tuple[bytes, bytes]


class _Rows:
    """Reading in an LMDB transaction of either kind."""

    _what: str
    _txn: lmdb.Transaction[memoryview] | None
    _handles: Handles

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._env = opening.env
        self._lock = threading.Lock()
        self._cursors: dict[str, lmdb.Cursor[memoryview]] = {}

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, in their order; None where there is no such row."""
        txn = self._live()
        try:
            with self._lock:
                cursor = self._cursor(txn, db)
                if cursor is None:
                    return [None] * len(keys)
                found = cursor.getmulti(keys)
        except lmdb.Error as error:
            raise self._meant(error) from error
        if len(found) == len(keys):
            return [bytes(value) for _, value in found]
        values = {bytes(key): bytes(value) for key, value in found}
        return list(map(values.get, keys))

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """The last row at or before a key, its value where it lies: to be read before anything else is done here."""
        txn = self._live()
        try:
            with self._lock:
                cursor = self._cursor(txn, db)
                if cursor is None:
                    return None
                if not cursor.set_range(key):
                    found = cursor.last()
                else:
                    found = cursor.key() == key or cursor.prev()
                return (bytes(cursor.key()), cursor.value()) if found else None
        except lmdb.Error as error:
            raise self._meant(error) from error

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """The rows from `start` on and before `stop`, last one first under `reverse`."""
        return self._walk(self._live(), db, start, stop, reverse)

    def _walk(
        self, txn: lmdb.Transaction[memoryview], db: str, start: bytes, stop: bytes | None, reverse: bool
    ) -> Iterator[Row]:
        handle = self._handle(db)
        if handle is None:
            return
        try:
            yield from (_down if reverse else _up)(txn.cursor(handle), start, stop)
        except lmdb.Error as error:
            raise self._meant(error) from error

    def count(self, db: str) -> int:
        """The number of rows, in constant time."""
        txn = self._live()
        handle = self._handle(db)
        try:
            return 0 if handle is None else txn.stat(handle)["entries"]
        except lmdb.Error as error:
            raise self._meant(error) from error

    def _handle(self, db: str) -> lmdb._Database | None:
        return self._handles.get(db)

    def _cursor(self, txn: lmdb.Transaction[memoryview], db: str) -> lmdb.Cursor[memoryview] | None:
        """The one cursor that goes to keys of a database."""
        cursor = self._cursors.get(db)
        if cursor is None:
            handle = self._handle(db)
            if handle is not None:
                cursor = self._cursors[db] = txn.cursor(handle)
        return cursor

    def _live(self) -> lmdb.Transaction[memoryview]:
        self._opening.check()
        if self._txn is None:
            raise Closed(self._what)
        return self._txn

    def _meant(self, error: lmdb.Error) -> Exception:
        if self._txn is None:
            return Closed(self._what)
        return translated(self._env.path, error)


class LmdbReader(_Rows):
    """A snapshot."""

    _what = "the snapshot"

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._txn = None
        try:
            self._txn, self._handles = self._env.begin_read()
        except lmdb.Error as error:
            raise translated(self._env.path, error) from error

    def names(self) -> list[str]:
        """The names of all databases that have rows."""
        return [name for name in sorted(self._handles) if self.count(name)]

    def copy_to(self, descriptor: int) -> None:
        """Write a data file that has what this snapshot sees, and no free pages; other threads go on meanwhile."""
        self._env.env.copyfd(descriptor, compact=True, txn=self._live())

    def used(self) -> int:
        """Bytes of the pages that its rows take."""
        txn = self._live()
        pages = 2 * self._env.env.stat()["psize"]
        for stat in (self._env.env.stat(), *(txn.stat(handle) for handle in self._handles.values())):
            pages += stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
        return pages

    def close(self) -> None:
        """Let go of its rows. Closing twice is nothing, and so is closing in a forked child."""
        txn, self._txn = self._txn, None
        if txn is not None and self._env.pid == os.getpid():
            self._cursors.clear()
            self._env.end_read(txn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class LmdbWriter(_Rows):
    """A transaction."""

    _what = "the transaction"

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._txn = None
        self._thread = threading.get_ident()
        self._made: Handles = {}
        self._changes = 0
        self._failed = False
        self._journal: list[Callable[[], None]] | None = None if self._env.map_size >= LARGEST else []
        self._owns = False
        if self._env.writing == self._thread:
            raise PenstockError(f"a transaction on {self._env.path} is open in this thread; end it before the next one")
        self._env.write_lock.acquire()
        self._env.writing = self._thread
        self._owns = True
        self._begin()

    def _begin(self) -> None:
        try:
            self._txn = self._env.begin_write()
        except lmdb.Error as error:
            self.close()
            raise translated(self._env.path, error) from error
        self._handles = self._env.handles

    def put_many(self, db: str, items: Sequence[Row], append: bool = False) -> None:
        """Put rows over those with the same keys; fastest in key order."""
        self._live()
        if items:
            self._do(partial(self._put, db, items, append))

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete these rows; keys that have none are passed over."""
        self._live()
        if keys and self._handle(db) is not None:
            self._do(partial(self._delete, db, keys))

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        self._live()
        if self._handle(db) is not None:
            self._do(partial(self._empty, db))

    def _put(self, db: str, items: Sequence[Row], append: bool) -> None:
        txn = self._live()
        cursor = self._cursor(txn, db)
        if cursor is None:
            self._made[db] = self._env.env.open_db(db.encode(), txn=txn)
            cursor = self._cursors[db] = txn.cursor(self._made[db])
        _, put = cursor.putmulti(items, append=append)
        if put != len(items):  # LMDB passes over a row that comes out of order, and says nothing
            raise PenstockError(f"rows appended to {db} out of order; sort them, or put them without append=True")

    def _delete(self, db: str, keys: Sequence[bytes]) -> None:
        delete, handle = self._live().delete, self._handle(db)
        for key in keys:
            delete(key, b"", handle)

    def _empty(self, db: str) -> None:
        handle = self._handle(db)
        if handle is not None:
            self._live().drop(handle, delete=False)

    def _do(self, change: Callable[[], None]) -> None:
        """Make one change; one that fails part way fails the transaction."""
        self._changes += 1
        if self._journal is not None:
            self._journal.append(change)
        try:
            self._growing(change)
        except lmdb.Error as error:
            self._failed = True
            raise self._meant(error) from error
        except BaseException:
            self._failed = True
            raise

    def _growing(self, act: Callable[[], None]) -> None:
        """Act; if the map is full, do everything up to it again in a larger one."""
        again: list[Callable[[], None]] = [act]
        while True:
            try:
                for change in again:
                    change()
                return
            except lmdb.MapFullError:
                if self._journal is None:
                    raise
            self._restart()
            again = self._journal if act in self._journal else [*self._journal, act]

    def _restart(self) -> None:
        if self._txn is not None:
            self._txn.abort()
        self._txn = None
        self._cursors.clear()
        self._made = {}
        self._env.grow()
        self._begin()

    def _walk(
        self, txn: lmdb.Transaction[memoryview], db: str, start: bytes, stop: bytes | None, reverse: bool
    ) -> Iterator[Row]:
        """A scan that goes on from its last row when something was written since."""
        while True:
            seen = self._changes
            row: Row | None = None
            for row in super()._walk(self._live(), db, start, stop, reverse):
                yield row
                if self._changes != seen:
                    break
            else:
                return
            start, stop = (start, row[0]) if reverse else (row[0] + b"\0", stop)

    def _handle(self, db: str) -> lmdb._Database | None:
        return self._handles.get(db) or self._made.get(db)

    def _live(self) -> lmdb.Transaction[memoryview]:
        txn = super()._live()
        if threading.get_ident() != self._thread:
            raise PenstockError("a transaction is used by the thread that began it; begin another one here")
        return txn

    def _commit(self) -> None:
        if self._failed:
            raise PenstockError("a change of this transaction failed, so it is undone; begin another one")
        try:
            self._growing(self._commit_now)
        except lmdb.Error as error:
            raise self._meant(error) from error

    def _commit_now(self) -> None:
        txn = self._live()
        self._cursors.clear()
        self._env.commit(txn, self._made)

    def close(self) -> None:
        """Undo it, if it has not been committed. Closing twice is nothing, and so is closing in a forked child."""
        txn, self._txn = self._txn, None
        if self._env.pid != os.getpid() or not self._owns:
            return
        self._owns = False
        self._cursors.clear()
        if txn is not None:
            txn.abort()
        self._env.writing = 0
        self._env.write_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._live()
                self._commit()
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()


def _up(cursor: lmdb.Cursor[memoryview], start: bytes, stop: bytes | None) -> Iterator[Row]:
    if not (cursor.set_range(start) if start else cursor.first()):
        return
    for key, value in cursor.iternext():
        own = bytes(key)
        if stop is not None and own >= stop:
            return
        yield own, bytes(value)


def _down(cursor: lmdb.Cursor[memoryview], start: bytes, stop: bytes | None) -> Iterator[Row]:
    if stop is not None and cursor.set_range(stop):
        found = cursor.prev()
    else:
        found = cursor.last()
    if not found:
        return
    for key, value in cursor.iterprev():
        own = bytes(key)
        if own < start:
            return
        yield own, bytes(value)
