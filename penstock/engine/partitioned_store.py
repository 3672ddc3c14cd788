"""A store of several partitions, as users have it: what they put goes to who owns it, and what they read is all of it.

Batches are parted here by the owners of their keys, and each partition commits its part, with the offset of the source,
in a transaction of its own. What views of other partitions are owed follows by productions. Invariants:

- what is put is durable at its partitions when a call returns; the views of others follow, and `settle` waits for them;
- the offsets of a source differ between partitions by what a crash came between, at most: its spout goes on from the
  least, and each partition drops what it has.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from penstock.cache import BatchRejected, CopyFailed, Owner, PenstockError, Tell, checked
from penstock.core import Batch, Compacted, Consistency, Core, Layout, Resume, Snapshot, batches_of, delivered
from penstock.engine.calls.envelopes import ingested, wired
from penstock.engine.group_commit import Ticket
from penstock.engine.partitioned_refill import PartitionedRefill
from penstock.generations import Swept, Switch
from penstock.partitions.copies.store_copies import Copied
from penstock.partitions.copies.union_copies import copy_any
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import Tables
from penstock.partitions.routing import Routed, Router, after
from penstock.partitions.source_positions import Stands
from penstock.partitions.transport.delivery import REFUSED, at_rest
from penstock.partitions.transport.saved_batches import SavedBatches
from penstock.partitions.union.union_quarantine import PartedReleasing
from penstock.partitions.union.union_repair_site import PartedSite
from penstock.remote import OPERATIONS, Holder
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Changed, Counts, Progress

__all__ = ["Parted"]

T = TypeVar("T")


def _nothing() -> None:
    """Others carry."""


class Parted(PartitionedRefill):
    """An open store of several partitions; made by `ps.open(app, path, partitions=N)`."""

    def __init__(
        self,
        app: App,
        layout: Layout,
        cores: list[Core],
        seats: Sequence[PartitionHandle],
        carry: Callable[[], None] | None,
        path: str | None,
        owner: Owner | None,
        sock: socket.socket | None = None,
        changed: Sequence[Changed] = (),
    ) -> None:
        super().__init__(cores, path or "memory", layout)
        self._changed = changed
        self._readonly = False
        self._app = app
        self._seats = list(seats)
        self._carry = carry or _nothing
        self._path = path
        self._owner = owner
        self._router = Router(app, layout.ranges())
        self._pool = None if carry is not None else ThreadPoolExecutor(len(self._seats) + 1, "penstock-parted")
        standing = [seat.standing() for seat in self._seats]
        self._stands = Stands(self._seats, [own.sources for own in standing], self._finish_switch_first)
        self._learn()
        self._number = max(own.batch for own in standing)  # of the last batch
        self._saved = SavedBatches(self._seats, standing, self._carry)
        self._carry()
        self._holder = None if sock is None or path is None else Holder(self, app.name, sock, path, OPERATIONS)

    def __repr__(self) -> str:
        return f"<engine of {self._app.name!r} at {self._path or 'memory'}, {len(self._seats)} partitions>"

    # -- writing

    @checked
    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts | Ticket:
        """Put many documents: dicts, JSON lines (bytes or text), or an Arrow, pandas or polars table.

        Each partition commits its part of a batch in one transaction. Under `strict` a batch is in at all of them or
        at none.

        engine.put_many("users", open("users.jsonl", "rb"))
        """
        self._writable(table)
        if self._committer is not None and not strict:
            return self._committer.submit(table, batches_of(docs, batch))
        self.flush()
        total = Counts()
        for routed in self._ahead(table, batches_of(docs, batch)):
            try:
                total += self._give(routed, {}, strict, strict)
            except BatchRejected as error:
                raise BatchRejected(total.applied + total.equal, error.rejections) from None
        return total if self._committer is None else Ticket.of(total)

    @checked
    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take what a spout delivers; `resume`, the next offset to read, commits with the data at every partition.

        A record below the offset that its partition has is a redelivery: it changes nothing and counts as late.

        engine.ingest([ps.Record("users", 7, {"id": 7, "name": "Sue"}, offset=41)], source="file:a", resume=42)
        """
        self._writable()
        self.flush()
        records, done = list(records), self._stands.least(source)
        self._repost_of(records, done)
        tables, counts = ingested(self._app, records, source, done, only_reposts=True)
        with self._lock:
            return self._resumed(self._routed(tables), source, Resume(resume)) + counts

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, the offset after each with its parts; gives its counts as it is durable.

        for batch, counts in engine.load("users", batches):
            spout.committed(batch)
        """
        self._writable(table)
        self.flush()
        for batch in batches:
            yield batch, self._loaded(table, batch)

    def _loaded(self, table: str, batch: SpoutBatch) -> Counts:
        part = delivered(batch, self._app.table_of(table))
        tables, reposts = {table: [part]}, 0
        if batch.envelope:
            found = wired(self._app, table, part)
            tables, reposts = found.tables, found.reposts
            if found.values and (
                batch.source is None or batch.again or batch.resume > self._stands.least(batch.source)
            ):
                self._repost(found.values)
        if batch.source is None:
            return self._give(self._routed(tables), {}, False) + Counts(equal=reposts)
        with self._lock:
            if not self._stands.follows(batch, batch.source):
                return Counts(late=part.size)
            if self._stands.within(batch, batch.source) and not part.run:
                for own in chain.from_iterable(tables.values()):
                    own.offsets = dict(enumerate(batch.begin_of_each()))
            resume = Resume(batch.resume, batch.note, batch.again)
            if batch.again and batch.resume > batch.start:
                # No partition has records of the new source before all have forgotten where they stood in the old one.
                self._resumed({}, batch.source, Resume(batch.start, again=True))
                resume = Resume(batch.resume, batch.note)
            return self._resumed(self._routed(tables), batch.source, resume) + Counts(equal=reposts)

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """All views and tables, each partition as of a commit of its own; it sees nothing of what comes after.

        With consistency="position" partitions are held until all that they owe each other has arrived, and the
        snapshot has begun: views show all that documents say, and nothing else.

        with engine.snapshot(consistency="position") as snap:
            snap.view("namecount")["Sue"]
        """
        if not isinstance(consistency, str) or consistency != "position":
            return super().snapshot(consistency)
        with self.still():
            return super().snapshot()

    def settle(self) -> None:
        """Wait until all that was put before shows in every view.

        engine.settle()
        """
        self._open()
        self.flush()
        with self.still():
            pass

    @contextmanager
    def still(self, settled: bool = True) -> Iterator[None]:
        """Hold all partitions: at its beginning nothing is on its way, and within it nobody else writes.

        With `settled` it is an error where one of them can't take what it is owed.
        """
        with self._lock:
            self._open()
            refused = self.carry()
            if settled and refused:
                raise PenstockError(f"{refused[0]}; run penstock check --fix, which repairs what keeps it from that")
            self.finish_switch()
            yield

    # -- reading

    def _settled(self) -> Snapshot:
        return self.snapshot("position")

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source: at the least of its partitions' offsets."""
        self._open()
        with self._lock:
            return self._stands.remembered(source)

    def close(self) -> None:
        """Finish what was put, and let go of the store: all that partitions owe each other has arrived.

        engine.close()
        """
        if self._pid != os.getpid():
            return  # its processes and their ends are the parent's affair
        self._stop_sweeping()
        if self._holder is not None:
            self._holder.close()  # what is under way for others needs the lock
        if self._committer is not None:
            self._committer.close()
        with self._lock:
            if self._closed:
                return
            try:
                self.carry()
            finally:
                self._closed = True
                if self._pool is not None:
                    self._pool.shutdown()
                self._ended.set()
                for core in self._cores if self._carry is _nothing else ():
                    core.close()  # those of seats in this process are closed with these
                for seat in self._seats:
                    seat.close()
                if self._owner is not None:
                    self._owner.close()

    @checked
    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take, one partition after the other; `progress` is told how many are done.

        engine.compact().freed
        """
        self._writable()
        self.flush()
        done: list[dict[str, int]] = []
        for seat in self._seats:
            done.append(seat.compact())
            if progress is not None:
                progress(len(done), len(self._seats))
        return Compacted.of({name: sum(own[name] for own in done) for name in done[0]})

    # -- what is done to a store in one piece

    @checked
    def copy(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Copied:
        """Copy the store into a folder that is not there yet, each partition as it fits to the others.

        Others write meanwhile. The copy is a store itself.

        engine.copy("backups/monday").bytes
        """
        self._open()
        if self._path is None:
            raise CopyFailed(os.fspath(folder), "a store in memory has no file to copy", "open the app on a path")
        self.flush()
        with self.still(settled=False):
            pass  # so that there is little on its way
        return copy_any(self._path, os.fspath(folder), progress)

    def _releasing(self, progress: Progress | None) -> PartedReleasing:
        self._writable()
        self.flush()
        self._finish_switch_first()
        return PartedReleasing(self._site(), self._seats, self._learn, progress)

    # -- within

    def _write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        return self._give(self._routed(tables), sources or {}, strict, atomic)

    def _routed(self, tables: Tables) -> Routed:
        """Batches by partition."""
        return self._router.routed((name, part) for name, parts in tables.items() for part in parts)[0]

    def _ahead(self, table: str, batches: Iterator[Batch]) -> Iterator[Routed]:
        """Batches, each parted while the one before it is written."""
        routed = (self._routed({table: [part]}) for part in batches)
        if self._pool is None:
            yield from routed
            return
        ready = next(routed, None)
        while ready is not None:
            coming = self._pool.submit(next, routed, None)
            yield ready
            ready = coming.result()

    def _resumed(self, routed: Routed, source: str, resume: Resume) -> Counts:
        """Records of a source, as far as their partitions don't have them, and the offset after them everywhere."""
        late, standing = 0, self._stands.of(source)
        for owner, tables in list(routed.items()):
            done = standing[owner]
            if resume.again or not done:
                continue
            for name, parts in tables.items():
                kept = [] if resume.offset <= done else [after(part, done) for part in parts]
                late += sum(part.size for part in parts) - sum(part.size for part in kept)
                tables[name] = kept
        behind = [i for i, own in enumerate(standing) if resume.again or own is None or own < resume.offset]
        counts = self._give({i: routed.get(i, {}) for i in sorted({*behind, *routed})}, {source: resume}, False)
        self._stands.moved(source, resume, len(behind) == len(standing))
        return counts + Counts(late=late)

    def _give(self, routed: Routed, sources: Mapping[str, Resume], strict: bool, atomic: bool = False) -> Counts:
        """A transaction a partition; the counts of all. An `atomic` batch is in at all of them or at none."""
        if not atomic or len(routed) <= 1:
            return sum(self._give_each(routed, sources, strict).values(), Counts())
        with self._lock:
            number, kinds = self._begin(routed)
            each = self._of_each(routed, lambda owner: self._seats[owner].tried(routed[owner], kinds))
            tried = sum(each, Counts())
            if strict and tried.rejected:
                raise BatchRejected(0, tried.rejections)
            self._saved.give(routed, number, kinds, strict)
            return tried

    def _begin(self, routed: Routed) -> tuple[int, dict[str, str]]:
        """Number a batch, after all that comes before it; the kinds of the ts of tables come with it."""
        self._open()
        self._finish_switch_first()
        self._saved.arrive(routed)
        self._number += 1
        return self._number, dict(self._router.kinds)

    def _give_each(self, routed: Routed, sources: Mapping[str, Resume], strict: bool) -> dict[int, Counts]:
        """Do a transaction at each partition; the counts of each batch that a partition got, by its identity."""
        with self._lock:
            number, kinds = self._begin(routed)
            sure, self._stands.sure = self._stands.sure, False
            done = self._of_each(
                routed, lambda owner: self._seats[owner].take(routed[owner], sources, number, kinds, strict)
            )
            self._stands.sure = sure  # what another batch left in doubt is in doubt still
            self._carry()
        parts = (part for owner in sorted(routed) for own in routed[owner].values() for part in own)
        return {id(part): counts for part, counts in zip(parts, chain.from_iterable(done), strict=True)}

    def _commit_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
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

    def _learn(self) -> None:
        """Know of what kind the ts of tables are."""
        for seat in self._seats:
            self._router.kinds |= seat.standing().kinds

    def _site(self) -> PartedSite:
        away = self._pool is not None
        folders = None if self._path is None else self._layout.folders(self._path)
        return PartedSite(self._app, self, self._seats, self._ranges, folders, away)

    def carry(self) -> list[str]:
        """Wait until nobody owes anybody anything, or nobody takes what is owed; by whom, and why."""
        self._check_process()
        return at_rest(self._seats, self._carry, 0.0 if self._pool is None else REFUSED)

    def _swept(self, limit: int | None, switch: Switch | None = None) -> list[Swept]:
        return self._at_each(lambda seat: seat.swept(limit, switch))

    def _at_each(self, one: Callable[[PartitionHandle], T]) -> list[T]:
        return list(map(one, self._seats) if self._pool is None else self._pool.map(one, self._seats))
