"""Write LMDB in transactions. `lmdb_store` chooses whether a commit is synced to the disk.

Invariants:

- a database is emptied, never dropped, while other code may read it;
- a transaction with a failed change never commits, and a transaction that does not reach its end is undone;
- if the map can grow, a transaction records its changes and repeats them in the larger map.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Self

import lmdb

from penstock.cache.errors import Closed, PenstockError, StoreDamaged
from penstock.cache.lmdb.address_space import LARGEST
from penstock.cache.lmdb.lmdb_databases import Handles
from penstock.cache.lmdb.lmdb_environment import Opening
from penstock.cache.lmdb.lmdb_errors import translated
from penstock.cache.lmdb.read_snapshot import LmdbRows, Row, down, up
from penstock.cache.store.key_digests import DIGESTS, Digest, DigestChanges, digest_of
from penstock.cache.store.protocol import META

__all__ = ["LmdbWriter"]


_FEW = 8  # up to so many rows, looking for new keys is faster than counting


class LmdbWriter(LmdbRows):
    """A transaction on the store on disk."""

    _what = "the transaction"
    _txn: lmdb.Transaction[memoryview] | None = None  # an interrupt may end `__init__` anywhere, and `__del__` closes
    _owns = False

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._thread = threading.get_ident()
        self._made: Handles = {}
        self._changes = 0
        self._failed = False
        self._journal: list[Callable[[], None]] | None = None if self._env.map_size >= LARGEST else []
        self._changed: dict[str, list[bytes] | None] = {db: [] for db in self._env.databases.watches.names()}
        if self._env.writing == self._thread:
            raise PenstockError(f"a transaction on {self._env.path} is open in this thread; end it before the next one")
        try:
            self._env.enter_write(opening)
        finally:  # an interruption may come after the lock was taken, and `close` releases it
            self._owns = self._env.writing == self._thread
        self._begin()

    def _begin(self) -> None:
        try:
            self._txn = self._env.begin_write()
        except lmdb.Error as error:
            self.close()
            raise translated(self._env.path, error) from error
        self._handles = self._env.databases.handles
        self._tally = DigestChanges(self._env.databases.digests)

    def put_many(self, db: str, items: Sequence[Row], append: bool = False, new: Sequence[bytes] | None = None) -> None:
        """Put rows, which replace the rows of the same keys. Key order is the fastest."""
        self._live()
        if items:
            if db in self._changed:
                self._add_changed(db, [key for key, _ in items])
            self._do(partial(self._put, db, items, append, new))

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete the rows of these keys. Keys without a row are ignored."""
        self._live()
        if keys and self._handle(db) is not None:
            if db in self._changed:
                self._add_changed(db, keys)
            self._do(partial(self._delete, db, keys))

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        self._live()
        if self._handle(db) is not None:
            if db in self._changed:
                self._changed[db] = None
            self._do(partial(self._empty, db))

    def lost_rows(self, db: str) -> bool:
        """Compare all keys of a database with its digest.

        Return True if they differ, and False if no whole digest exists.
        """
        txn, handle, digest = self._live(), self._handle(db), self._tally.digest(db)
        if handle is None or not digest.whole:
            return False
        try:
            return not digest.like(digest_of([bytes(key) for key in txn.cursor(handle).iternext(values=False)]))
        except lmdb.Error as error:
            raise self._meant(error) from error

    @property
    def counted(self) -> bool:
        """Return whether digests existed before this transaction."""
        return self._env.databases.digests is not None

    @property
    def empty(self) -> bool:
        """Return whether no database has rows."""
        return not any(self.count(db) for db in (*self._handles, *self._made))

    def complete(self, digests: Mapping[str, Digest]) -> None:
        """Add a check's corrections to the digests of databases."""
        self._live()
        self._do(partial(self._complete, digests))

    def complete_uncounted(self, digests: Mapping[str, Digest]) -> None:
        """Complete the digests that are not whole yet. A database that was emptied since the walk is whole already."""
        known = self._env.databases.digests
        before = {} if known is None else known.by_db
        self.complete({db: own for db, own in digests.items() if db not in before or not before[db].whole})

    def _add_changed(self, db: str, keys: Sequence[bytes]) -> None:
        """Record changed keys of a watched database."""
        changed = self._changed[db]
        if changed is not None:
            changed += keys

    def _put(self, db: str, items: Sequence[Row], append: bool, new: Sequence[bytes] | None) -> None:
        txn = self._txn
        assert txn is not None, "a change is made within a transaction"
        cursor = self._cursor(txn, db)
        if cursor is None:
            self._made[db] = self._env.env.open_db(db.encode(), txn=txn)
            cursor = self._cursors[db] = txn.cursor(self._made[db])
        if db not in self._tally.known:
            self._know(txn, db)
        rows: int | None = None
        fresh: Collection[bytes]
        if append:
            fresh = [key for key, _ in items]
        elif new is None or len(items) <= _FEW:
            fresh = _new_keys(cursor, items)
        else:
            fresh, rows = new, txn.stat(self._handle(db))["entries"] + len(new)
        _, put = cursor.putmulti(items, append=append)
        if put != len(items):  # LMDB silently skips a row that is out of order
            raise PenstockError(f"rows appended to {db} out of order; sort them, or put them without append=True")
        if rows is not None and rows != txn.stat(self._handle(db))["entries"]:
            raise StoreDamaged(f"{db}, rows that were there are lost")
        if fresh:
            self._tally.add(db, fresh)

    def _delete(self, db: str, keys: Sequence[bytes]) -> None:
        txn = self._live()
        if db not in self._tally.known:
            self._know(txn, db)
        delete, handle = txn.delete, self._handle(db)
        gone = [key for key in keys if delete(key, b"", handle)]
        if gone:
            self._tally.remove(db, gone)

    def _empty(self, db: str) -> None:
        handle = self._handle(db)
        if handle is not None:
            self._live().drop(handle, delete=False)
            self._tally.clear(db)

    def _complete(self, digests: Mapping[str, Digest]) -> None:
        for db, digest in digests.items():
            self._tally.complete(db, digest)

    def _know(self, txn: lmdb.Transaction[memoryview], db: str) -> None:
        """Start the digest of a database. The rows of `meta` are counted now, other rows only by a check."""
        handle = self._handle(db)
        rows = txn.stat(handle)["entries"]
        if db == META and rows:
            self._tally.begin(db, digest_of([bytes(key) for key in txn.cursor(handle).iternext(values=False)]))
        else:
            self._tally.begin(db, Digest(whole=not rows))

    def _do(self, change: Callable[[], None]) -> None:
        """Make one change. If it fails part way, the transaction fails."""
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
        """Make a change. If the map is full, repeat all changes so far in a larger map."""
        try:
            act()
            return
        except lmdb.MapFullError:
            if self._journal is None:
                raise
            again = self._journal if act in self._journal else [*self._journal, act]
        while True:
            self._restart()
            try:
                for change in again:
                    change()
                return
            except lmdb.MapFullError:
                continue

    def _restart(self) -> None:
        if self._txn is not None:
            self._txn.abort()
        self._txn = None
        self._cursors.clear()
        self._made = {}
        self._env.grow()
        self._begin()

    def _walk(self, db: str, start: bytes, stop: bytes | None, reverse: bool) -> Iterator[Row]:
        """Yield rows. After a write, continue from the last row."""
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
        row = self._tally.row()
        cursor = None if row is None else self._cursor(txn, META)  # fast: other rows of `meta` were put just now
        if row is not None and cursor is not None:
            cursor.put(DIGESTS, row)
        self._cursors.clear()
        number = txn.id()
        self._env.commit(txn, self._made, None if row is None else self._tally.committed)
        if self._changed and self._env.env.info()["last_txnid"] == number:  # without a change it has no number
            self._env.databases.watches.committed(number, self._changed)

    def close(self) -> None:
        """Undo the transaction if it was not committed.

        A second call does nothing, nor does a call in a forked child.
        """
        txn, self._txn = self._txn, None
        if not self._owns or self._env.pid != os.getpid():
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


def _new_keys(cursor: lmdb.Cursor[memoryview], items: Sequence[Row]) -> Collection[bytes]:
    """Return the keys of these rows that have no row yet."""
    if len(items) == 1:
        key = items[0][0]
        return () if cursor.set_key(key) else (key,)
    if len(items) <= _FEW:
        fresh = [key for key, _ in items if not cursor.set_key(key)]
        return set(fresh) if fresh else fresh
    keys = {key for key, _ in items}
    found = cursor.getmulti([key for key, _ in items])
    return keys if not found else keys.difference([bytes(key) for key, _ in found])
