"""The writing of a store of several partitions: each batch is split by the owners of its keys.

Each partition commits its part, with the offset of the source, in a transaction of its own. Invariants:

- a batch is durable at its partitions when a call returns; the views of other partitions follow;
- the offsets of a source differ between partitions by at most one batch, after a crash. The spout resumes from the
  lowest offset, and each partition drops the records that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain
from typing import Any, TypeVar

from penstock.cache import BatchRejected
from penstock.core import Batch, Resume, batches_of, delivered
from penstock.engine.calls.envelopes import envelopes_of, ingested, reposts_of
from penstock.engine.calls.protocol import Repost
from penstock.mapreduce import KeyRanges
from penstock.partitions import (
    AtomicBatches,
    PartitionedBuilding,
    PartitionHandle,
    Routed,
    Router,
    ServedStore,
    SourcePositions,
    Tables,
    after,
)
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Counts

__all__ = ["PartitionedWriting"]

T = TypeVar("T")
_AHEAD = 256  # records of a batch whose time is enough to split the next one


class PartitionedWriting:
    """Sends batches to partitions by their handles: in parallel with a pool, else one after the other."""

    def __init__(
        self,
        store: ServedStore,
        handles: Sequence[PartitionHandle],
        ranges: KeyRanges,
        building: PartitionedBuilding,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        self._store = store
        self._state = store.state
        self._handles = handles
        self._building = building
        self._router = Router(self._state.app, ranges)
        self._pool = pool
        standing = [handle.standing() for handle in handles]
        self.stands = SourcePositions(handles, [own.sources for own in standing], building.finish_switch_first)
        self.learn()
        self._number = max((own.batch for own in standing), default=0)  # of the last batch
        self.saved = AtomicBatches(handles, standing, store.push)

    def write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """Commit batches of tables, and offsets of sources. An `atomic` batch is in at all partitions or at none."""
        return self._give(self.routed(tables), sources or {}, strict, atomic)

    def tried(self, tables: dict[str, list[Batch]]) -> Counts:
        """Return the counts that a write would have, and store nothing."""
        with self._state.lock:
            routed = self.routed(tables)
            _, kinds = self._begin(routed)
            each = self._of_each(routed, lambda owner: self._handles[owner].tried(routed[owner], kinds))
            return sum(chain.from_iterable(each), Counts())

    def write_rest(self, tables: dict[str, list[Batch]], source: str, resume: Resume, strict: bool) -> Counts:
        """Commit the records of a source that their partitions don't have, and the offset after them everywhere.

        Under `strict` a rejection is found before any partition commits.
        """
        with self._state.lock:
            if strict and (tried := self.tried(tables)).rejected:
                raise BatchRejected(0, tried.rejections)
            return self._resumed(self.routed(tables), source, resume)

    def put_many(self, table: str, docs: Any, batch: int | None, strict: bool) -> Counts:
        """Put documents. Each partition commits its part of a batch in one transaction.

        Under `strict` a batch is in at all of them or at none.
        """
        total = Counts()
        for routed in self._ahead(table, batches_of(docs, batch)):
            try:
                total += self._give(routed, {}, strict, strict)
            except BatchRejected as error:
                raise BatchRejected(total.applied + total.equal, error.rejections) from None
        return total

    def ingest(self, records: Sequence[Record], source: str, resume: int, repost: Repost) -> Counts:
        """Take records of a source, and the offset after them at every partition.

        A record below the offset that its partition has is a redelivery: it changes nothing and counts as late. So are
        all records if the partition has `resume`.
        """
        done = self.stands.least(source)
        values = reposts_of(self._state.app, records, done, resume)
        if values:
            repost(values)
        tables, counts = ingested(self._state.app, records, source, done, resume, only_reposts=True)
        with self._state.lock:
            self._state.meters.redelivered += counts.late
            return self._resumed(self.routed(tables), source, Resume(resume)) + counts

    def load(self, table: str, batches: Iterable[SpoutBatch], repost: Repost) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, the offset after each with its parts."""
        for batch in batches:
            yield batch, self._loaded(table, batch, repost)

    def _loaded(self, table: str, batch: SpoutBatch, repost: Repost) -> Counts:
        part = delivered(batch, self._state.app.table_of(table))
        tables, reposts = {table: [part]}, 0
        if batch.envelope:
            found = envelopes_of(self._state.app, table, part)
            tables, reposts = found.tables, found.reposts
            if found.values and (batch.source is None or batch.again or batch.resume > self.stands.least(batch.source)):
                repost(found.values)
        if batch.source is None:
            return self._give(self.routed(tables), {}, False) + Counts(equal=reposts)
        with self._state.lock:
            if not self.stands.follows(batch, batch.source):
                self._state.meters.redelivered += part.size
                return Counts(late=part.size)
            if self.stands.within(batch, batch.source) and not part.run:
                for own in chain.from_iterable(tables.values()):
                    own.offsets = dict(enumerate(batch.begin_of_each()))
            resume = Resume(batch.resume, batch.note, batch.again)
            if batch.again and batch.resume > batch.start:
                # No partition has records of the new source before all have forgotten where they stood in the old one.
                self._resumed({}, batch.source, Resume(batch.start, again=True))
                resume = Resume(batch.resume, batch.note)
            return self._resumed(self.routed(tables), batch.source, resume) + Counts(equal=reposts)

    def routed(self, tables: Tables) -> Routed:
        """Batches by partition."""
        return self._router.routed((name, part) for name, parts in tables.items() for part in parts)[0]

    def _ahead(self, table: str, batches: Iterator[Batch]) -> Iterator[Routed]:
        """Iterate over batches; split each one while the one before it is written.

        After a small batch the next one is split in this thread: to wake another one costs more.
        """
        routed = (self.routed({table: [part]}) for part in batches)
        ready = next(routed, None)
        while ready is not None:
            if self._pool is None or _records(ready) < _AHEAD:
                yield ready
                ready = next(routed, None)
                continue
            coming = self._pool.submit(next, routed, None)
            yield ready
            ready = coming.result()

    def _resumed(self, routed: Routed, source: str, resume: Resume) -> Counts:
        """Records of a source, as far as their partitions don't have them, and the offset after them everywhere."""
        late, standing = 0, self.stands.of(source)
        for owner, tables in list(routed.items()):
            done = standing[owner]
            if resume.again or not done:
                continue
            for name, parts in tables.items():
                left = [] if resume.offset <= done else [after(part, done) for part in parts]
                late += sum(part.size for part in parts) - sum(part.size for part in left)
                tables[name] = left
        behind = [i for i, own in enumerate(standing) if resume.again or own is None or own < resume.offset]
        counts = self._give({i: routed.get(i, {}) for i in sorted({*behind, *routed})}, {source: resume}, False)
        self.stands.moved(source, resume, len(behind) == len(standing))
        self._state.meters.redelivered += late
        return counts + Counts(late=late)

    def _give(self, routed: Routed, sources: Mapping[str, Resume], strict: bool, atomic: bool = False) -> Counts:
        """A transaction a partition; the counts of all. An `atomic` batch is in at all of them or at none."""
        if not atomic or len(routed) <= 1:
            return sum(self._give_each(routed, sources, strict).values(), Counts())
        with self._state.lock:
            began = self._state.meters.clock()
            number, kinds = self._begin(routed)
            each = self._of_each(routed, lambda owner: self._handles[owner].tried(routed[owner], kinds))
            tried = sum(chain.from_iterable(each), Counts())
            if strict and tried.rejected:
                raise BatchRejected(0, tried.rejections)
            self.saved.give(routed, number, kinds, strict)
            self._state.meters.add(began, routed.values(), _by_batch(routed, each))
            return tried

    def _begin(self, routed: Routed) -> tuple[int, dict[str, str]]:
        """Return the number of the next batch, and the known kinds of ts of tables."""
        self._state.must_be_open()
        self._building.finish_switch_first()
        self.saved.arrive(routed)
        self._number += 1
        return self._number, dict(self._router.kinds)

    def _give_each(self, routed: Routed, sources: Mapping[str, Resume], strict: bool) -> dict[int, Counts]:
        """Do a transaction at each partition; the counts of each batch that a partition got, by its identity."""
        with self._state.lock:
            began = self._state.meters.clock()
            number, kinds = self._begin(routed)
            sure, self.stands.sure = self.stands.sure, False
            done = self._of_each(
                routed, lambda owner: self._handles[owner].take(routed[owner], sources, number, kinds, strict)
            )
            self.stands.sure = sure  # offsets that an earlier batch left in doubt are in doubt still
            each = _by_batch(routed, done)
            self._state.meters.add(began, routed.values(), each)
            self._store.push()
        return each

    def write_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        """Commit batches of several puts; the counts of each by its identity."""
        routed, shares = self._router.routed(work)
        done = self._give_each(routed, {}, False)
        return {whole: sum((done[id(own)] for own in parts), Counts()) for whole, parts in shares.items()}

    def _of_each(self, routed: Routed, one: Callable[[int], T]) -> list[T]:
        """Do something at each partition that gets something; the answers in their order.

        If one fails, the others end first. Otherwise a later batch could reach a partition before this one, and this
        one would count as stored there.
        """
        owners = sorted(routed)
        if self._pool is None or len(owners) == 1:
            return list(map(one, owners))
        each = [self._pool.submit(one, owner) for owner in owners]
        wait(each)
        return [done.result() for done in each]

    def learn(self) -> None:
        """Learn the kinds of the ts of tables from the partitions."""
        for handle in self._handles:
            self._router.kinds |= handle.standing().kinds

    def remembered(self, source: str) -> Remembered | None:
        """Return the least offset of a source at any partition, and its spout state."""
        with self._state.lock:
            return self.stands.remembered(source)


def _records(routed: Routed) -> int:
    """Return the number of records in batches by partition."""
    return sum(part.size for tables in routed.values() for parts in tables.values() for part in parts)


def _by_batch(routed: Routed, done: Iterable[Sequence[Counts]]) -> dict[int, Counts]:
    """Return the counts of each batch by its identity; `done` has them by partition, in the order of its tables."""
    parts = (part for owner in sorted(routed) for own in routed[owner].values() for part in own)
    return {id(part): counts for part, counts in zip(parts, chain.from_iterable(done), strict=True)}
