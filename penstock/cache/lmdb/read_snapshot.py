"""Read LMDB in snapshots. Transactions share the methods of `LmdbRows`.

Invariants:

- each call holds the lock of its reader, and `close` waits for it. Otherwise LMDB would read unmapped pages;
- rows that a snapshot lends without a copy keep their pages: they hold the read transaction, which ends after them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Self

import lmdb
import numpy as np

from penstock.cache.errors import Closed
from penstock.cache.lmdb.lmdb_databases import Handles
from penstock.cache.lmdb.lmdb_environment import Opening, ReadTransaction
from penstock.cache.lmdb.lmdb_errors import translated
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cache.store.database_watch import Moment

__all__ = ["LmdbReader", "LmdbRows", "Row", "down", "up"]

Row = tuple[bytes, bytes]
_AT_ONCE = 64  # rows, and bytes of values, that a scan copies under one hold of the lock
_BYTES_AT_ONCE = 1 << 16


class LmdbRows:
    """Read methods of an LMDB transaction of either kind."""

    _what: str
    _handles: Handles

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._env = opening.env
        self._lock = threading.RLock()
        self._cursors: dict[str, lmdb.Cursor[memoryview]] = {}

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order, None for an absent row."""
        self._opening.check_process()
        with self._lock:
            txn = self._live()
            try:
                cursor = self._cursor(txn, db)
                if cursor is None:
                    return [None] * len(keys)
                found = cursor.getmulti(keys)
                if len(found) == len(keys):
                    return [bytes(value) for _, value in found]
                values = {bytes(key): bytes(value) for key, value in found}
            except lmdb.Error as error:
                raise self._meant(error) from error
        return list(map(values.get, keys))

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None. The value is not copied: read it before the next call."""
        self._opening.check_process()
        with self._lock:
            txn = self._live()
            try:
                cursor = self._cursor(txn, db)
                if cursor is None:
                    return None
                if not cursor.set_range(key):
                    found = cursor.last()
                else:
                    found = cursor.key() == key or cursor.prev()
                return (bytes(cursor.key()), self._lent(cursor.value())) if found else None
            except lmdb.Error as error:
                raise self._meant(error) from error

    def _lent(self, value: memoryview) -> memoryview:
        return value

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows from `start` on and before `stop`. With `reverse` the last row comes first."""
        self._opening.check_process()
        self._live()
        return self._walk(db, start, stop, reverse)

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        raise NotImplementedError

    def count(self, db: str) -> int:
        """Return the number of rows in constant time."""
        self._opening.check_process()
        with self._lock:
            txn = self._live()
            handle = self._handle(db)
            try:
                return 0 if handle is None else txn.stat(handle)["entries"]
            except lmdb.Error as error:
                raise self._meant(error) from error

    def is_newest(self) -> bool:
        """Return True: a transaction sees its own writes."""
        return True

    def _handle(self, db: str) -> lmdb._Database | None:
        return self._handles.get(db)

    def _cursor(self, txn: lmdb.Transaction[memoryview], db: str) -> lmdb.Cursor[memoryview] | None:
        """Return the cursor that moves to single keys of a database. There is one per database."""
        cursor = self._cursors.get(db)
        if cursor is None:
            handle = self._handle(db)
            if handle is not None:
                cursor = self._cursors[db] = txn.cursor(handle)
        return cursor

    def _live(self) -> lmdb.Transaction[memoryview]:
        raise NotImplementedError

    def _meant(self, error: lmdb.Error) -> Exception:
        return translated(self._env.path, error)


class LmdbReader(LmdbRows):
    """A snapshot of the store on disk."""

    _what = "the snapshot"
    _read: ReadTransaction | None = None  # an interruption may end `__init__` anywhere, and `__del__` closes

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        try:
            self._read, self._handles = self._env.begin_read(opening, self)
        except lmdb.Error as error:
            raise translated(self._env.path, error) from error

    def names(self) -> list[str]:
        """Return the names of all databases that have rows."""
        return [name for name in sorted(self._handles) if self.count(name)]

    def moments(self) -> Sequence[Moment]:
        """Return this snapshot with its commit number."""
        self._opening.check_process()
        with self._lock:
            return (Moment(self, self._live().id(), self._env.databases.watches),)

    def is_newest(self) -> bool:
        """Return True if the store has no later commit, and no change of the map waits for this snapshot."""
        self._opening.check()
        with self._lock:
            number = self._live().id()
            return not self._env.held and self._env.env.info()["last_txnid"] == number

    def pages(self) -> Pages:
        """Return its pages, to be walked without LMDB while it is open.

        Raise TooOld if later commits overwrote its meta page.
        """
        self._opening.check_process()
        with self._lock:
            return Pages(self._env.path, self._live().id())

    @property
    def awaited(self) -> bool:
        """Return whether a change of the map waits for the end of all snapshots."""
        return self._env.held

    def copy_to(self, descriptor: int) -> None:
        """Write a data file with the rows of this snapshot and without free pages.

        Other snapshots continue meanwhile.
        """
        self._opening.check_process()
        with self._lock:
            txn = self._live()
            self._env.env.copyfd(descriptor, compact=True, txn=txn)

    def used(self) -> int:
        """Return the bytes of the pages that its rows take."""
        self._opening.check_process()
        with self._lock:
            txn = self._live()
            own = self._env.env.stat()
            pages = 2 * own["psize"]
            for stat in (own, *(txn.stat(handle) for handle in self._handles.values())):
                pages += stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
            return pages

    def _live(self) -> lmdb.Transaction[memoryview]:
        read = self._read
        if read is None:
            self._opening.check()
            raise Closed(self._what)
        return read.txn

    def _lent(self, value: memoryview) -> memoryview:
        """Return the row as an array that holds the read transaction, and thereby its pages, as long as a reference
        exists.
        """
        lent = _Lent(len(value), np.uint8, value)
        lent.read = self._read
        return lent.data

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        """Yield copies of the rows. Several are copied under one lock."""
        rows: Iterator[Row] | None = None
        some: list[Row] = []
        ends = False
        while not ends:
            self._opening.check_process()
            with self._lock:
                txn = self._live()
                try:
                    if rows is None:
                        handle = self._handle(db)
                        if handle is None:
                            return
                        rows = (down if reverse else up)(txn.cursor(handle), start, stop)
                    some, ends = _some(rows, _AT_ONCE if some else 1)
                except lmdb.Error as error:
                    raise self._meant(error) from error
            for row in some:
                if self._read is None:
                    self._live()
                yield row

    def close(self) -> None:
        """Release the rows after other threads have read.

        A second call does nothing, nor does a call in a forked child.
        """
        if self._read is not None and self._env.pid == os.getpid():
            with self._lock:
                self._cursors.clear()
                self._read = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _Lent(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a row in the map, without a copy."""

    __slots__ = ("read",)
    read: ReadTransaction | None


def _some(rows: Iterator[Row], most: int) -> tuple[list[Row], bool]:
    """Return the next rows, limited by number and bytes, and whether they are the last."""
    some: list[Row] = []
    room = _BYTES_AT_ONCE
    for row in islice(rows, most):
        some.append(row)
        room -= len(row[1])
        if room < 0:
            return some, False
    return some, len(some) < most


def up(cursor: lmdb.Cursor[memoryview], start: bytes, stop: bytes | None) -> Iterator[Row]:
    """Yield copies of the rows of a range, the first one first."""
    if not (cursor.set_range(start) if start else cursor.first()):
        return
    for key, value in cursor.iternext():
        own = bytes(key)
        if stop is not None and own >= stop:
            return
        yield own, bytes(value)


def down(cursor: lmdb.Cursor[memoryview], start: bytes, stop: bytes | None) -> Iterator[Row]:
    """Yield copies of the rows of a range, the last one first."""
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
