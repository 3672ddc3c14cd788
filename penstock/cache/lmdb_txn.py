"""Transactions of LMDB.

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

from penstock.cache.address_space import LARGEST
from penstock.cache.errors import Closed, PenstockError
from penstock.cache.lmdb_env import Handles, Opening
from penstock.cache.lmdb_errors import translated
from penstock.cache.lmdb_snapshot import Row, Rows, down, up

__all__ = ["LmdbWriter"]


class LmdbWriter(Rows):
    """A transaction."""

    _what = "the transaction"

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._txn: lmdb.Transaction[memoryview] | None = None
        self._thread = threading.get_ident()
        self._made: Handles = {}
        self._changes = 0
        self._failed = False
        self._journal: list[Callable[[], None]] | None = None if self._env.map_size >= LARGEST else []
        self._owns = False
        self._env.enter_write(opening)
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

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        """A scan that goes on from its last row when something was written since."""
        while True:
            txn, handle = self._live(), self._handle(db)
            if handle is None:
                return
            seen = self._changes
            row: Row | None = None
            try:
                for row in (down if reverse else up)(txn.cursor(handle), start, stop):
                    yield row
                    if self._changes != seen:
                        break
                else:
                    return
            except lmdb.Error as error:
                raise self._meant(error) from error
            start, stop = (start, row[0]) if reverse else (row[0] + b"\0", stop)

    def _handle(self, db: str) -> lmdb._Database | None:
        return self._handles.get(db) or self._made.get(db)

    def _live(self) -> lmdb.Transaction[memoryview]:
        self._opening.check()
        if self._txn is None:
            raise Closed(self._what)
        if threading.get_ident() != self._thread:
            raise PenstockError("a transaction is used by the thread that began it; begin another one here")
        return self._txn

    def _meant(self, error: lmdb.Error) -> Exception:
        return Closed(self._what) if self._txn is None else super()._meant(error)

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
        self._env.leave_write()

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
