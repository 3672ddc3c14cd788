"""A store that is not partitioned: one core, whose writer is behind one lock.

Invariant: a batch is decided, written and synced under the lock. Snapshots take no lock and never wait for the writer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from penstock.cache import BatchRejected, Tell, Writer, WriterLock
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    Core,
    FairLock,
    FeedRequest,
    OpenState,
    Resume,
    Scrubbing,
    ScrubResult,
    Snapshot,
    batches_of,
    check_fence,
    compact,
    counts_of,
    delivered,
    follow,
    helped,
    joined_records,
    must_be_known,
    offsets_of,
    rejects_in,
)
from penstock.engine.calls.envelopes import envelopes_of, ingested, reposts_of
from penstock.engine.calls.protocol import Repost
from penstock.engine.calls.store_building import StoreBuilding
from penstock.engine.calls.store_refill import StoreRefill
from penstock.engine.calls.store_scrubs import StoreScrubs
from penstock.engine.clock_thread import ClockThread
from penstock.engine.store_status import status_of
from penstock.flow import AsideRecord, Clock, SystemClock, Watermark, read_late, read_watermarks
from penstock.generations import Refilled
from penstock.mapreduce import Writes
from penstock.partitions import ALL_OPERATIONS, Copied, after, copy_of
from penstock.recovery import OneSite, OneStoreRetries, Restatement
from penstock.remote import Operation
from penstock.spout import Record, Remembered, SourceMoved, SpoutBatch
from penstock.views import Changes, Counts, Progress, Stream

__all__ = ["UnpartitionedStore"]


class UnpartitionedStore:
    """An open store of one core; `owner` is its folder's lock, which closes with it."""

    def __init__(self, core: Core, path: str | None, owner: WriterLock | None, readonly: bool) -> None:
        self.core = core
        self.state = OpenState(core.app, path, readonly)
        self.building = StoreBuilding(core, self.state)
        self.scrubs = StoreScrubs(core, self.state)
        self._refill = StoreRefill(core, self.state)
        self._owner = owner
        self._clock: ClockThread | None = None

    def __str__(self) -> str:
        return f"{self.core.app.name!r} at {self.state.path or 'memory'}"

    @property
    def operations(self) -> Mapping[str, Operation[Any]]:
        """The operations for other processes; the store may be a partition."""
        return ALL_OPERATIONS

    @property
    def lock(self) -> FairLock:
        """The lock before its writer."""
        return self.state.lock

    # -- writing

    def write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """Commit batches of tables, and offsets of sources, in one transaction."""
        return self.write_each(tables, sources, strict)[0]

    def write_each(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, dry: Writes | None = None
    ) -> tuple[Counts, dict[int, Counts]]:
        """Commit batches in one transaction; the counts of all, and of each by its identity."""
        joined = {name: joined_records(parts) for name, parts in tables.items()}
        for stream in self.core.app.streams():
            if stream.name in joined:
                joined[stream.name].offset = offsets_of(tables[stream.name])
        with self.state.lock:
            self.state.must_be_open()
            meters = self.state.meters
            began = meters.clock()
            done = self.core.commit(joined, sources, strict, lambda reports: rejects_in(tables, reports), dry)
            total, each = counts_of(tables, done)
            if dry is None and not (strict and total.rejected):
                meters.add(began, [tables], each)
        return total, each

    def tried(self, tables: dict[str, list[Batch]]) -> Counts:
        """Return the counts that a write would have, and store nothing."""
        return self.write_each(tables, None, False, dry=Writes())[0]

    def write_rest(self, tables: dict[str, list[Batch]], source: str, resume: Resume, strict: bool) -> Counts:
        """Commit the records of a source that are not stored, with the offset after them; others count as late."""
        with self.state.lock:
            self.core.ready()
            done = self.core.state.sources.get(source, 0)
            left = {name: [after(part, done) for part in parts] for name, parts in tables.items()}
            late = sum(a.size - b.size for name in tables for a, b in zip(tables[name], left[name], strict=True))
            counts = self.write(left, {source: replace(resume, rests=True)}, strict)
            if strict and counts.rejected:
                raise BatchRejected(0, counts.rejections)
            self.state.meters.redelivered += late
            return counts + Counts(late=late)

    def write_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        """Commit batches of several puts in one transaction; the counts of each by its identity."""
        tables: dict[str, list[Batch]] = {}
        for name, part in work:
            tables.setdefault(name, []).append(part)
        return self.write_each(tables, None, False)[1]

    def put_many(self, table: str, docs: Any, batch: int | None, strict: bool) -> Counts:
        """Put documents, each batch in a transaction of its own."""
        parts = batches_of(docs, batch)
        total = Counts()
        with helped(parts, docs, self.core.tables[table]) as coming:
            for part in coming:
                counts = self.write({table: [part]}, None, strict)
                if strict and counts.rejected:
                    raise BatchRejected(total.applied + total.equal, counts.rejections)
                total += counts
                del part  # so that no more than two batches are in memory while the next one is gathered
        return total

    def ingest(self, records: Sequence[Record], source: str, resume: int, repost: Repost) -> Counts:
        """Take records of a source and the offset after them in one transaction, after the reposts among them."""
        values = reposts_of(self.core.app, records, self.core.state.sources.get(source, 0), resume)
        if values:
            repost(values)
        with self.state.lock:
            self.core.ready()
            done = self.core.state.sources.get(source, 0)
            tables, counts = ingested(self.core.app, records, source, done, resume)
            self.state.meters.redelivered += counts.late
            return self.write(tables, {source: Resume(resume, rests=True)}, False) + counts

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None, repost: Repost
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, each with the offset after it in one transaction."""
        coming: deque[SpoutBatch] = deque()

        def parts() -> Iterator[Batch]:
            for batch in batches:
                coming.append(batch)
                yield delivered(batch, self.core.app.input_of(table))

        with helped(parts(), long, self.core.tables[table]) as ahead:
            for part in ahead:
                batch = coming.popleft()
                yield batch, self._load(table, batch, part, repost)
                del batch, part  # free the memory: only the batches read ahead stay in it

    def _load(self, table: str, batch: SpoutBatch, part: Batch, repost: Repost) -> Counts:
        if not batch.envelope:
            return self._load_tables(batch, {table: [part]}, part.size)
        found = envelopes_of(self.core.app, table, part)
        if found.values and batch.start == self.core.state.sources.get(batch.source or "", batch.start):
            repost(found.values)
        size = part.size
        counts = self._load_tables(batch, found.tables, size)
        return counts if counts.late == size else counts + Counts(equal=found.reposts)

    def _load_tables(self, batch: SpoutBatch, tables: dict[str, list[Batch]], size: int) -> Counts:
        if batch.source is None:
            return self.write(tables, None, False)
        with self.state.lock:
            self.core.ready()
            done = self.core.state.sources.get(batch.source, 0)
            if batch.fenced:
                check_fence(batch, self.remembered(batch.source))
            if batch.start != done and not batch.again:
                if batch.resume <= done:
                    self.state.meters.redelivered += size
                    return Counts(late=size)
                raise SourceMoved(batch.source, batch.start, done)
            resume = Resume(batch.resume, batch.note, batch.again)
            return self.write(tables, {batch.source: resume}, False)

    def advance(self, stream: str, source: str, low: int) -> None:
        """Set the watermark of a source partition of a stream, in microseconds since 1970."""
        with self.state.lock:
            self.state.must_be_open()
            marks = self.core.watermarks

            def state_low(_: Writer, writes: Writes) -> None:
                marks.begin(source, True, writes)
                marks.state_low(stream, source, low, writes)

            self.core.amend(state_low)

    def rest(self, sources: Sequence[str], ended: bool) -> None:
        """Note that nothing is left to read from source partitions of streams."""
        with self.state.lock:
            self.state.must_be_open()
            marks = self.core.watermarks

            def rest(_: Writer, writes: Writes) -> None:
                marks.begin(None, False, writes)
                marks.rest(sources, ended, writes)

            self.core.amend(rest)

    def tick(self) -> None:
        """Let the streams see the clock."""
        with self.state.lock:
            self.state.must_be_open()
            marks = self.core.watermarks
            self.core.amend(lambda _, writes: marks.begin(None, False, writes))
            marks.wake()

    def begin_clock(self, clock: Clock) -> None:
        """Start the thread that lets streams see the clock of this machine, if one of them has idle=."""
        if isinstance(clock, SystemClock) and any(stream.idle is not None for stream in self.core.app.streams()):
            self._clock = ClockThread(self, clock)

    def settle(self) -> None:
        """Return at once: a batch shows in every view as soon as it is committed."""

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """Make a snapshot of all views and tables. Both kinds of consistency are the same here."""
        self.state.must_be_open()
        must_be_known(consistency)
        return Snapshot(self.core)

    def settled(self) -> Snapshot:
        """Make a snapshot: nothing is ever in flight."""
        return self.snapshot()

    def watermarks(self, streams: Sequence[Stream]) -> list[Watermark]:
        """Return the watermarks of these streams."""
        with self.snapshot() as snap, snap.naming():
            row, offsets = read_watermarks(snap.reader()), snap.sources
            known = [stream for stream in streams if stream.name in snap.schema.streams]
            return [self.core.watermarks.report(row, stream, offsets) for stream in known]

    def late(self, view: str, stream: Stream) -> Iterator[AsideRecord]:
        """Yield the late records that a view set aside."""
        with self.snapshot() as snap, snap.naming():
            node = snap.schema.view(view, snap.reader())
            yield from read_late(snap.reader(), stream, view, node.number)

    def follow(self, request: FeedRequest) -> Iterator[Changes]:
        """Iterate over the changes of a request."""
        return follow(self.core, request, self.state.rest, lambda: not self.state.closed)

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset of a source, and its spout state."""
        with self.snapshot() as snap:
            return snap.remembered(source)

    def status(self) -> dict[str, Any]:
        """Describe tables, views, position, sources and sizes as data."""
        with self.snapshot() as snap, snap.naming():
            return status_of([self.core], snap, self.state, self.core.trouble)

    # -- definitions

    def begin_refill(self, tables: Sequence[str]) -> int:
        """Begin to refill tables; the seed that the other store must have."""
        return self._refill.begin(tables)

    def refill(self, path: str, progress: Tell | None) -> Refilled:
        """Replace the content of the tables of a refill with that of another store."""
        return self._refill.run(path, progress)

    # -- upkeep and repairs

    def naming(self) -> AbstractContextManager[None]:
        """Name damage that is found within by views, tables and keys."""
        return self.core.naming()

    def site(self) -> OneSite:
        """Make the site of one repair."""
        return OneSite(self.core, self.state.lock, self.state.path)

    def releases(self, progress: Progress | None) -> OneStoreRetries:
        """Make one retry or drop of quarantined entries."""
        return OneStoreRetries(self.core, self.state.lock, self._remake, progress)

    def _remake(self, view: str, groups: Sequence[bytes]) -> None:
        """Compute these groups of a view from their contributions again."""
        with self.state.repairing:
            Restatement(self.site(), None).view(view, groups)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Free the space of old versions, while others write."""
        self.building.settle()
        return compact(self.core, self.state.lock, progress)

    def copy(self, path: str, folder: str, progress: Tell | None) -> Copied:
        """Copy the store at `path` into a folder."""
        return copy_of(path, folder, progress)

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Scrub the store now and then in the background."""
        self.scrubs.begin(scrubbing)

    def last_scrub(self) -> ScrubResult | None:
        """Return the result of the last scrub."""
        return self.scrubs.last_scrub()

    def scrub(self, progress: Progress | None) -> None:
        """Walk all pages now."""
        self.scrubs.scrub_once(progress)

    # -- its end

    def stop(self) -> None:
        """End the threads that scrub and build."""
        self.scrubs.stop()
        self.building.stop()
        if self._clock is not None:
            self._clock.stop()

    def close(self) -> None:
        """Release the core and its folder."""
        self.stop()
        with self.state.lock:
            if self.state.closed:
                return
            self.state.end()
            self.core.close()
            if self._owner is not None:
                self._owner.close()
