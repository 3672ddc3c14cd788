"""The writer of a store, in this process or another one, and the errors of a holder that gives no answer."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.cache import PenstockError, Tell
from penstock.core import Batch, Compacted, Progress
from penstock.generations import Refilled
from penstock.recovery import Checked, QuarantineKind, Repaired, Settled
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Counts, Migrated

__all__ = ["HolderLost", "HolderSilent", "PendingCounts", "StoreWriter", "post", "split_reposts"]


class HolderSilent(PenstockError):
    """The process that holds the store does not answer.

    >>> print(HolderSilent("state", "process 4711", 10.0))
    the store at state is held by process 4711, which has not answered for 10 s; see whether it is stopped or hangs, \
end it, then run this again
    """

    def __init__(self, path: str, holder: str, seconds: float, done: str = "") -> None:
        super().__init__(path, holder, seconds, done)
        self.path = path
        self.holder = holder
        self.seconds = seconds
        self.done = done

    def __str__(self) -> str:
        known = f" ({self.done})" if self.done else ""
        return (
            f"the store at {self.path} is held by {self.holder}, which has not answered for {self.seconds:g} s{known}; "
            "see whether it is stopped or hangs, end it, then run this again"
        )


class HolderLost(PenstockError):
    """The holder of the store ended before it answered; `done` describes the committed work.

    >>> print(HolderLost("state", "process 4711", "2 records are in, and what it was given last may be too"))
    process 4711, which held the store at state, ended before it answered: 2 records are in, and what it was given \
last may be too; run this again, what is done already changes nothing
    """

    def __init__(self, path: str, holder: str, done: str) -> None:
        super().__init__(path, holder, done)
        self.path = path
        self.holder = holder
        self.done = done

    def __str__(self) -> str:
        return (
            f"{self.holder}, which held the store at {self.path}, ended before it answered: {self.done}; run this "
            "again, what is done already changes nothing"
        )


class PendingCounts(Protocol):
    """The counts of a put under group commit, which come after its commit."""

    def result(self, timeout: float | None = None) -> Counts:
        """Wait for the commit; the counts."""
        ...


class StoreWriter(Protocol):
    """The calls that write a store, which its engine and the writers of other processes have in common."""

    @property
    def holder(self) -> str | None:
        """The process that holds the store, as text; None if this process holds it."""
        ...

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts | PendingCounts:
        """Put one document."""
        ...

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts | PendingCounts:
        """Delete the document with this key."""
        ...

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts | PendingCounts:
        """Put many documents."""
        ...

    def take(self, tables: dict[str, list[Batch]], strict: bool = False, atomic: bool = False) -> Counts:
        """Take batches of several tables as one transaction."""
        ...

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        ...

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take the batches of a spout; yield each with its counts after its commit."""
        ...

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset and the spout state that the store has for a source."""
        ...

    def settle(self) -> None:
        """Wait until every view shows all earlier records."""
        ...

    def advance(self, stream: str, low: Any, source: str = "put") -> None:
        """State that no record of a source partition older than `low` will come."""
        ...

    def rest(self, sources: Sequence[str], ended: bool = False) -> None:
        """Report that nothing is left to read from source partitions of streams; with `ended` none will follow."""
        ...

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back the space of old versions."""
        ...

    def repost_many(self, values: Mapping[str, Sequence[Any]], *, progress: Progress | None = None) -> list[Repaired]:
        """Post old values of tables; the answer has the repairs."""
        ...

    def restate(self, name: str, key_or_group: Any = None, *, progress: Progress | None = None) -> list[Repaired]:
        """Restate a view, a group, a table or a document; the answer has the repairs."""
        ...

    def check(self, fix: bool = False, *, progress: Progress | None = None) -> Checked:
        """Read all of the store and compare its views with its documents."""
        ...

    def retry(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Try entries of the quarantine again."""
        ...

    def drop(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Settled:
        """Drop entries of the quarantine."""
        ...

    def migrate_as(self, wanted: dict[str, dict[str, Any]], progress: Progress | None = None) -> Migrated:
        """Build the rest of the views that changed; the store must have these definitions."""
        ...

    def begin_refill(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> int:
        """Begin to refill some tables; the answer is the seed that the other store must have."""
        ...

    def refill(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Refilled:
        """Take over the tables in a folder, in one transaction."""
        ...

    def close(self) -> None:
        """Let go of the store, or of its holder."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def post(writer: StoreWriter, records: Iterable[Record]) -> Counts:
    """Take records of any tables as one transaction, after the reposts among them; a repost counts as equal."""
    rest, values = split_reposts(records)
    if values:
        writer.repost_many(values)
    tables: dict[str, list[Batch]] = {}
    for record in rest:
        (batch,) = tables.setdefault(record.table, [Batch(unit="record", origin="post")])
        if record.doc is None:
            batch.delete(record.key, record.ts)
        else:
            batch.add(record.doc, record.ts)
    return writer.take(tables, atomic=True) + Counts(equal=sum(map(len, values.values())))


def split_reposts(records: Iterable[Record]) -> tuple[list[Record], dict[str, list[Any]]]:
    """Separate reposts from other records; the values of reposts are by table."""
    rest: list[Record] = []
    values: dict[str, list[Any]] = {}
    for record in records:
        if record.repost:
            values.setdefault(record.table, []).append(record.doc)
        else:
            rest.append(record)
    return rest, values
