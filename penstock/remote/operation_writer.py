"""A writer with one method per operation; `call` performs the operation."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from penstock.cache import BatchRejected, Tell
from penstock.core import Batch, Compacted, Conditions, Progress, WriteResult, batches_of
from penstock.generations import Refilled
from penstock.recovery import Checked, EntryFilter, QuarantineKind, Repaired, Settled
from penstock.remote import operations
from penstock.remote.operations import Operation
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Counts, Migrated

__all__ = ["OperationWriter"]

A = TypeVar("A")


class OperationWriter(ABC):
    """A writer of a store; a subclass decides where to perform the operations."""

    @abstractmethod
    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Perform an operation. Return its answer, after the commit."""

    @abstractmethod
    def close(self) -> None:
        """Release the store, or disconnect from its holder. A second call does nothing."""

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document."""
        batch = Batch(origin="put")
        batch.add(doc, ts)
        return self.take({table: [batch]})

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        batch = Batch(origin="delete")
        batch.delete(key, ts)
        return self.take({table: [batch]})

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts:
        """Put many documents."""
        total = Counts()
        for part in batches_of(docs, batch):
            try:
                total += self.take({table: [part]}, strict)
            except BatchRejected as error:
                raise BatchRejected(total.applied + total.equal, error.rejections) from None
        return total

    def take(self, tables: dict[str, list[Batch]], strict: bool = False, atomic: bool = False) -> Counts:
        """Take batches of several tables as one transaction."""
        return self.call(operations.TAKE, tables=tables, strict=strict, atomic=atomic)

    def write(
        self,
        tables: dict[str, list[Batch]],
        strict: bool = False,
        session: str = "",
        number: int = 0,
        conditions: Conditions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Write batches of several tables if the conditions hold, or as numbered documents of a session."""
        return self.call(
            operations.WRITE,
            tables=tables,
            strict=strict,
            session=session,
            number=number,
            conditions=conditions,
            dry_run=dry_run,
        )

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        return self.call(operations.INGEST, records=list(records), source=source, resume=resume)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take the batches of a spout; yield each with its counts after its commit."""
        for batch in batches:
            yield batch, self.call(operations.LOAD, table=table, batch=batch)

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset and the spout state that the store has for a source."""
        return self.call(operations.REMEMBERED, source=source)

    def settle(self) -> None:
        """Wait until every view shows all earlier records."""
        self.call(operations.SETTLE)

    def advance(self, stream: str, low: Any, source: str = "put") -> None:
        """State that no record of a source partition older than `low` will come."""
        self.call(operations.ADVANCE, stream=stream, low=low, source=source)

    def rest(self, sources: Sequence[str], ended: bool = False) -> None:
        """Report that nothing is left to read from source partitions of streams."""
        self.call(operations.REST, sources=sources, ended=ended)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Free the space of old versions."""
        return self.call(operations.COMPACT, progress)

    def repost_many(self, values: Mapping[str, Sequence[Any]], *, progress: Progress | None = None) -> list[Repaired]:
        """Repost old values of tables. Return the repairs."""
        return self.call(operations.REPOST, progress, values=values)

    def restate(self, name: str, key_or_group: Any = None, *, progress: Progress | None = None) -> list[Repaired]:
        """Restate a view, a group, a table or a document. Return the repairs."""
        return self.call(operations.RESTATE, progress, name=name, key_or_group=key_or_group)

    def check(self, fix: bool = False, *, progress: Progress | None = None) -> Checked:
        """Read all of the store and compare its views with its documents."""
        return self.call(operations.CHECK, progress, fix=fix)

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
        return self.call(operations.RETRY, progress, **EntryFilter.of(ids, kind, table, view, limit).asked())

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
        return self.call(operations.DROP, progress, **EntryFilter.of(ids, kind, table, view, limit).asked())

    def migrate_as(self, wanted: dict[str, dict[str, Any]], progress: Progress | None = None) -> Migrated:
        """Build the rest of the views that changed; the holder must have these definitions."""
        return self.call(operations.MIGRATE, progress, wanted=wanted)

    def begin_refill(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> int:
        """Begin to refill some tables. Return the seed that the other store must have."""
        return self.call(operations.BEGIN_REFILL, tables=tables, wanted=wanted)

    def refill(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Refilled:
        """Refill tables from a store in a folder that the holder can read."""
        return self.call(operations.REFILL, progress, folder=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
