"""The engine as users have it: put, delete, batches, snapshots.

One lock stands before the writer, so that puts are thread-safe; a batch is decided, written and synced under it.
Snapshots take no lock and never wait for the writer.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from penstock.cache import BatchRejected, Closed, CopyFailed, ForkedStore, Owner, ReadOnly, Tell, checked
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    Core,
    Progress,
    Resume,
    Snapshot,
    Transaction,
    Turns,
    batches_of,
    compact,
    counts_of,
    digest_of,
    helped,
    joined_records,
    must_be_known,
    rejects_in,
)
from penstock.core import follow as followed
from penstock.engine.calls.envelopes import ingested
from penstock.engine.calls.spout_input import Loading
from penstock.engine.group_commit import Committer, Ticket
from penstock.engine.store_status import status_of
from penstock.mapreduce import Writes
from penstock.partitions.copies.store_copies import Copied, copy_of
from penstock.partitions.partition_operations import ALL_OPERATIONS
from penstock.remote import Holder
from penstock.spout import Record
from penstock.views import Change, Changes, Counts, Position


class Engine(Loading):
    """An open store; made by `ps.open`.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine:
    ...     print(engine.put("users", {"id": 7, "name": "Sue"}))
    ...     with engine.snapshot() as snap:
    ...         snap.table("users")[7]
    1 applied
    {'id': 7, 'name': 'Sue'}
    """

    def __init__(
        self,
        core: Core,
        path: str | None,
        owner: Owner | None,
        readonly: bool,
        grouped: bool,
        sock: socket.socket | None = None,
    ) -> None:
        super().__init__()
        self._core = core
        self._path = path
        self._owner = owner
        self._readonly = readonly
        self._pid = os.getpid()
        self._lock = Turns(self._check_process)
        self._closed = False
        self._ended = threading.Event()
        self._committer: Committer | None = None
        if grouped:
            self.begin_group()
        self._holder = None if sock is None or path is None else Holder(self, core.app.name, sock, path, ALL_OPERATIONS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<engine of {self._core.app.name!r} at {self._path or 'memory'}>"

    # -- writing

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts | Ticket:
        """Put one document, a dict or a JSON object; durable when this returns. `ts` is for tables with ts="@kafka".

        engine.put("users", {"id": 7, "name": "Sue", "ts": 1})
        """
        batch = Batch(origin="put")
        batch.add(doc, ts)
        return self._one(table, batch)

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts | Ticket:
        """Delete the document with this key; without `ts` as of the current version's.

        engine.delete("users", 7, ts=2)
        """
        batch = Batch(origin="delete")
        batch.delete(key, ts)
        return self._one(table, batch)

    @checked
    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts | Ticket:
        """Put many documents: dicts, JSON lines (bytes or text), or an Arrow, pandas or polars table.

        A list of up to 10,000 documents is one transaction; longer input is cut. What can't be taken is counted as
        rejected and named; under `strict` its batch is undone instead and BatchRejected raised. Where another core is
        there, a process of its own decodes long input for field views, and ends with the call.

        engine.put_many("users", open("users.jsonl", "rb"))
        """
        self._writable(table)
        parts = batches_of(docs, batch)
        if self._committer is not None and not strict:
            return self._committer.submit(table, parts)
        self.flush()
        total = Counts()
        with helped(parts, docs, self._core.tables[table]) as coming:
            for part in coming:
                counts = self._write({table: [part]}, None, strict)
                if strict and counts.rejected:
                    raise BatchRejected(total.applied + total.equal, counts.rejections)
                total += counts
                del part  # so that no more than two batches are in memory while the next one is gathered
        return total if self._committer is None else Ticket.of(total)

    @contextmanager
    def batch(self) -> Iterator[Transaction]:
        """One transaction over several tables; an exception undoes it.

        with engine.batch() as b:
            b.put("users", {"id": 7, "name": "Sue"})
            b.delete("orders", 12)
        b.counts
        """
        self._writable()
        transaction = Transaction(self)
        try:
            yield transaction
        finally:
            tables = transaction.take()
        self.flush()
        transaction.counts = self._write(tables, None, False)

    @checked
    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take what a spout delivers; `resume`, the next offset to read, commits with the data.

        A record below the offset that is committed already is a redelivery: it changes nothing and counts as late. A
        repost is done before the rest, and counts as equal.

        engine.ingest([ps.Record("users", 7, {"id": 7, "name": "Sue"}, offset=41)], source="file:a", resume=42)
        """
        self._writable()
        self.flush()
        records = list(records)
        self._repost_of(records, self._core.state.sources.get(source, 0))
        with self._lock:
            self._core.ready()
            done = self._core.state.sources.get(source, 0)
            tables, counts = ingested(self._core.app, records, source, done)
            return self._write(tables, {source: Resume(resume)}, False) + counts

    def take(self, tables: dict[str, list[Batch]], strict: bool = False, atomic: bool = False) -> Counts:
        """One transaction of batches that another process made; under `strict` a rejection undoes it.

        With `atomic` it is in at all partitions or at none, where the store has several.

        engine.take({"users": [batch]})
        """
        for name in tables:
            self._writable(name)
        self.flush()
        counts = self._write(tables, None, strict, atomic or strict)
        if strict and counts.rejected:
            raise BatchRejected(0, counts.rejections)
        return counts

    @checked
    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take, and forget the deletions that `tombstones=` lets go, while others write.

        The space is used again by what is put later; the file itself becomes smaller by `penstock compact` while no
        process has the store open. `progress` is told how many records are passed, of how many.

        engine.compact().freed
        """
        self._writable()
        self.flush()
        self._settle()
        return compact(self._core, self._lock, progress)

    @checked
    def copy(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Copied:
        """Copy the store into a folder that is not there yet, as it is at this moment, and read the copy back.

        Others write meanwhile. The copy is a store itself. `progress` is told what is done ("copying", "checking"), how
        many bytes of it, and of how many.

        engine.copy("backups/monday").bytes
        """
        self._open()
        self.flush()
        if self._path is None:
            raise CopyFailed(os.fspath(folder), "a store in memory has no file to copy", "open the app on a path")
        return copy_of(self._path, os.fspath(folder), progress)

    def begin_group(self) -> None:
        """Give tickets for puts from now on: durability="group"."""
        self._committer = Committer(self._commit_group, self._check_process)

    def flush(self) -> None:
        """Wait until all that was put before is durable, or has failed; at once under durability="sync".

        engine.flush()
        """
        self._open()
        if self._committer is not None:
            self._committer.flush()

    def settle(self) -> None:
        """Wait until all that was put before shows in every view: at once, where a store has one partition.

        engine.settle()
        """
        self.flush()

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """All views and tables at one position; it sees nothing of what comes after.

        Of several partitions each is shown as of a commit of its own, and with consistency="position" with nothing on
        its way between them; of one partition both are the same.

        with engine.snapshot() as snap:
            snap.view("namecount")["Sue"]
        """
        self._open()
        must_be_known(consistency)
        return Snapshot(self._core)

    def changes(
        self,
        *views: str,
        since: Position | None = None,
        follow: bool = False,
        initial: bool = False,
        until: Position | None = None,
        early: bool = False,
    ) -> Iterator[Change]:
        """What changed in these views, or in all, after the position `since`, in the order of commits.

        Without `since` it begins with the oldest change that is kept; with `initial` with the views as they are, each
        row as a change from ABSENT, and goes on from there. With `follow` it never ends, and gives changes some
        milliseconds after their commit; with `until` it ends with the changes of that position. PositionExpired says
        that not all changes since a position are kept, at the call or later. A weak view may show contributions before
        their batch is saved: these changes come once it is, or at once with `early`.

        for change in engine.changes("namecount", since=position, follow=True):
            print(change.group, change.old, change.new, change.position)
        """
        return _each(self.feed(*views, since=since, follow=follow, initial=initial, until=until, early=early))

    @checked
    def feed(
        self,
        *views: str,
        since: Position | None = None,
        follow: bool = False,
        initial: bool = False,
        until: Position | None = None,
        early: bool = False,
    ) -> Iterator[Changes]:
        """What `changes` gives, in parts, each as columns: for many changes a fraction of the cost.

        In a store of several partitions the changes of one group come in the order of commits, those of groups in
        several partitions in none; all changes up to the position of each were given.

        for part in engine.feed("namecount", since=position):
            print(part.groups, part.old, part.new, part.positions)
        """
        self._open()
        return self._follows(views, since, follow, initial, until, early, self._rest, lambda: not self._closed)

    @property
    def _follows(self) -> Callable[..., Iterator[Changes]]:
        """Follows the feed of this store."""
        return partial(followed, self._core)

    def status(self) -> dict[str, Any]:
        """Tables, views, position, sources and sizes, as data.

        engine.status()["tables"]["users"]["documents"]
        """
        with self.snapshot() as snap, snap.naming():
            return status_of(self._core, snap, self._path, self._readonly)

    def digest(self) -> str:
        """One digest over all content: equal for equal content, whatever its history.

        engine.digest()
        """
        with self.snapshot() as snap:
            return digest_of(snap, self._core.app)

    def close(self) -> None:
        """Finish what was put and let go of the store. A child that inherited it by a fork has nothing to close.

        engine.close()
        """
        if self._closed or self._pid != os.getpid():
            return
        try:
            self._stop_scrubbing()
            self._stop_sweeping()
            if self._holder is not None:
                self._holder.close()
            if self._committer is not None:
                self._committer.close()
        finally:
            with self._lock:
                self._closed = True
                self._ended.set()
                self._core.close()
                if self._owner is not None:
                    self._owner.close()

    # -- within

    def _check_process(self) -> None:
        """ForkedStore in a forked child, before any lock: no thread is there that would let go of it."""
        if self._pid != os.getpid():
            raise ForkedStore(self._path or "memory", self._pid)

    def _open(self) -> None:
        self._check_process()
        if self._closed:
            raise Closed(f"the engine of {self._core.app.name!r}")

    def _rest(self, seconds: float) -> bool:
        """Wait so long, or until the engine is closed: then True."""
        self._check_process()
        return self._ended.wait(seconds)

    def _writable(self, *tables: str) -> None:
        self._open()
        if self._readonly:
            raise ReadOnly(self._path or "memory")
        for table in tables:
            self._core.app.table_of(table)

    def _one(self, table: str, batch: Batch) -> Counts | Ticket:
        self._writable(table)
        if self._committer is not None:
            return self._committer.submit(table, [batch])
        return self._write({table: [batch]}, None, False)

    def _write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """One transaction of these batches, whether or not it is to be `atomic` over partitions; their counts."""
        return self.write_each(tables, sources, strict)[0]

    def write_each(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, dry: Writes | None = None
    ) -> tuple[Counts, dict[int, Counts]]:
        """One transaction of these batches; the counts of all, and of each by its identity."""
        joined = {name: joined_records(parts) for name, parts in tables.items()}
        with self._lock:
            self._open()
            done = self._core.commit(joined, sources, strict, lambda reports: rejects_in(tables, reports), dry)
        return counts_of(tables, done)

    def _commit_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        tables: dict[str, list[Batch]] = {}
        for name, part in work:
            tables.setdefault(name, []).append(part)
        return self.write_each(tables, None, False)[1]


def _each(parts: Iterator[Changes]) -> Iterator[Change]:
    for part in parts:
        yield from part
