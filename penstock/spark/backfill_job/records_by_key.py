"""Sort records into the buckets of their keys, and cut them into blobs.

The engine's own spouts read files, so a record equals that of `load`. Rows of a DataFrame are documents, or records of
a Kafka topic with their keys and offsets. Invariants:

- All records of a key go to one bucket, with their places in their source.
- Rejected records go to the first bucket of their table, which writes them to quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import RecordError, key_hash, pack
from penstock.engine import Batch, delivered
from penstock.gateway import ReceivedRecord, TableBatch
from penstock.mapreduce import Decoder, FieldPlan, Spaces, key_lanes
from penstock.spark.task_messages import Bucket, JobPlan, Piece, SourceOffset
from penstock.spout import begun, json_key, open_file
from penstock.views import Table

__all__ = ["SCHEMA", "DocumentRows", "InputRows", "IntakeTask", "KafkaRows", "PieceRows", "pieces_read"]

SCHEMA = "p int, blob binary"
LIMIT = 50_000
_MOST = 48 << 20  # bytes of lines in memory before they are sent
_ORIGIN = 32  # bits below the origin in the major number of a place
_encode = msgspec.msgpack.Encoder().encode
_piece = msgspec.msgpack.Decoder(Piece).decode
Ints = NDArray[np.int64]


class InputRows(Protocol):
    """A source of batches from a task's rows, with the place of every record and of every rejected one."""

    @property
    def table(self) -> str:
        """The table of the records."""
        ...

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[SourceOffset]]]:
        """Yield batches, each with major and minor of all places, and the offsets that were reached."""
        ...


@dataclass(frozen=True, slots=True)
class PieceRows:
    """Parts of files of one table, a row each."""

    table: str

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[SourceOffset]]]:
        """Yield the records of these parts."""
        for batch in rows:
            for data in batch.column("piece").to_pylist():
                piece = _piece(data)
                for part, offsets in pieces_read(piece):
                    places = part.first - 1 + np.arange(part.records.n + len(part.skips))
                    yield part, np.full(places.size, piece.origin << _ORIGIN, np.int64), places, offsets


def pieces_read(piece: Piece) -> Iterator[tuple[Batch, list[SourceOffset]]]:
    """Yield the batches of a part of a file. The last batch of a file also has the offset of its end."""
    spout = open_file(piece.path, piece.table, piece.format, piece.delimiter, piece.nulls)
    try:
        if piece.offset:
            known = begun(piece.path, piece.format, piece.offset, piece.number)
            spout.begin(lambda source: known)
        left = piece.count
        while left and not spout.ended:
            batch = spout.next_batch(LIMIT if left < 0 else min(left, LIMIT))
            if batch is None:
                continue
            taken = len(batch.records.lines) + len(batch.skips)
            left = -1 if piece.count < 0 else max(0, left - taken)
            offsets = [SourceOffset(batch.source, batch.resume, batch.note)] if piece.count < 0 and batch.source else []
            yield delivered(batch), offsets
    finally:
        spout.close()


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """Rows of a DataFrame, each a document."""

    table: str
    origin: int

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[SourceOffset]]]:
        """Yield the documents."""
        done = 0
        for batch in rows:
            out = Batch(unit="row", first=done + 1)
            for doc in _documents(batch):
                out.add(doc)
            places = done + np.arange(batch.num_rows)
            done += batch.num_rows
            yield out, np.full(places.size, self.origin << _ORIGIN, np.int64), places, []


@dataclass(frozen=True, slots=True)
class KafkaRows:
    """Rows of a Kafka topic: value, key, partition, offset and the broker's timestamp. A null value is a deletion."""

    table: str
    origin: int
    broker_ts: bool

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[SourceOffset]]]:
        """Yield the records, in the order of their offsets."""
        for batch in rows:
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            stamps = batch.column("ts").to_pylist()
            out = Batch(unit="record")
            for key, value, ts in zip(keys, values, stamps, strict=True):
                own = ts if self.broker_ts else None
                if value is None:
                    out.delete(_key_of(key), own)
                else:
                    out.add(value, own)
            parts = np.asarray(batch.column("partition").to_pylist(), np.int64)
            offsets = np.asarray(batch.column("offset").to_pylist(), np.int64)
            yield out, (self.origin << _ORIGIN) | parts, offsets, []


def _key_of(key: bytes | None) -> Any:
    """Return the key of a deletion as a spout reads it: JSON, or else text."""
    if key is None:
        return None
    try:
        return json_key(key)
    except RecordError:  # not a text, so no key of a document
        return key.decode("utf-8", "surrogateescape")


def _documents(batch: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


@dataclass(frozen=True, slots=True)
class IntakeTask:
    """The task that turns rows of a source into blobs."""

    layout: JobPlan
    rows: InputRows

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the blobs of all buckets of these records."""
        table = self.layout.app.app().table_of(self.rows.table)
        sorting = _Sorting(self.layout, table)
        for batch, major, minor, offsets in self.rows.batches(batches):
            sorting.add(batch, major, minor, offsets)
            if sorting.size >= _MOST:
                yield from sorting.blobs()
        yield from sorting.blobs()


class _Sorting:
    """Records in memory, by bucket."""

    def __init__(self, layout: JobPlan, table: Table) -> None:
        self._plan = layout.tables[table.name]
        self._seed = layout.seed
        self._decoder = Decoder(FieldPlan.of(table.key, None, ()), Spaces(), layout.seed)
        self._parts: dict[int, list[Bucket]] = {}
        self.size = 0

    def add(self, batch: Batch, major: Ints, minor: Ints, offsets: list[SourceOffset]) -> None:
        """Add records with their places."""
        records = batch.records
        if records.n:
            self._sort(batch, major, minor)
        self.size += sum(map(len, records.lines))
        refused = _refused(batch, major, minor)
        if refused or offsets:
            self._parts.setdefault(0, []).append(Bucket(b"", b"", b"", None, [], {}, {}, refused, offsets))

    def _sort(self, batch: Batch, major: Ints, minor: Ints) -> None:
        records = batch.records
        at = np.array(batch.places(range(records.n)), np.int64)
        k0, k1 = self._lanes(batch)
        every = records.lines
        if records.deletes:
            lines = iter(records.lines)
            every = [b"" if i in records.deletes else next(lines) for i in range(records.n)]
        buckets = (key_hash(k0, k1) >> np.uint64(64 - self._plan.bits)) if self._plan.bits else np.zeros(k0.size, int)
        order = np.argsort(buckets, kind="stable")
        numbers, starts = np.unique(buckets[order], return_index=True)
        for number, a, b in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), order.size], strict=True):
            own = order[a:b]
            listed = own.tolist()
            deletes, stamps = _beside(records, listed)
            taken = at[own]
            part = Bucket(
                major[taken].tobytes(),
                minor[taken].tobytes(),
                k0[own].tobytes(),
                None if k1 is None else k1[own].tobytes(),
                [every[r] for r in listed],
                deletes,
                stamps,
                [],
                [],
            )
            self._parts.setdefault(number, []).append(part)

    def _lanes(self, batch: Batch) -> tuple[NDArray[np.uint64], NDArray[np.uint64] | None]:
        """Return the keys of all records as lanes. A record without a key has any value."""
        records = batch.records
        columns = self._decoder.columns(records.lines)
        if not records.deletes:
            return columns.k0, columns.k1
        (d0, d1), _ = key_lanes([deletion.key for deletion in records.deletes.values()], self._seed)
        docs, gone = records.places(), np.array(list(records.deletes), np.int64)
        k0 = np.zeros(records.n, np.uint64)
        k0[docs], k0[gone] = columns.k0, d0
        if columns.k1 is None and d1 is None:
            return k0, None
        k1 = np.zeros(records.n, np.uint64)
        k1[docs] = 0 if columns.k1 is None else columns.k1
        k1[gone] = 0 if d1 is None else d1
        return k0, k1

    def blobs(self) -> Iterator[Any]:
        """Yield all records in memory as blobs, and clear them."""
        import pyarrow as pa

        for number, parts in sorted(self._parts.items()):
            rows = [_encode(part) for part in parts]
            numbers = pa.array([self._plan.first + number] * len(rows), pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, pa.array(rows, pa.binary())], names=["p", "blob"])
        self._parts.clear()
        self.size = 0


def _beside(records: TableBatch, listed: list[int]) -> tuple[dict[int, tuple[bytes, Any]], dict[int, Any]]:
    """Return the deletions among some records, and the ts that came beside their documents."""
    gone, stamps = records.deletes, records.stamps
    if not gone and not stamps:
        return {}, {}
    deletes = {i: (pack(gone[r].key), gone[r].ts) for i, r in enumerate(listed) if r in gone}
    return deletes, {i: stamps[r] for i, r in enumerate(listed) if r in stamps}


def _refused(batch: Batch, major: Ints, minor: Ints) -> list[tuple[int, int, str, str, bytes, int, Any]]:
    """Return the rejected records."""
    out: list[tuple[int, int, str, str, bytes, int, Any]] = []
    for place, reason in batch.refused.items():
        got = batch.received.get(place) or ReceivedRecord.of(b"")
        out.append((int(major[place]), int(minor[place]), reason, got.form.value, got.data, got.size, got.ts))
    return out
