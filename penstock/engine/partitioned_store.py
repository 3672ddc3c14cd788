"""A store of several partitions: its parts read, write, build and refill all partitions by their handles.

Invariant: while a call holds the partitions, no other thread writes, and nothing was in flight when it began.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from penstock.cache import DefinitionError, PenstockError, Tell, WriterLock
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    Core,
    FeedRequest,
    OpenState,
    Resume,
    Scrubbing,
    ScrubResult,
    Snapshot,
    StoreLayout,
    must_be_known,
)
from penstock.engine.calls.protocol import Repost
from penstock.engine.partitioned_reading import PartitionedReading
from penstock.engine.partitioned_refill import PartitionedRefill
from penstock.engine.partitioned_writing import PartitionedWriting
from penstock.flow import AsideRecord, Watermark
from penstock.generations import Refilled
from penstock.partitions import (
    REFUSED,
    Copied,
    PartitionedBuilding,
    PartitionedRetries,
    PartitionedSite,
    PartitionHandle,
    at_rest,
    copy_any,
)
from penstock.remote import OPERATIONS, Operation
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Changed, Changes, Counts, Progress, Stream

__all__ = ["PartitionedStore"]

T = TypeVar("T")
_SCRUB = "each partition scrubs itself; open the store with scrub=, or run `penstock check`"
_UNHELD = (
    "a snapshot with consistency='position' is made by the process that serves the store, which holds its partitions "
    "meanwhile; ask there, or leave consistency= out"
)


def _nothing() -> None:
    """Do nothing: other threads deliver the productions."""


class PartitionedStore:
    """The partitions of an open store, by their handles. A store that is open for reading has no such object.

    `carry` carries productions between handles of this process; None where the partitions do it themselves.
    """

    def __init__(
        self,
        app: App,
        layout: StoreLayout,
        cores: list[Core],
        handles: Sequence[PartitionHandle],
        carry: Callable[[], None] | None,
        path: str | None,
        owner: WriterLock | None,
        changed: Sequence[Changed] = (),
        readonly: bool = False,
    ) -> None:
        self.state = OpenState(app, path, readonly)
        self.reading = PartitionedReading(cores, layout, self.state)
        self.layout, self.ranges = layout, self.reading.ranges
        self.handles = list(handles)
        self.push = carry or _nothing
        """Carries productions that are in flight, if this process does."""
        self._reads_apart = carry is None  # else its cores are those of the handles, and close with them
        self._owner = owner
        self._pool = None if carry or readonly else ThreadPoolExecutor(len(self.handles) + 1, "penstock-parted")
        self.building = PartitionedBuilding(self, self.handles, changed, cores[0].feed.on)
        self.writing = PartitionedWriting(self, self.handles, self.ranges, self.building, self._pool)
        self._refill = PartitionedRefill(self)
        self.push()

    def __str__(self) -> str:
        if self.state.readonly:
            return f"{self.state.app.name!r} at {self.state.path}"
        return f"{self.state.app.name!r} at {self.state.path or 'memory'}, {len(self.handles)} partitions"

    @property
    def operations(self) -> Mapping[str, Operation[Any]]:
        """The operations for other processes."""
        return OPERATIONS

    # -- writing

    def write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """Commit batches of tables, and offsets of sources. An `atomic` batch is in at all partitions or at none."""
        return self.writing.write(tables, sources, strict, atomic)

    def tried(self, tables: dict[str, list[Batch]]) -> Counts:
        """Return the counts that a write would have, and store nothing."""
        return self.writing.tried(tables)

    def write_rest(self, tables: dict[str, list[Batch]], source: str, resume: Resume, strict: bool) -> Counts:
        """Commit the records of a source that their partitions don't have, and the offset after them everywhere."""
        return self.writing.write_rest(tables, source, resume, strict)

    def write_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        """Commit batches of several puts; the counts of each by its identity."""
        return self.writing.write_group(work)

    def put_many(self, table: str, docs: Any, batch: int | None, strict: bool) -> Counts:
        """Put documents. Each partition commits its part of a batch in one transaction."""
        return self.writing.put_many(table, docs, batch, strict)

    def ingest(self, records: Sequence[Record], source: str, resume: int, repost: Repost) -> Counts:
        """Take records of a source, and the offset after them at every partition."""
        return self.writing.ingest(records, source, resume, repost)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None, repost: Repost
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, the offset after each with its parts."""
        return self.writing.load(table, batches, repost)

    def advance(self, stream: str, source: str, low: int) -> None:
        """Raise DefinitionError: streams are in stores of one partition."""
        raise DefinitionError(f"a store of several partitions can't take the stream {stream!r}")

    def rest(self, sources: Sequence[str], ended: bool) -> None:
        """Do nothing: streams are in stores of one partition."""

    def tick(self) -> None:
        """Do nothing: streams are in stores of one partition."""

    def settle(self) -> None:
        """Wait until everything that was committed shows in every view."""
        with self.still():
            pass

    @contextmanager
    def still(self, settled: bool = True) -> Iterator[None]:
        """Hold all partitions: nothing is in flight between them, and no other thread writes.

        With `settled` it is an error if a partition refuses a production.
        """
        with self.state.lock:
            self.state.must_be_open()
            refused = self.carry()
            if settled and refused:
                raise PenstockError(f"{refused[0]}; run penstock check --fix, which repairs what keeps it from that")
            self.building.finish_switch()
            yield

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """Make a snapshot of each partition, as of a commit of its own.

        With consistency="position" partitions are held until everything in flight has arrived, and the snapshot has
        begun: views show exactly the contributions of all documents.
        """
        self.state.must_be_open()
        must_be_known(consistency)
        if consistency != "position":
            return self.reading.snapshot()
        if self.state.readonly:
            raise PenstockError(_UNHELD)
        with self.still():
            return self.reading.snapshot()

    def settled(self) -> Snapshot:
        """Make a snapshot with nothing in flight between partitions."""
        return self.reading.settled() if self.state.readonly else self.snapshot("position")

    def watermarks(self, streams: Sequence[Stream]) -> list[Watermark]:
        """Return none: streams are in stores of one partition."""
        return []

    def late(self, view: str, stream: Stream) -> Iterator[AsideRecord]:
        """Yield none: streams are in stores of one partition."""
        return iter(())

    def follow(self, request: FeedRequest) -> Iterator[Changes]:
        """Iterate over the changes of a request."""
        return self.reading.follow(request)

    def remembered(self, source: str) -> Remembered | None:
        """Return the least offset of a source at any partition, and its spout state."""
        if self.state.readonly:
            with self.snapshot() as snap:
                return snap.remembered(source)
        return self.writing.remembered(source)

    def status(self) -> dict[str, Any]:
        """Describe all partitions together, and each."""
        return self.reading.status(self.building.trouble)

    # -- definitions

    def begin_refill(self, tables: Sequence[str]) -> int:
        """Begin to refill tables; the seed that the other store must have."""
        return self._refill.begin(tables)

    def refill(self, path: str, progress: Tell | None) -> Refilled:
        """Replace the content of the tables of a refill with that of another store, at all partitions at once."""
        return self._refill.run(path, progress)

    # -- its end

    def stop(self) -> None:
        """End the thread that builds views."""
        self.building.stop()

    def close(self) -> None:
        """Release the partitions, once all that they owe each other has arrived."""
        with self.state.lock:
            if self.state.closed:
                return
            try:
                if not self.state.readonly:
                    self.carry()
            finally:
                self.state.end()
                if self._pool is not None:
                    self._pool.shutdown()
                if self._reads_apart:
                    self.reading.close()
                for handle in self.handles:
                    handle.close()
                if self._owner is not None:
                    self._owner.close()

    # -- upkeep and repairs

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Free the space of old versions, at one partition after the other; `progress` gets how many."""
        done: list[dict[str, int]] = []
        for handle in self.handles:
            done.append(handle.compact())
            if progress is not None:
                progress(len(done), len(self.handles))
        return Compacted.of({name: sum(own[name] for own in done) for name in done[0]})

    def copy(self, path: str, folder: str, progress: Tell | None) -> Copied:
        """Copy the store at `path` into a folder, each partition as it fits to the others."""
        if not self.state.readonly:
            with self.still(settled=False):
                pass  # so that there is little on its way
        return copy_any(path, folder, progress)

    def releases(self, progress: Progress | None) -> PartitionedRetries:
        """Make one retry or drop of quarantined entries."""
        self.building.finish_switch_first()
        return PartitionedRetries(self.site(), self.handles, self.writing.learn, progress)

    def site(self) -> PartitionedSite:
        """Make the site of one repair."""
        folders = None if self.state.path is None else self.layout.folders(self.state.path)
        return PartitionedSite(self.state.app, self, self.handles, self.ranges, folders, self._pool is not None)

    def naming(self) -> AbstractContextManager[None]:
        """Name damage that is found within by views, tables and keys."""
        return self.reading.naming()

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Refuse: each partition scrubs its own folder."""
        if scrubbing is not None:
            raise PenstockError(_SCRUB)

    def last_scrub(self) -> ScrubResult | None:
        """Return None: each partition keeps the result of its own."""
        return None

    def scrub(self, progress: Progress | None) -> None:
        """Refuse: each partition scrubs its own folder."""
        raise PenstockError(_SCRUB)

    # -- within

    def carry(self) -> list[str]:
        """Wait until nothing is in flight, or only refused productions are. Return the partitions and reasons."""
        self.state.must_be_own_process()
        return at_rest(self.handles, self.push, 0.0 if self._pool is None else REFUSED)

    def at_each(self, one: Callable[[PartitionHandle], T]) -> list[T]:
        """Call a function with each partition. Return the results in their order."""
        return list(map(one, self.handles) if self._pool is None else self._pool.map(one, self.handles))
