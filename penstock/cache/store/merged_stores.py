"""Read several stores as one. Each of them has some of the rows.

Invariants:

- rows of all stores come in the order of their keys. If several stores have a row of one key, a look-up returns the
  first of them, and a scan yields each, in the order of the stores;
- each store is read in its own snapshot. All snapshots show one moment only if no writer commits meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Self

from penstock.cache.store.database_watch import Moment, Watched
from penstock.cache.store.protocol import Reader

__all__ = ["MergedReader"]


class MergedReader:
    """Several snapshots, read as one.

    >>> from penstock.cache import MemoryStore
    >>> stores = MemoryStore(), MemoryStore()
    >>> for store, name in zip(stores, (b"Sue", b"Joe"), strict=True):
    ...     with store.write() as txn:
    ...         txn.put_many("rows", [(name, b"1")])
    >>> with MergedReader([store.read() for store in stores]) as snap:
    ...     [key for key, _ in snap.scan("rows")], snap.count("rows"), snap.get_many("rows", [b"Sue", b"Bob"])
    ([b'Joe', b'Sue'], 2, [b'1', None])
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = tuple(readers)

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order.

        Each store is asked only for keys that no earlier store had.
        """
        out: list[bytes | None] = [None] * len(keys)
        left = list(range(len(keys)))
        for reader in self._readers:
            found = reader.get_many(db, [keys[i] for i in left])
            for i, row in zip(left, found, strict=True):
                out[i] = row
            left = [i for i in left if out[i] is None]
            if not left:
                break
        return out

    def scan(
        self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from `start` on and before `stop`. With `reverse` the last row comes first."""
        scans = [reader.scan(db, start, stop, reverse) for reader in self._readers if reader.count(db)]
        return scans[0] if len(scans) == 1 else heapq.merge(*scans, key=itemgetter(0), reverse=reverse)

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None."""
        found = [own for own in (reader.floor(db, key) for reader in self._readers) if own is not None]
        return max(found, key=itemgetter(0), default=None)

    def count(self, db: str) -> int:
        """Return the number of rows in all stores."""
        return sum(reader.count(db) for reader in self._readers)

    def is_newest(self) -> bool:
        """Return True if no store has a later commit."""
        return all(reader.is_newest() for reader in self._readers)

    def moments(self) -> Sequence[Moment]:
        """Return the snapshots of all stores, or none if one store has no watches."""
        parts = [reader.moments() if isinstance(reader, Watched) else () for reader in self._readers]
        return [moment for part in parts for moment in part] if all(parts) else ()

    def close(self) -> None:
        """Close all snapshots."""
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None:
        self.close()
