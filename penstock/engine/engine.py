"""The engine as users have it: put, delete, batches, snapshots.

One lock stands before the writer, so that puts are thread-safe; a batch is decided, written and synced under it.
Snapshots take no lock and never wait for the writer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Self

from penstock.cache import BatchRejected, Closed, Owner, ReadOnly
from penstock.engine.core import Core, counts_of
from penstock.engine.digest import digest_of
from penstock.engine.documents import Batch, batches_of
from penstock.engine.group import Committer, Ticket
from penstock.engine.helper import helped
from penstock.engine.snapshot import Snapshot
from penstock.engine.status import status_of
from penstock.gateway import TableBatch
from penstock.spout import Record
from penstock.views import KEPT, Counts, Rejection


class Engine:
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

    def __init__(self, core: Core, path: str | None, owner: Owner | None, readonly: bool, grouped: bool) -> None:
        self._core = core
        self._path = path
        self._owner = owner
        self._readonly = readonly
        self._lock = threading.RLock()
        self._closed = False
        self._committer = Committer(self._commit_group) if grouped else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<engine of {self._core.app.name!r} at {self._path or 'memory'}>"

    # -- writing

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts | Ticket:
        """Put one document, a dict or a JSON object; durable when this returns. `ts` is for tables with ts="@kafka".

        engine.put("users", {"id": 7, "name": "Sue", "ts": 1})
        """
        batch = Batch()
        batch.add(doc, ts)
        return self._one(table, batch)

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts | Ticket:
        """Delete the document with this key; without `ts` as of the current version's.

        engine.delete("users", 7, ts=2)
        """
        batch = Batch()
        batch.delete(key, ts)
        return self._one(table, batch)

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
        self._writable(None)
        transaction = Transaction(self)
        try:
            yield transaction
        finally:
            tables = transaction.take()
        self.flush()
        transaction.counts = self._write(tables, None, False)

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take what a spout delivers; `resume`, the next offset to read, commits with the data.

        A record below the offset that is committed already is a redelivery: it changes nothing and counts as late.

        engine.ingest([ps.Record("users", 7, {"id": 7, "name": "Sue"}, offset=41)], source="file:a", resume=42)
        """
        self._writable(None)
        self.flush()
        with self._lock:
            self._core.ready()
            done = self._core.state.sources.get(source, 0)
            tables: dict[str, list[Batch]] = {}
            late = 0
            for record in records:
                if record.offset is not None and record.offset < done:
                    late += 1
                    continue
                self._core.app.table_of(record.table)
                own = tables.setdefault(record.table, [Batch(unit="record")])[0]
                if record.doc is None:
                    own.delete(record.key, record.ts)
                else:
                    own.add(record.doc, record.ts)
            return self._write(tables, {source: resume}, False) + Counts(late=late)

    def flush(self) -> None:
        """Wait until all that was put before is durable, or has failed; at once under durability="sync".

        engine.flush()
        """
        if self._committer is not None:
            self._committer.flush()

    # -- reading

    def snapshot(self) -> Snapshot:
        """All views and tables at one position; it sees nothing of what comes after.

        with engine.snapshot() as snap:
            snap.view("namecount")["Sue"]
        """
        self._open()
        return Snapshot(self._core)

    def status(self) -> dict[str, Any]:
        """Tables, views, position, sources and sizes, as data.

        engine.status()["tables"]["users"]["documents"]
        """
        with self.snapshot() as snap:
            return status_of(self._core, snap, self._path, self._readonly)

    def digest(self) -> str:
        """One digest over all content: equal for equal content, whatever its history.

        engine.digest()
        """
        with self.snapshot() as snap:
            return digest_of(self._core, snap)

    def close(self) -> None:
        """Finish what was put and let go of the store.

        engine.close()
        """
        if self._closed:
            return
        try:
            if self._committer is not None:
                self._committer.close()
        finally:
            with self._lock:
                self._closed = True
                self._core.close()
                if self._owner is not None:
                    self._owner.close()

    # -- within

    def _open(self) -> None:
        if self._closed:
            raise Closed(f"the engine of {self._core.app.name!r}")

    def _writable(self, table: str | None) -> None:
        self._open()
        if self._readonly:
            raise ReadOnly(self._path or "memory")
        if table is not None:
            self._core.app.table_of(table)

    def _one(self, table: str, batch: Batch) -> Counts | Ticket:
        self._writable(table)
        if self._committer is not None:
            return self._committer.submit(table, [batch])
        return self._write({table: [batch]}, None, False)

    def _write(self, tables: dict[str, list[Batch]], sources: dict[str, int] | None, strict: bool) -> Counts:
        """One transaction of these batches; their counts."""
        return self._write_each(tables, sources, strict)[0]

    def _write_each(
        self, tables: dict[str, list[Batch]], sources: dict[str, int] | None, strict: bool
    ) -> tuple[Counts, dict[int, Counts]]:
        """One transaction of these batches; the counts of all, and of each by its identity."""
        joined = {name: _joined(parts) for name, parts in tables.items()}
        with self._lock:
            self._open()
            done = self._core.commit(joined, sources, strict)
        total, each = Counts(), {}
        for name, parts in tables.items():
            start = 0
            for part in parts:
                places = slice(start, start + part.records.n)
                start = places.stop
                own = _counts(name, part, done[name], places)
                each[id(part)] = own
                total += own
        return total, each

    def _commit_group(self, work: Sequence[tuple[str, Batch]]) -> dict[int, Counts]:
        tables: dict[str, list[Batch]] = {}
        for name, part in work:
            tables.setdefault(name, []).append(part)
        return self._write_each(tables, None, False)[1]


def _joined(parts: list[Batch]) -> TableBatch:
    """The records of several batches of one table, in order."""
    if len(parts) == 1:
        return parts[0].records
    out = TableBatch([])
    for part in parts:
        start = out.n
        out.refused += part.records.refused
        out.lines += part.records.lines
        out.deletes.update((start + i, d) for i, d in part.records.deletes.items())
        out.stamps.update((start + i, ts) for i, ts in part.records.stamps.items())
    return out


def _counts(table: str, part: Batch, report: Any, places: slice) -> Counts:
    applied, equal, late, held, rejected = counts_of(report, places)
    why = dict(islice(part.refused.items(), KEPT))
    if rejected:
        own = sorted(i for i in report.rejected if places.start <= i < places.stop)
        why |= {part.place(i - places.start): report.rejected[i] for i in own[:KEPT]}
    first = tuple(Rejection(table, part.where(place), why[place]) for place in sorted(why)[:KEPT])
    return Counts(applied, equal, late, held, rejected + part.records.refused, first)


class Transaction:
    """What `engine.batch()` gives: records that become one transaction at the end of the block.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users, orders = app.table("users", key="id"), app.table("orders", key="number")
    >>> with ps.open(app, None) as engine:
    ...     with engine.batch() as b:
    ...         b.put("users", {"id": 7, "name": "Sue"})
    ...         b.put("orders", {"number": 1, "user": 7})
    ...     print(b.counts)
    2 applied
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables: dict[str, list[Batch]] = {}
        self._ended = False
        self.counts = Counts()

    def put(self, table: str, doc: Any, ts: Any = None) -> None:
        """Put one document.

        b.put("users", {"id": 7, "name": "Sue"})
        """
        self._batch(table).add(doc, ts)

    def put_many(self, table: str, docs: Any) -> None:
        """Put many documents, all of them in this transaction.

        b.put_many("users", [{"id": 7}, {"id": 8}])
        """
        parts = self._parts(table)
        parts += list(batches_of(docs, 1 << 31))

    def delete(self, table: str, key: Any, ts: Any = None) -> None:
        """Delete the document with this key.

        b.delete("orders", 12)
        """
        self._batch(table).delete(key, ts)

    def take(self) -> dict[str, list[Batch]]:
        """What is to be written; nothing can be added then."""
        self._ended = True
        return self._tables

    def _parts(self, table: str) -> list[Batch]:
        if self._ended:
            raise Closed("the batch")
        self._engine._writable(table)
        return self._tables.setdefault(table, [])

    def _batch(self, table: str) -> Batch:
        parts = self._parts(table)
        if not parts or parts[-1].unit != "record":
            before = sum(part.size for part in parts if part.unit == "record")
            parts.append(Batch(unit="record", first=1 + before))
        return parts[-1]
