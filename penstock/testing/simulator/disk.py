"""The simulated store: the protocol of `cache.store.protocol` over memory, with faults.

The fault model
- a transaction is whole or absent, never torn: until its commit returns, nothing of it is there after a crash;
- a commit that returned is durable, as one of a store that syncs. On a disk that is asked not to sync (`synced=False`)
  it is not: a power loss takes any of the commits since the last one that was synced, in any order;
- a fault strikes at every call of a transaction and on both sides of its commit (`faults`). After the commit it is in,
  although whoever committed never heard so;
- a full disk fails a call before the commit, never the commit's word that it is done;
- with its process a store dies: what is left of it refuses every call, so that nothing writes from the grave;
- there is no I/O, no clock and no thread. Bits don't rot: rows have their checksums, and tests of their own.
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
    """What outlives processes: the rows that are committed.

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
        self._safe = MemoryStore()  # where it does not sync: what a power loss leaves at least
        self._unsafe: list[list[_Change]] = []
        self._opened: list[SimStore] = []

    def open(self) -> SimStore:
        """A process opens it."""
        self._opened.append(SimStore(self))
        return self._opened[-1]

    def name_rows(self, named: Mapping[tuple[str, bytes], str]) -> None:
        """Give places of their own to changes of these rows, by (database, key)."""
        self.named = dict(named)

    def end_process(self) -> None:
        """The process is gone, and what it had open; what the system has of its files stays."""
        for store in self._opened:
            store.alive = False
        self._opened.clear()

    def lose_power(self, choose: Random) -> None:
        """The machine is gone: what was not synced stays or goes, each commit for itself."""
        self.end_process()
        if self._synced:
            return
        for changes in self._unsafe:
            if choose.random() < 0.5:
                _apply(self._safe, changes)
        self._unsafe.clear()
        self.rows = _copy(self._safe)

    def sync(self) -> None:
        """All that is committed is durable."""
        for changes in self._unsafe:
            _apply(self._safe, changes)
        self._unsafe.clear()

    def committed(self, changes: list[_Change]) -> None:
        """A transaction with these changes was committed."""
        if not self._synced:
            self._unsafe.append(changes)

    @property
    def logs_changes(self) -> bool:
        """Whether transactions must say what they change."""
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
    """One process's opening of a disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.alive = True

    def read(self) -> Reader:
        """A snapshot of what is committed."""
        self.check()
        return self.disk.rows.read()

    def write(self) -> Writer:
        """A transaction."""
        self.check()
        self.disk.points.reach(f"{self.disk.prefix}begin", may_fail=True)
        return _Transaction(self)

    def info(self) -> Info:
        """Sizes, for people."""
        self.check()
        return self.disk.rows.info()

    def trim(self) -> None:
        """Nothing: all of it is rows."""
        self.check()

    def close(self) -> None:
        """End this opening; the disk stays."""
        self.alive = False

    def check(self) -> None:
        """That its process lives."""
        if not self.alive:
            raise Closed("the store of a process that is gone")


class _Transaction:
    """A transaction that passes a place with each call."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._disk = store.disk
        self._inner: Writer = store.disk.rows.write()
        self._changes: list[_Change] = []
        self._passed: list[str] = []  # named rows that are changed

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        return self._inner.get_many(db, keys)

    def scan(self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Iterator[_Row]:
        """The rows of a range."""
        return self._inner.scan(db, start, stop, reverse)

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """The last row at or before a key."""
        return self._inner.floor(db, key)

    def count(self, db: str) -> int:
        """The number of rows."""
        return self._inner.count(db)

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
        """The items, those with a name each for itself."""
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
        """Undo it, unless it is committed."""
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._inner.close()
