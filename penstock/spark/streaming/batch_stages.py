"""The stages of a batch as Spark tasks: TAKE, and one RECEIVE for each level of views.

    routed records ── shuffle by partition ──▶ TAKE ── shuffle by receiver ──▶ RECEIVE … ──▶ reports

A task asks the process of its partition on this host. If that process does not have the stages before, it says so, and
the driver repeats the batch. Rows between stages have the receiver and one blob of MessagePack.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from penstock.cache import unpack
from penstock.core import Resume
from penstock.partitions import (
    END_STAGE,
    RECEIVE_STAGE,
    TAKE_STAGE,
    WRITE_SNAPSHOT,
    BatchTurn,
    Blob,
    OffsetRange,
    Report,
    SnapshotFile,
    StateVersion,
    Tables,
    Taken,
)
from penstock.remote import batch_of
from penstock.spark.spark_session import map_arrow
from penstock.spark.streaming.stream_plan import StreamPlan, client_of, host, settled_heap
from penstock.views import App, Join, View

__all__ = ["BatchPlan", "StageReport", "levels_of", "reports_of"]

STAGED = "receiver int, blob binary"
_encode = msgspec.msgpack.Encoder().encode
_blob_of = msgspec.msgpack.Decoder(Blob | None).decode


class StageReport(msgspec.Struct, array_like=True):
    """The report of a partition, with the host of its process, and a snapshot file if one was wanted."""

    report: Report
    host: str
    snapshot: SnapshotFile | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch: its turn, the state versions before it, and the partitions that write snapshot files."""

    stream: StreamPlan
    turn: BatchTurn
    bases: tuple[StateVersion, ...]
    kinds: Mapping[str, str]
    levels: int
    snapshots: frozenset[int]


def levels_of(app: App) -> int:
    """Return the number of RECEIVE stages: the most views and joins that a record passes one after the other."""
    depths: dict[str, int] = {table.name: 0 for table in app.tables()}
    definitions: list[Join | View] = [*app.joins(), *app.views()]
    for own in sorted(definitions, key=lambda own: own.order):
        if isinstance(own, View):
            depths[own.name] = 1 + depths[own.source.name]
        else:  # the entries of each further side pass to the owner of its condition value
            depths[own.name] = len(own.sides) - 1 + max(depths[side.source.name] for side in own.sides)
    return max(1, *depths.values())


def reports_of(frame: Any, plan: BatchPlan) -> list[StageReport]:
    """Run the stages of a batch, and return the report of each partition."""
    many = plan.stream.partitions
    staged = map_arrow(frame.repartitionById(many, "receiver"), partial(_take, plan), STAGED)
    for level in range(1, plan.levels + 1):
        stage = partial(_receive, plan, level)
        staged = map_arrow(staged.repartitionById(many, "receiver"), stage, STAGED)
    return [msgspec.msgpack.decode(row.blob, type=StageReport) for row in staged.collect()]


def _take(plan: BatchPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Run the TAKE stage of the partitions of a task."""
    settled_heap()
    rows: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            rows.setdefault(row["receiver"], []).append(row)
    for partition, own in sorted(rows.items()):
        own.sort(key=lambda row: row["place"])
        tables, offsets, kinds = _gathered(own)
        taken: Taken = client_of(plan.stream, partition).call(
            TAKE_STAGE,
            turn=plan.turn,
            base=plan.bases[partition],
            tables=tables,
            offsets=offsets,
            kinds={**kinds, **plan.kinds},
        )
        yield _staged(partition, taken)


def _gathered(rows: list[dict[str, Any]]) -> tuple[Tables, dict[str, OffsetRange], dict[str, str]]:
    """Return the batches of a partition by table, the offset range of each source partition, and the kinds of ts."""
    tables: Tables = {}
    offsets: dict[str, OffsetRange] = {}
    kinds: dict[str, str] = {}
    for row in rows:
        source = row["place"].partition("\0")[0]
        first = offsets[source].first if source in offsets else row["first"]
        offsets[source] = OffsetRange(first, Resume(row["resume"], row["note"]))
        for table, kind in json.loads(row["kinds"]).items():
            kinds.setdefault(table, kind)
        tables.setdefault(row["table"], []).extend(map(batch_of, unpack(row["blob"])))
    return tables, offsets, kinds


def _staged(partition: int, taken: Taken) -> Any:
    """Return the productions of a stage by receiver, with a row for the partition itself: its next stage runs too."""
    rows: Iterable[tuple[int, Blob | None]] = [(partition, None), *((blob.receiver, blob) for blob in taken.blobs)]
    return _rows([(receiver, _encode(blob)) for receiver, blob in rows])


def _rows(rows: list[tuple[int, bytes]]) -> Any:
    import pyarrow as pa

    receivers, blobs = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {"receiver": pa.array(receivers, pa.int32()), "blob": pa.array(blobs, pa.binary())}
    )


def _receive(plan: BatchPlan, level: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Run a RECEIVE stage of the partitions of a task. The last one reports."""
    settled_heap()
    blobs: dict[int, list[Blob]] = {}
    for batch in batches:
        for receiver, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            own = blobs.setdefault(receiver, [])
            if (blob := _blob_of(data)) is not None:
                own.append(blob)
    for partition, received in sorted(blobs.items()):
        client = client_of(plan.stream, partition)
        if level < plan.levels:
            yield _staged(partition, client.call(RECEIVE_STAGE, turn=plan.turn, level=level, blobs=received))
            continue
        report: Report = client.call(END_STAGE, turn=plan.turn, level=level, blobs=received)
        snapshot = client.call(WRITE_SNAPSHOT) if partition in plan.snapshots else None
        yield _rows([(partition, _encode(StageReport(report, host(), snapshot)))])
