"""The public API of an open store: put, delete, batches, snapshots, the feed.

`Engine` checks the state of the store and the arguments of a call, waits for puts of a group, and delegates to its
store. All calls are thread-safe.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from penstock.cache import BatchRejected, CopyFailed, Tell, checked
from penstock.core import (
    Batch,
    Compacted,
    Consistency,
    FeedRequest,
    Meters,
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
from penstock.engine.calls.session_calls import SessionCalls
from penstock.engine.calls.stream_calls import StreamCalls
from penstock.engine.group_commit import Committer, Ticket
from penstock.partitions import Copied
from penstock.remote import Server
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import Change, Changes, Counts, Position

_WHOLE = 1 << 31  # documents of one transaction: all of a write


class Engine(RepairCalls, DefinitionCalls, SessionCalls, StreamCalls):
    """An open store, made by `ps.open`.

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

    @property
    def meters(self) -> Meters:
        """Counters of outcomes, commits, bytes and durations since the opening; reading them takes no lock.

        engine.meters.tables["users"].applied
        """
        return self._state.meters

    def __repr__(self) -> str:
        return f"<engine of {self.store}>"

    # -- writing

    def put(
        self, table: str, doc: Any, ts: Any = None, *, conditions: Mapping[Any, Any] | None = None
    ) -> Counts | Ticket:
        """Put one document, a dict or a JSON object; durable when this returns. `ts` is for tables with ts="@kafka".

        `conditions` maps keys to the ts that their documents must have, or to ps.ABSENT. If one fails, nothing is
        written, and ConditionFailed names it.

        engine.put("users", {"id": 7, "name": "Sue", "ts": 1}, conditions={7: ps.ABSENT})
        """
        batch = Batch(origin="put")
        batch.add(doc, ts)
        return self._one(table, batch, conditions)

    def delete(
        self, table: str, key: Any, ts: Any = None, *, conditions: Mapping[Any, Any] | None = None
    ) -> Counts | Ticket:
        """Delete the document with this key. Without `ts` the deletion gets the ts of the current version.

        engine.delete("users", 7, ts=2)
        """
        self._state.must_be_writable(table)
        self._state.app.table_of(table)
        batch = Batch(origin="delete")
        batch.delete(key, ts)
        return self._one(table, batch, conditions)

    @checked
    def put_many(
        self,
        table: str,
        docs: Any,
        strict: bool = False,
        batch: int | None = None,
        *,
        conditions: Mapping[Any, Any] | None = None,
        dry_run: bool = False,
    ) -> Counts | Ticket:
        """Put many documents: dicts, JSON lines (bytes or text), or an Arrow, pandas or polars table.

        A list of up to 10,000 documents is one transaction; longer input is split. The result counts and lists rejected
        documents. With `strict` a rejection undoes its batch and raises BatchRejected. On a machine with several cores,
        a helper process decodes long input for field views, and ends with the call. With `conditions`, or as a
        `dry_run`, which stores nothing, all input is one transaction.

        engine.put_many("users", open("users.jsonl", "rb"))
        """
        if conditions or dry_run:
            parts = list(batches_of(docs, _WHOLE))
            return self._ticket(self.write_if(table, parts, strict, conditions, dry_run))
        self._state.must_be_writable(table)
        if self._committer is not None and not strict:
            return self._committer.submit(table, batches_of(docs, batch))
        self.flush()
        total = self.store.put_many(table, docs, batch, strict)
        return self._ticket(total)

    @contextmanager
    def batch(self) -> Iterator[Transaction]:
        """Make one transaction over several tables; an exception undoes it.

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
        """Put records of a spout; `resume`, the next offset to read, commits with the data.

        A record below the committed offset is a redelivery: it changes nothing and counts as late. If `resume` is not
        above that offset, all records are redeliveries. Reposts run before the other records, and count as equal.

        engine.ingest([ps.Record("users", 7, {"id": 7, "name": "Sue"}, offset=41)], source="file:a", resume=42)
        """
        self._state.must_be_writable()
        self.flush()
        return self.store.ingest(list(records), source, resume, self._repost)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Put batches of a spout, each with the offset after it in one transaction; yield its counts once durable.

        A batch below the committed offset is a redelivery: it changes nothing and counts as late. Any other batch must
        begin at that offset, or SourceMoved is raised. With `envelope` each record names its table. A record with ts 0
        is then a repost: it runs before the rest and counts as equal. `long` says that the input is long enough for a
        second core to help; None decides during the load. `batches` may be read ahead, so the iterable should end if no
        more input is available yet.

        for batch, counts in engine.load("users", batches):
            spout.committed(batch)
        """
        self._state.must_be_writable(table)
        self.flush()
        yield from self.store.load(table, batches, long, self._repost)

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset and the spout state that the store has for a source; None if it has none.

        engine.remembered("file:a")
        """
        self._state.must_be_open()
        return self.store.remembered(source)

    def take(self, tables: dict[str, list[Batch]], strict: bool = False, atomic: bool = False) -> Counts:
        """Write batches that another process made in one transaction; with `strict` a rejection undoes it.

        With `atomic` either all partitions of the store commit it or none.

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
        """Free the space of old versions, and forget deletions beyond `tombstones=`, while others write.

        Later writes use the freed space. The file shrinks only by `penstock compact`, while no process has the store
        open. `progress` receives the number of records done and the total.

        engine.compact().freed
        """
        self._state.must_be_writable()
        self.flush()
        return self.store.compact(progress)

    @checked
    def copy(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Copied:
        """Copy the current state of the store into a folder that does not exist yet, and read the copy back.

        Others write meanwhile. The copy is a store itself. `progress` receives the step ("copying" or "checking"), the
        number of bytes done and the total.

        engine.copy("backups/monday").bytes
        """
        self.flush()
        path = self._state.path
        if path is None:
            raise CopyFailed(os.fspath(folder), "a store in memory has no file to copy", "open the app on a path")
        return self.store.copy(path, os.fspath(folder), progress)

    def begin_scrubbing(self, scrubbing: Scrubbing | None) -> None:
        """Start a thread that scrubs the store at intervals; a store in memory has no pages."""
        self._state.must_be_open()
        self.store.begin_scrubbing(scrubbing)

    def last_scrub(self) -> ScrubResult | None:
        """Return the result of the last scrub; None if there was none."""
        return self.store.last_scrub()

    def scrub_once(self, progress: Progress | None = None) -> None:
        """Walk all pages, and keep and log the result. Damage that no check repairs stops all transactions."""
        self._state.must_be_open()
        self.store.scrub(progress)

    def begin_group(self) -> None:
        """Make later puts return tickets, as with durability="group"."""
        self._committer = Committer(self.store.write_group, self._state.must_be_own_process)

    def flush(self) -> None:
        """Wait until all earlier puts are durable or have failed. With durability="sync" return at once.

        engine.flush()
        """
        self._state.must_be_open()
        if self._committer is not None:
            self._committer.flush()

    def settle(self) -> None:
        """Wait until every view shows all earlier puts. With one partition this equals `flush`.

        engine.settle()
        """
        self.flush()
        self.store.settle()

    # -- reading

    def snapshot(self, consistency: Consistency = "eventual") -> Snapshot:
        """Make a snapshot: all views and tables at one position, without later changes.

        With several partitions, each is read at a commit of its own. consistency="position" also waits until nothing is
        in flight between them. With one partition both are the same.

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
        final: bool = False,
    ) -> Iterator[Change]:
        """Iterate over the changes of these views, or of all, after the position `since`, in the order of commits.

        Without `since` it begins with the oldest change in the feed. With `initial` it begins with the current rows,
        each as a change from ABSENT. With `follow` it never ends, and yields a change some milliseconds after its
        commit. With `until` it ends after the changes of that position. If the feed has dropped changes after `since`,
        the call or a later step raises PositionExpired. A weak view may show contributions before their batch is saved.
        Their changes come after the save, or at once with `early`. With `final`, a view with a window gives each group
        once when its window closes, and again only if a late record changes it.

        for change in engine.changes("namecount", since=position, follow=True):
            print(change.group, change.old, change.new, change.position)
        """
        return _each(
            self.feed(*views, since=since, follow=follow, initial=initial, until=until, early=early, final=final)
        )

    @checked
    def feed(
        self,
        *views: str,
        since: Position | None = None,
        follow: bool = False,
        initial: bool = False,
        until: Position | None = None,
        early: bool = False,
        final: bool = False,
    ) -> Iterator[Changes]:
        """Iterate over the same changes as `changes`, in parts with columns. For many changes this costs far less.

        With several partitions, the changes of one group come in the order of commits. Groups of different partitions
        have no common order. After a change with a position, all changes up to this position have been yielded.

        for part in engine.feed("namecount", since=position):
            print(part.groups, part.old, part.new, part.positions)
        """
        self._state.must_be_open()
        return self.store.follow(FeedRequest(views, since, follow, initial, until, early, final))

    def status(self) -> dict[str, Any]:
        """Return tables, views, position, sources and sizes as plain data.

        engine.status()["tables"]["users"]["documents"]
        """
        self._state.must_be_open()
        return self.store.status()

    def digest(self) -> str:
        """Return one digest of all content. Stores with equal content have equal digests.

        engine.digest()
        """
        with self.store.settled() as snap:
            return digest_of(snap, self._state.app)

    def close(self) -> None:
        """Finish all puts and release the store. A forked child that inherited it has nothing to close.

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

    def _ticket(self, counts: Counts) -> Counts | Ticket:
        return counts if self._committer is None else Ticket.of(counts)

    def _one(self, table: str, batch: Batch, conditions: Mapping[Any, Any] | None) -> Counts | Ticket:
        if conditions:
            return self._ticket(self.write_if(table, [batch], False, conditions, False))
        self._state.must_be_writable(table)
        if self._committer is not None:
            return self._committer.submit(table, [batch])
        return self.store.write({table: [batch]}, None, False)


def _each(parts: Iterator[Changes]) -> Iterator[Change]:
    for part in parts:
        yield from part
