"""The protocol of a store: named databases of sorted rows, read in snapshots and written in transactions.

LMDB and the store in memory implement it. The rooms above use nothing else of either. Invariants:

- a snapshot sees all commits before it and none after it, however long it stays open;
- a transaction commits completely or not at all. There is one at a time, and it sees its own writes;
- a database that does not exist reads as empty. The first row put into it creates it;
- a key has 1 to 511 bytes, a value any number. Rows are in the order of their keys as bytes.

A snapshot serves one thread at a time. A transaction serves only the thread that began it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self, TypedDict

__all__ = ["MAX_KEY", "META", "Info", "Reader", "Store", "Writer"]

META = "meta"
"""The database of the store's own metadata."""

MAX_KEY = 511
"""Bytes in the longest key."""


class Info(TypedDict):
    """Sizes and paths of a store."""

    path: str | None
    """The path of the store; None in memory."""
    bytes: int
    """The bytes of rows and their pages, with free pages."""
    used: int
    """The bytes of rows, without free pages."""
    map_size: int
    """The size up to which the file can grow before its map must grow; 0 without a map."""
    readers: int
    """Open snapshots in all processes. For LMDB: the most at one time since the first process opened the store."""


class Reader(Protocol):
    """One snapshot. As a context manager it closes itself.

    with store.read() as snap:
        row, absent = snap.get_many("rows", [b"Joe", b"nobody"])
    """

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys in their order, None for an absent row."""
        ...

    def scan(
        self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from `start` on and before `stop`. With `reverse` the last row comes first.

        A scan in a transaction continues from its last row, so it also yields rows that were put ahead of it meanwhile.
        """
        ...

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """Return the last row at or before a key, or None.

        The value is not copied: read it before the next write or close.
        """
        ...

    def count(self, db: str) -> int:
        """Return the number of rows, without a scan of the committed ones."""
        ...

    def is_newest(self) -> bool:
        """Return True if the store has no later commit, nor needs the end of this snapshot. It takes no lock.

        A commit that was answered before the call counts. A transaction is always the newest.
        """
        ...

    def close(self) -> None:
        """Release a snapshot, or undo an open transaction. A second call does nothing."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None: ...


class Writer(Reader, Protocol):
    """One transaction. As a context manager it commits at the end of its block, and an exception undoes it.

    with store.write() as txn:
        txn.put_many("rows", [(b"Joe", b"1"), (b"Sue", b"2")])
    """

    def put_many(
        self, db: str, items: Sequence[tuple[bytes, bytes]], append: bool = False, new: Sequence[bytes] | None = None
    ) -> None:
        """Put rows, which replace the rows of the same keys. Key order is the fastest.

        `append`: the keys ascend and come after all stored keys, which makes full pages. Otherwise the call fails.
        `new`: the keys that have no row yet, if the caller knows them. A store that finds a row for one of them fails.
        """
        ...

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete the rows of these keys. Keys without a row are ignored."""
        ...

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        ...

    def lost_rows(self, db: str) -> bool:
        """Compare all keys of a database with its digest.

        Return True if they differ, and False if no whole digest exists.
        """
        ...


class Store(Protocol):
    """A place for rows: LMDB or memory."""

    def read(self) -> Reader:
        """Open a snapshot of the committed rows."""
        ...

    def write(self) -> Writer:
        """Begin a transaction. Wait for the transaction of another thread."""
        ...

    def info(self) -> Info:
        """Return sizes and paths for status reports."""
        ...

    def trim(self) -> None:
        """Release memory that only serves to speed up later reads."""
        ...

    def close(self) -> None:
        """Close the store. Snapshots and transactions that are still open can't be used any more."""
        ...
