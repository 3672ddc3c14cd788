"""Process the documents of one bucket: winning versions, the segment, and contributions to views and sides of joins.

The engine's own node of the table takes all records of the bucket as one batch, in their order, in an empty store.
Collecting nodes stand in place of its views and sides. So versions, rejections, holds and remembered emissions are
those of the engine for the same records. Invariants:

- A bucket is one batch. So no document has an earlier emission, and a held document has no contribution.
- Records of a source without order are sorted by their canonical bytes, deletions first. So the greater bytes win a
  tie.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    DocumentLog,
    Limits,
    MemoryStore,
    PenstockError,
    Reader,
    canonical,
    log_db,
    pack,
    read_mark,
    received_document,
    record_key,
    unpack,
)
from penstock.gateway import NUMBER, Deletion, ReceivedRecord, TableBatch, TableNode, stamps_of
from penstock.mapreduce import FunctionMapper, Spaces, ViewNode, Writes, emissions_db
from penstock.spark.backfill_job.contribution_collector import collecting_nodes, put_holds, put_shares
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile
from penstock.spark.task_messages import Bucket, JobPlan, TaskReport
from penstock.views import Table, reach

__all__ = ["REPORT", "BucketTask"]

REPORT = "report binary"
_bucket = msgspec.msgpack.Decoder(Bucket).decode
_encode = msgspec.msgpack.Encoder().encode
_COLUMNS = Limits(few=0)  # use columns for a batch of any size
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """The task that turns the blobs of some buckets into reports. Each result is in the report's file."""

    layout: JobPlan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the reports."""
        import pyarrow as pa

        blobs: dict[int, list[bytes]] = {}
        for batch in batches:
            for number, blob in zip(batch.column("p").to_pylist(), batch.column("blob").to_pylist(), strict=True):
                blobs.setdefault(number, []).append(blob)
        for number in sorted(blobs):
            report = write_bucket(self.layout, number, blobs.pop(number))
            yield pa.RecordBatch.from_arrays([pa.array([_encode(report)], pa.binary())], names=["report"])


class _Records:
    """The records of a bucket, in the order of their arrival."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        parts = [_bucket(blob) for blob in blobs]
        self.major: Ints = _joined([part.major for part in parts], np.int64)
        self.minor: Ints = _joined([part.minor for part in parts], np.int64)
        self.k0: NDArray[np.uint64] = _joined([part.k0 for part in parts], np.uint64)
        self.k1: NDArray[np.uint64] = _joined([part.k1 or bytes(len(part.k0)) for part in parts], np.uint64)
        self.lines = [line for part in parts for line in part.lines]
        self.refused = [one for part in parts for one in part.refused]
        self.source_offsets = [own for part in parts for own in part.source_offsets]
        self.deletes: dict[int, Deletion] = {}
        self.stamps: dict[int, Any] = {}
        at = 0
        for part in parts:
            self.deletes.update((at + i, Deletion(_key(key), ts)) for i, (key, ts) in part.deletes.items())
            self.stamps.update((at + i, ts) for i, ts in part.stamps.items())
            at += len(part.lines)

    def batch(self, order: Ints) -> TableBatch:
        """Return the records in this order, as one batch."""
        if not self.deletes and not self.stamps:
            return TableBatch([self.lines[i] for i in order.tolist()])
        out = TableBatch([])
        for place, i in enumerate(order.tolist()):
            deletion = self.deletes.get(i)
            if deletion is not None:
                out.deletes[place] = deletion
            else:
                out.lines.append(self.lines[i])
            if i in self.stamps:
                out.stamps[place] = self.stamps[i]
        return out

    def received(self, i: int) -> ReceivedRecord:
        """Return the received bytes of a record."""
        deletion = self.deletes.get(i)
        if deletion is not None:
            return ReceivedRecord.of_key(deletion.key, deletion.ts)
        return ReceivedRecord.of_line(self.lines[i], self.stamps.get(i))


def _joined(parts: Sequence[bytes], dtype: Any) -> NDArray[Any]:
    return np.frombuffer(b"".join(parts), dtype)


def _key(data: bytes) -> Any:
    key = unpack(data)
    return tuple(key) if isinstance(key, list) else key


def write_bucket(layout: JobPlan, number: int, blobs: Sequence[bytes]) -> TaskReport:
    """Process the records of a bucket, and write the results to a file."""
    app = layout.app.app()
    table = app.table_of(layout.table_of(number))
    plan = layout.tables[table.name]
    records = _Records(blobs)
    order, ties = np.lexsort((records.minor, records.major)), 0
    if not plan.ordered:
        order, ties = _by_bytes(records, order, table)
    spaces = Spaces()
    listeners = collecting_nodes(app, table, layout, spaces)
    log = DocumentLog(plan.number, table.has_ts, max(1, order.size), _COLUMNS)
    node = TableNode(table, plan.number, listeners, log, spaces, layout.seed)
    node.ts_kind = plan.ts_kind
    store, writes = MemoryStore(), Writes()
    with store.write() as writer:
        done = node.process(writer, records.batch(order), writes)
        writes.write(writer)
    path = os.path.join(layout.folder, f"documents-{number}")
    report = TaskReport(
        number, path, {}, order.size, ties=ties, ts_kind=node.ts_kind, source_offsets=records.source_offsets
    )
    with TaskResultFile(path) as frames, store.read() as reader:
        mark = read_mark(reader, plan.number)
        report.present, report.tombstones = mark.present, mark.tombstones
        if mark.tail:
            [segment] = reader.get_many(log_db(plan.number), [record_key(0)])
            assert segment is not None, "a batch is one segment"
            frames.add(FrameKind.SEGMENT, table.name, [b""], [segment])
        for listener in listeners:
            _view_emissions(frames, listener, reader)
        put_holds(frames, listeners, reader, report)
        put_shares(frames, listeners, writes, report)
        rejects = [
            pack([int(records.major[i]), int(records.minor[i]), reason, got.form.value, got.data, got.size, got.ts])
            for place, reason in done.rejected.items()
            for i, got in [(int(order[place]), records.received(int(order[place])))]
        ]
        rejects += [pack(list(own)) for own in records.refused]
        report.rejected = len(rejects)
        frames.add(FrameKind.REJECT, table.name, [b""] * len(rejects), rejects)
    return report


def _view_emissions(frames: TaskResultFile, listener: ViewNode, reader: Reader) -> None:
    """Write the remembered emissions of a view."""
    if isinstance(listener.mapper, FunctionMapper):
        [row] = reader.get_many(emissions_db(listener.number), [record_key(0)])
        if row is not None:
            frames.add(FrameKind.EMISSIONS, listener.name, [b""], [row])


def _by_bytes(records: _Records, order: Ints, table: Table) -> tuple[Ints, int]:
    """Return the order of records of a source without one, and the number of ties: equal ts with other bytes."""
    k0, k1 = records.k0[order], records.k1[order]
    _, which, times = np.unique(np.stack((k0, k1)), axis=1, return_inverse=True, return_counts=True)
    again = np.flatnonzero(times[which.ravel()] > 1)
    if not again.size:
        return order, 0
    own = order[again].tolist()
    bodies = {i: _canonical(records, i) for i in own}
    stamps = _ranks(records, own, table)
    placed = sorted(own, key=lambda i: (i not in records.deletes, bodies[i], i))
    seen: dict[tuple[int, int, int], set[bytes]] = {}
    for i in own:
        known = seen.setdefault((int(records.k0[i]), int(records.k1[i]), stamps[i]), set())
        known.add(b"" if i in records.deletes else b"+" + bodies[i])
    out = order.copy()
    out[again] = placed
    return out, sum(len(known) - 1 for known in seen.values())


def _canonical(records: _Records, i: int) -> bytes:
    if i in records.deletes:
        return b""
    document = _document(records.lines[i])
    return records.lines[i] if document is None else canonical(document)


def _document(line: bytes) -> dict[str, Any] | None:
    """Return the document of a line, or None if it can't be accepted."""
    try:
        return received_document(line)
    except (PenstockError, ValueError, RecursionError):
        return None


def _ranks(records: _Records, own: Sequence[int], table: Table) -> dict[int, int]:
    """Return for each record the rank of its ts among those of its bucket."""
    values: list[Any] = []
    for i in own:
        if i in records.deletes:
            values.append(records.deletes[i].ts)
        elif table.broker_ts:
            values.append(records.stamps.get(i))
        elif table.ts is not None:
            document = _document(records.lines[i])
            values.append(None if document is None else reach(document, table.ts))
        else:
            values.append(0)
    bad = {j for j, value in enumerate(values) if value is None}
    stamps, _, _ = stamps_of(values, NUMBER if table.broker_ts else None, bad)
    return dict(zip(own, stamps.ranks().tolist(), strict=True))
