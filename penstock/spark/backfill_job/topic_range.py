"""Read a range of a Kafka topic into a backfill: a task for each partition, which reads it as `run` would.

The range ends at the topic's end when the backfill starts, or at a time. Invariants:

- The offset of a partition is after the last record that was read. A later reader gets everything else: markers, and
  records that arrived since.
- Memory holds only the records of a partition that are not sent to their buckets yet.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.engine import Batch, delivered
from penstock.gateway import Deletion
from penstock.spark.task_messages import SourceOffset
from penstock.spout import LATEST, KafkaSpout, Range, SourceUnreadable, SpoutBatch, Uri, UriError, moment_in, open_kafka

__all__ = ["TopicRows", "head_of", "opened", "range_data", "ranges_of"]

_LIMIT = 50_000
_WAIT = 1.0  # seconds to wait for records
_UNREACHABLE = 60  # waits without a record until the broker counts as unreachable
_UNTIL = "until"
_ORIGIN = 32
_encode = msgspec.msgpack.Encoder().encode
_ranged = msgspec.msgpack.Decoder(tuple[int, tuple[str, int, int, int, str, bytes]]).decode
Ints = NDArray[np.int64]


def opened(uri: Uri, table: str) -> KafkaSpout:
    """Return the spout of a topic whose records are all for one table."""
    options = {name: value for name, value in uri.options.items() if name != _UNTIL}
    spout, named = open_kafka(replace(uri, options=options), table)
    if named:
        raise UriError(
            uri.text, "its records name their tables themselves", "use `penstock run`, or leave out envelope="
        )
    return spout


def ranges_of(uri: Uri, table: str) -> list[Range]:
    """Return the range to read of each partition."""
    spout = opened(uri, table)
    try:
        return spout.ranges(moment_in(uri, _UNTIL, LATEST))
    finally:
        spout.close()


def range_data(own: Range, origin: int) -> bytes:
    """Return a range as bytes for a task, with the number of its origin."""
    return _encode((origin, (own.source, own.partition, own.start, own.stop, own.unit, own.state)))


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Ranges of one topic, a row each."""

    table: str
    uri: Uri
    broker_ts: bool

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[SourceOffset]]]:
        """Yield the records of these ranges, and after the last of each the offset at which its source continues."""
        for batch in rows:
            for data in batch.column("piece").to_pylist():
                origin, fields = _ranged(data)
                own, resume = Range(*fields), fields[2]
                for part in _read(self.uri, self.table, own):
                    resume = part.resume
                    yield self._taken(part, origin)
                nothing = np.zeros(0, np.int64)
                yield Batch(), nothing, nothing, [SourceOffset(own.source, resume, own.state)]

    def _taken(self, part: SpoutBatch, origin: int) -> tuple[Batch, Ints, Ints, list[SourceOffset]]:
        records = part.records
        if self.broker_ts:
            records.stamps = {i: records.stamp(i) for i in range(records.n)}
            for place, gone in records.deletes.items():
                if gone.ts is None:
                    records.deletes[place] = Deletion(gone.key, records.stamps[place])
        places = np.asarray(part.offsets, np.int64)
        return delivered(part), np.full(places.size, origin << _ORIGIN, np.int64), places, []


def head_of(uri: Uri, table: str, ranges: list[Range]) -> Iterator[SpoutBatch]:
    """Yield some records of each partition."""
    for own in ranges:
        if own.start < own.stop:
            parts = _read(uri, table, own, most=1_000)
            yield from (part for _, part in zip(range(1), parts, strict=False))
            parts.close()


def _read(uri: Uri, table: str, own: Range, most: int = _LIMIT) -> Generator[SpoutBatch]:
    """Yield the batches of a range."""
    spout = opened(uri, table)
    try:
        if own.start < own.stop:
            spout.begin_range(own)
        failures = 0
        while own.start < own.stop and not spout.ended:
            batch = spout.next_batch(most, _WAIT)
            if batch is not None:
                failures = 0
                yield batch
            elif not spout.ended and (failures := failures + 1) == _UNREACHABLE:
                reason = spout.trouble or f"the brokers sent no record before offset {own.stop:,}"
                raise SourceUnreadable(spout.name, reason, "run this again when the brokers answer")
    finally:
        spout.close()
