"""The simulated store: the protocol of `cache.store.protocol` over memory, with faults.

The fault model

- A transaction is atomic: after a crash, all of it is there or nothing.
- A commit that returned is durable, as in a store that syncs. With `synced=False` it is not: a power loss drops any of
  the commits since the last sync, each independently of the others.
- A fault strikes at each changing call of a transaction, and on both sides of its commit (`faults`). After the commit
  the transaction is stored, although its caller was never told.
- A full disk fails a call before the commit, never after it.
- A store dies with its process. Every later call is refused, so nothing can be written after the process ended.
- There is no I/O, no clock and no thread. Bits do not rot: the checksums of rows have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Self

from penstock.cache import Closed, Info, MemoryStore, Reader, Writer
from penstock.testing.simulator.faults import AFTER, AT, BEFORE, Points

_Row = tuple[bytes, bytes]
_Named = tuple[str, bytes]
_Change = Callable[[Writer], None]


class Disk:
    """The committed rows, which outlive processes.

    >>> disk = Disk(Points())
    >>> store = disk.open()
    >>> with store.write() as txn:
    ...     txn.put_many("rows", [(b"Joe", b"1")])
    >>> disk.end_process()
    >>> with disk.open().read() as snap:
    ...     snap.get_many("rows", [b"Joe"])
    [b'1']
    """

    def __init__(self, points: Points, prefix: str = "", synced: bool = True) -> None:
        self.points = points
        self.prefix = prefix
        self.named: Mapping[_Named, str] = {}
        self.rows = MemoryStore()
        self._synced = synced
        self._safe = MemoryStore()  # without syncs, the rows that survive every power loss
        self._unsafe: list[list[_Change]] = []
        self._opened: list[SimStore] = []

    def open(self) -> SimStore:
        """Open the disk for a process."""
        self._opened.append(SimStore(self))
        return self._opened[-1]

    def name_rows(self, named: Mapping[tuple[str, bytes], str]) -> None:
        """Give places of their own to changes of these rows, by (database, key)."""
        self.named = dict(named)

    def end_process(self) -> None:
        """End the process and its open stores. Its files keep every commit, synced or not."""
        for store in self._opened:
            store.alive = False
        self._opened.clear()

    def lose_power(self, choose: Random) -> None:
        """End the process and cut the power. Each unsynced commit is kept or lost, independently of the others."""
        self.end_process()
        if self._synced:
            return
        for changes in self._unsafe:
            if choose.random() < 0.5:
                _apply(self._safe, changes)
        self._unsafe.clear()
        self.rows = _copy(self._safe)

    def sync(self) -> None:
        """Make all commits durable."""
        for changes in self._unsafe:
            _apply(self._safe, changes)
        self._unsafe.clear()

    def committed(self, changes: list[_Change]) -> None:
        """Record the changes of a committed transaction."""
        if not self._synced:
            self._unsafe.append(changes)

    @property
    def logs_changes(self) -> bool:
        """True if transactions must log their changes."""
        return not self._synced


def _apply(store: MemoryStore, changes: list[_Change]) -> None:
    with store.write() as writer:
        for change in changes:
            change(writer)


def _copy(store: MemoryStore) -> MemoryStore:
    out = MemoryStore()
    with store.read() as reader, out.write() as writer:
        for db in store.databases:
            writer.put_many(db, list(reader.scan(db)))
    return out


def _put(db: str, items: list[_Row], append: bool, writer: Writer) -> None:
    writer.put_many(db, items, append)


def _delete(db: str, keys: list[bytes], writer: Writer) -> None:
    writer.delete_many(db, keys)


class SimStore:
    """The disk as opened by one process."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.alive = True

    def read(self) -> Reader:
        """Return a snapshot of the committed rows."""
        self.check()
        return self.disk.rows.read()

    def write(self) -> Writer:
        """Begin a transaction."""
        self.check()
        self.disk.points.reach(f"{self.disk.prefix}begin", may_fail=True)
        return _Transaction(self)

    def info(self) -> Info:
        """Return the sizes of the store, for people."""
        self.check()
        return self.disk.rows.info()

    def trim(self) -> None:
        """Check the process. There is no free space to release, as everything is in memory."""
        self.check()

    def close(self) -> None:
        """Close the store in this process. The disk stays."""
        self.alive = False

    def check(self) -> None:
        """Raise Closed if the process has ended."""
        if not self.alive:
            raise Closed("the store of a process that is gone")


class _Transaction:
    """A transaction that passes a counted place with each change, and around its commit."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._disk = store.disk
        self._inner: Writer = store.disk.rows.write()
        self._changes: list[_Change] = []
        self._passed: list[str] = []  # names of changed rows

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys."""
        return self._inner.get_many(db, keys)

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[_Row]:
        """Return the rows of a range."""
        return self._inner.scan(db, start, stop, reverse)

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key."""
        return self._inner.floor(db, key)

    def count(self, db: str) -> int:
        """Return the number of rows."""
        return self._inner.count(db)

    def is_newest(self) -> bool:
        """Return True: a transaction sees its own writes."""
        return True

    def put_many(
        self, db: str, items: Sequence[_Row], append: bool = False, new: Sequence[bytes] | None = None
    ) -> None:
        """Put rows."""
        for part, name in self._parts(db, items, [key for key, _ in items] if self._disk.named else ()):
            self._change("put", db, name, partial(_put, db, part, append))

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete rows."""
        for part, name in self._parts(db, keys, keys):
            self._change("delete", db, name, partial(_delete, db, part))

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        self._change("clear", db, "", lambda w: w.clear(db))

    def lost_rows(self, db: str) -> bool:
        """Compare the keys of a database with its digest."""
        return self._inner.lost_rows(db)

    def _parts(self, db: str, items: Sequence[Any], keys: Sequence[bytes]) -> Iterator[tuple[list[Any], str]]:
        """Split the items: each item with a named row is a part of its own."""
        named = self._disk.named
        if not named:
            yield list(items), ""
            return
        plain = [item for item, key in zip(items, keys, strict=True) if (db, key) not in named]
        if plain:
            yield plain, ""
        for item, key in zip(items, keys, strict=True):
            if (db, key) in named:
                yield [item], named[db, key]

    def _change(self, call: str, db: str, name: str, change: _Change) -> None:
        points = self._disk.points
        if name:
            points.reach(f"{name} {BEFORE}", may_fail=True)
        else:
            points.reach(f"{self._disk.prefix}{call} {db}", may_fail=True)
        change(self._inner)
        if self._disk.logs_changes:
            self._changes.append(change)
        if name:
            self._passed.append(name)
            points.reach(f"{name} {AT}", may_fail=True)

    def _commit(self) -> None:
        points, prefix = self._disk.points, self._disk.prefix
        self._store.check()
        points.reach(f"{prefix}commit {BEFORE}", may_fail=True)
        self._inner.__exit__(None, None, None)
        self._disk.committed(self._changes)
        points.reach(f"{prefix}commit {AFTER}")
        for name in self._passed:
            points.reach(f"{name} {AFTER}")

    def close(self) -> None:
        """Roll back, unless the transaction is committed."""
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._inner.close()
