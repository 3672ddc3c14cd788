"""The protocol between `Engine` and its store.

`Engine` checks the state and the arguments of a call, waits for the puts before it, and hands it to its store. A store
consists of one folder, or of several partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from penstock.cache import Tell
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    FeedRequest,
    OpenState,
    Resume,
    Scrubbing,
    ScrubResult,
    Snapshot,
)
from penstock.flow import AsideRecord, Watermark
from penstock.generations import Refilled
from penstock.partitions import Copied
from penstock.recovery import PostedValue, QuarantineRetries, Site
from penstock.remote import Operation
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Changes, Counts, Migrated, Progress, Stream

__all__ = ["Building", "EngineStore", "Repost"]

Repost = Callable[[Mapping[str, Sequence[PostedValue]]], object]
"""Repairs views by values of tables, before the batch that names these values is taken."""


class Building(Protocol):
    """The building of views whose definitions changed."""

    def begin(self) -> None:
        """Build the rest in the background, if there is any."""
        ...

    def stop(self) -> None:
        """End the thread that builds."""
        ...

    def settle(self) -> None:
        """Build the rest now, so that the next call concerns one generation only."""
        ...

    def migrate(self, progress: Progress | None) -> Migrated:
        """Build the rest now, and report the views that were built since the store was opened."""
        ...


class EngineStore(Protocol):
    """An open store, behind an engine that has checked the call."""

    @property
    def state(self) -> OpenState:
        """Its process, its lock and its end."""
        ...

    @property
    def operations(self) -> Mapping[str, Operation[Any]]:
        """The operations that its engine performs for other processes, by name."""
        ...

    @property
    def building(self) -> Building:
        """The building of its views."""
        ...

    # -- writing

    def write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """Commit batches of tables, and offsets of sources. An `atomic` batch is in at all partitions or at none."""
        ...

    def tried(self, tables: dict[str, list[Batch]]) -> Counts:
        """Return the counts that a write would have, and store nothing."""
        ...

    def write_rest(self, tables: dict[str, list[Batch]], source: str, resume: Resume, strict: bool) -> Counts:
        """Commit the records of a source that are not stored, with the offset after them; others count as late."""
        ...

    def write_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        """Commit batches of several puts; the counts of each by its identity."""
        ...

    def put_many(self, table: str, docs: Any, batch: int | None, strict: bool) -> Counts:
        """Put documents in batches."""
        ...

    def ingest(self, records: Sequence[Record], source: str, resume: int, repost: Repost) -> Counts:
        """Take records of a source, and the offset after them."""
        ...

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None, repost: Repost
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Put batches of a spout, each with the offset after it; yield its counts once durable."""
        ...

    def advance(self, stream: str, source: str, low: int) -> None:
        """Set the watermark of a source partition of a stream, in microseconds since 1970."""
        ...

    def rest(self, sources: Sequence[str], ended: bool) -> None:
        """Note that nothing is left to read from source partitions of streams."""
        ...

    def tick(self) -> None:
        """Let the streams see the clock."""
        ...

    def settle(self) -> None:
        """Wait until everything that was committed shows in every view."""
        ...

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """Make a snapshot of all views and tables."""
        ...

    def settled(self) -> Snapshot:
        """Make a snapshot with nothing in flight between partitions."""
        ...

    def follow(self, request: FeedRequest) -> Iterator[Changes]:
        """Iterate over the changes of a request."""
        ...

    def watermarks(self, streams: Sequence[Stream]) -> list[Watermark]:
        """Return the watermarks of these streams."""
        ...

    def late(self, view: str, stream: Stream) -> Iterator[AsideRecord]:
        """Yield the late records that a view set aside."""
        ...

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset of a source, and its spout state."""
        ...

    def status(self) -> dict[str, Any]:
        """Describe tables, views, position, sources and sizes as data."""
        ...

    # -- definitions

    def begin_refill(self, tables: Sequence[str]) -> int:
        """Begin to refill tables. Return the seed that the other store must have."""
        ...

    def refill(self, path: str, progress: Tell | None) -> Refilled:
        """Replace the content of the tables of a refill with that of another store."""
        ...

    # -- upkeep and repairs

    def naming(self) -> AbstractContextManager[None]:
        """Name damage that is found within by views, tables and keys."""
        ...

    def site(self) -> Site:
        """Make the site of one repair."""
        ...

    def releases(self, progress: Progress | None) -> QuarantineRetries:
        """Make one retry or drop of quarantined entries."""
        ...

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Free the space of old versions."""
        ...

    def copy(self, path: str, folder: str, progress: Tell | None) -> Copied:
        """Copy the store at `path` into a folder."""
        ...

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Scrub the store at intervals in the background."""
        ...

    def last_scrub(self) -> ScrubResult | None:
        """Return the result of the last scrub."""
        ...

    def scrub(self, progress: Progress | None) -> None:
        """Walk all pages now."""
        ...

    # -- its end

    def stop(self) -> None:
        """End the threads that work for it in the background."""
        ...

    def close(self) -> None:
        """Commit the rest and release everything. It closes once."""
        ...
