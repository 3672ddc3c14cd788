"""The store: named databases of sorted rows, read in snapshots and written in transactions.

What LMDB and memory have in common, and all that the rooms above may use of either. Invariants:

- a snapshot sees the commits before it and nothing after, however long it is held;
- a transaction commits whole or leaves nothing; there is one at a time, and it sees its own writes;
- a database that does not exist reads as empty and is made by the first row put into it;
- a key has 1 to 511 bytes, a value any number; rows are in the order of their keys as bytes.

A snapshot serves one thread at a time, a transaction the thread that began it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self, TypedDict

__all__ = ["MAX_KEY", "META", "Info", "Reader", "Store", "Writer"]

META = "meta"
"""The database of what a store says of itself."""

MAX_KEY = 511
"""Bytes in the longest key."""


class Info(TypedDict):
    """What a store says of itself."""

    path: str | None
    """Where it is; None in memory."""
    bytes: int
    """What its rows and their pages take, free pages included."""
    used: int
    """What its rows take, without free pages."""
    map_size: int
    """How far it may grow before its map must; 0 where there is no map."""
    readers: int
    """Snapshots open, in all processes; for LMDB the most there were at once since its first process opened it."""


class Reader(Protocol):
    """One snapshot, until it is closed. As a context manager it closes itself.

    with store.read() as snap:
        row, absent = snap.get_many("rows", [b"Joe", b"nobody"])
    """

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, in their order; None where there is no such row."""
        ...

    def scan(
        self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The rows from `start` on and before `stop`, last one first under `reverse`.

        A scan of a transaction goes on from the row it gave last: it meets what was put ahead of it meanwhile.
        """
        ...

    def floor(self, db: str, key: bytes) -> tuple[bytes, memoryview] | None:
        """The last row at or before a key, its value not copied: to be read before anything is written or closed."""
        ...

    def count(self, db: str) -> int:
        """The number of rows, without going through what is committed."""
        ...

    def close(self) -> None:
        """Let go of it: of a snapshot's rows, or of a transaction undone. Closing twice is nothing."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None: ...


class Writer(Reader, Protocol):
    """One transaction. It is a context manager: it commits at the end of its block, and an exception undoes it.

    with store.write() as txn:
        txn.put_many("rows", [(b"Joe", b"1"), (b"Sue", b"2")])
    """

    def put_many(
        self, db: str, items: Sequence[tuple[bytes, bytes]], append: bool = False, new: Sequence[bytes] | None = None
    ) -> None:
        """Put rows over those with the same keys; fastest in key order.

        `append`: the keys ascend and come after all that are there, which makes full pages; if not, the call fails.
        `new`: the keys that have no row yet, where the caller knows them; a store that finds others fails.
        """
        ...

    def delete_many(self, db: str, keys: Sequence[bytes]) -> None:
        """Delete these rows; keys that have none are passed over."""
        ...

    def clear(self, db: str) -> None:
        """Delete all rows of a database."""
        ...

    def lost_rows(self, db: str) -> bool:
        """Compare all keys of a database with its digest: True where they differ, False without a digest of all."""
        ...


class Store(Protocol):
    """Where rows are kept."""

    def read(self) -> Reader:
        """A snapshot of what is committed."""
        ...

    def write(self) -> Writer:
        """A transaction; waits for the one another thread has."""
        ...

    def info(self) -> Info:
        """Sizes and places, for people."""
        ...

    def trim(self) -> None:
        """Give back memory that only makes later reads faster."""
        ...

    def close(self) -> None:
        """End it: snapshots and transactions still open are closed to use."""
        ...
