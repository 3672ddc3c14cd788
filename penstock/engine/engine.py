"""The public API of an open store: put, delete, batches, snapshots, the feed.

`Engine` checks the state of the store and the arguments of a call, waits for puts of a group, and delegates to its
store. All calls are thread-safe.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from penstock.cache import BatchRejected, CopyFailed, Tell, checked
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    Progress,
    Scrubbing,
    ScrubResult,
    Snapshot,
    Transaction,
    batches_of,
    digest_of,
)
from penstock.engine.calls.definition_calls import DefinitionCalls
from penstock.engine.calls.protocol import EngineStore
from penstock.engine.calls.repair_calls import RepairCalls
from penstock.engine.group_commit import Committer, Ticket
from penstock.partitions import Copied
from penstock.remote import Server
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Change, Changes, Counts, Position


class Engine(RepairCalls, DefinitionCalls):
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

    def __init__(self, store: EngineStore, grouped: bool = False, sock: socket.socket | None = None) -> None:
        self.store = store
        """The store behind the calls, for the rooms of this package."""
        self._state = store.state
        self._committer: Committer | None = None
        if grouped:
            self.begin_group()
        path = self._state.path
        self._holder: Server | None = None
        if sock is not None and path is not None:
            self._holder = Server(self, self._state.app.name, sock, path, store.operations)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def holder(self) -> None:
        """The process that holds the store: None, for this process holds it."""

    def __repr__(self) -> str:
        return f"<engine of {self.store}>"

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
        self._state.must_be_writable(table)
        if self._committer is not None and not strict:
            return self._committer.submit(table, batches_of(docs, batch))
        self.flush()
        total = self.store.put_many(table, docs, batch, strict)
        return total if self._committer is None else Ticket.of(total)

    @contextmanager
    def batch(self) -> Iterator[Transaction]:
        """One transaction over several tables; an exception undoes it.

        with engine.batch() as b:
            b.put("users", {"id": 7, "name": "Sue"})
            b.delete("orders", 12)
        b.counts
        """
        self._state.must_be_writable()
        transaction = Transaction(self._state)
        try:
            yield transaction
        finally:
            tables = transaction.take()
        self.flush()
        transaction.counts = self.store.write(tables, None, False)

    @checked
    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take what a spout delivers; `resume`, the next offset to read, commits with the data.

        A record below the offset that is committed already is a redelivery: it changes nothing and counts as late. A
        repost is done before the rest, and counts as equal.

        engine.ingest([ps.Record("users", 7, {"id": 7, "name": "Sue"}, offset=41)], source="file:a", resume=42)
        """
        self._state.must_be_writable()
        self.flush()
        return self.store.ingest(list(records), source, resume, self._repost)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, each with the offset after it in one transaction; gives its counts as it is durable.

        A batch below the offset that is committed already is a redelivery: it changes nothing and counts as late. One
        that does not begin there raises SourceMoved. Under `envelope` each record goes to the table that it names, and
        one with ts 0 is a repost, which is done before the rest and counts as equal. `long` says whether there is
        enough for another core to help, or with None that it will show; `batches` is then read ahead, so it should end
        where no more is there yet.

        for batch, counts in engine.load("users", batches):
            spout.committed(batch)
        """
        self._state.must_be_writable(table)
        self.flush()
        yield from self.store.load(table, batches, long, self._repost)

    def remembered(self, source: str) -> Remembered | None:
        """Give the offset and the spout state that the store has of a source; None if it has none.

        engine.remembered("file:a")
        """
        self._state.must_be_open()
        return self.store.remembered(source)

    def take(self, tables: dict[str, list[Batch]], strict: bool = False, atomic: bool = False) -> Counts:
        """One transaction of batches that another process made; under `strict` a rejection undoes it.

        With `atomic` it is in at all partitions or at none, where the store has several.

        engine.take({"users": [batch]})
        """
        self._state.must_be_writable(*tables)
        self.flush()
        counts = self.store.write(tables, None, strict, atomic or strict)
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
        self._state.must_be_writable()
        self.flush()
        return self.store.compact(progress)

    @checked
    def copy(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Copied:
        """Copy the store into a folder that is not there yet, as it is at this moment, and read the copy back.

        Others write meanwhile. The copy is a store itself. `progress` is told what is done ("copying", "checking"), how
        many bytes of it, and of how many.

        engine.copy("backups/monday").bytes
        """
        self.flush()
        path = self._state.path
        if path is None:
            raise CopyFailed(os.fspath(folder), "a store in memory has no file to copy", "open the app on a path")
        return self.store.copy(path, os.fspath(folder), progress)

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Have a thread scrub the store now and then; a store in memory has no pages."""
        self._state.must_be_open()
        self.store.begin_scrubbing(scrubbing)

    def last_scrub(self) -> ScrubResult | None:
        """The result of the last scrub; None if there was none."""
        return self.store.last_scrub()

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Walk all pages, and keep and log the result. Damage that no check repairs stops all transactions."""
        self._state.must_be_open()
        self.store.scrub(progress)

    def begin_group(self) -> None:
        """Give tickets for puts from now on: durability="group"."""
        self._committer = Committer(self.store.write_group, self._state.must_be_own_process)

    def flush(self) -> None:
        """Wait until all that was put before is durable, or has failed; at once under durability="sync".

        engine.flush()
        """
        self._state.must_be_open()
        if self._committer is not None:
            self._committer.flush()

    def settle(self) -> None:
        """Wait until all that was put before shows in every view: at once, where a store has one partition.

        engine.settle()
        """
        self.flush()
        self.store.settle()

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """All views and tables at one position; it sees nothing of what comes after.

        Of several partitions each is shown as of a commit of its own, and with consistency="position" with nothing on
        its way between them; of one partition both are the same.

        with engine.snapshot() as snap:
            snap.view("namecount")["Sue"]
        """
        return self.store.snapshot(consistency)

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
        self._state.must_be_open()
        return self.store.follow(views, since, follow, initial, until, early)

    def status(self) -> dict[str, Any]:
        """Tables, views, position, sources and sizes, as data.

        engine.status()["tables"]["users"]["documents"]
        """
        self._state.must_be_open()
        return self.store.status()

    def digest(self) -> str:
        """One digest over all content: equal for equal content, whatever its history.

        engine.digest()
        """
        with self.store.settled() as snap:
            return digest_of(snap, self._state.app)

    def close(self) -> None:
        """Finish what was put and let go of the store. A child that inherited it by a fork has nothing to close.

        engine.close()
        """
        if self._state.closed or self._state.inherited:
            return
        try:
            self.store.stop()
            if self._holder is not None:
                self._holder.close()  # its work needs the store
            if self._committer is not None:
                self._committer.close()
        finally:
            self.store.close()

    def _one(self, table: str, batch: Batch) -> Counts | Ticket:
        self._state.must_be_writable(table)
        if self._committer is not None:
            return self._committer.submit(table, [batch])
        return self.store.write({table: [batch]}, None, False)


def _each(parts: Iterator[Changes]) -> Iterator[Change]:
    for part in parts:
        yield from part
