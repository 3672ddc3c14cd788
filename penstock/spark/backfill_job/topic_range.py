"""A range of a Kafka topic on its way into a backfill: a task for each partition, which reads it as `run` would.

The range ends where the topic ended when it was looked at, or at a moment. Invariants:

- a partition's source goes on behind the last record that was taken, and at no other place: whatever was not read, a
  marker or what came since, is read by who goes on;
- no more of a partition is in memory than what waits for its buckets.
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
from penstock.spark.task_messages import Note
from penstock.spout import LATEST, KafkaSpout, Range, SourceUnreadable, SpoutBatch, Uri, UriError, moment_in, open_kafka

__all__ = ["TopicRows", "head_of", "opened", "range_data", "ranges_of"]

_LIMIT = 50_000
_WAIT = 1.0  # seconds of a look
_AWAY = 60  # looks in which nothing came
_UNTIL = "until"
_ORIGIN = 32
_encode = msgspec.msgpack.Encoder().encode
_ranged = msgspec.msgpack.Decoder(tuple[int, tuple[str, int, int, int, str, bytes]]).decode
Ints = NDArray[np.int64]


def opened(uri: Uri, table: str) -> KafkaSpout:
    """The spout of a topic whose records are all for one table."""
    options = {name: value for name, value in uri.options.items() if name != _UNTIL}
    spout, named = open_kafka(replace(uri, options=options), table)
    if named:
        raise UriError(
            uri.text, "its records name their tables themselves", "use `penstock run`, or leave out envelope="
        )
    return spout


def ranges_of(uri: Uri, table: str) -> list[Range]:
    """What is to be read of each partition."""
    spout = opened(uri, table)
    try:
        return spout.ranges(moment_in(uri, _UNTIL, LATEST))
    finally:
        spout.close()


def range_data(own: Range, origin: int) -> bytes:
    """A range on its way to a task, with the number of its origin."""
    return _encode((origin, (own.source, own.partition, own.start, own.stop, own.unit, own.note)))


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Ranges of one topic, a row each."""

    table: str
    uri: Uri
    broker_ts: bool

    def batches(self, rows: Iterator[Any]) -> Iterator[tuple[Batch, Ints, Ints, list[Note]]]:
        """The records of these ranges, and behind the last of each where its source goes on."""
        for batch in rows:
            for data in batch.column("piece").to_pylist():
                origin, fields = _ranged(data)
                own, resume = Range(*fields), fields[2]
                for part in _read(self.uri, self.table, own):
                    resume = part.resume
                    yield self._taken(part, origin)
                nothing = np.zeros(0, np.int64)
                yield Batch(), nothing, nothing, [Note(own.source, resume, own.note)]

    def _taken(self, part: SpoutBatch, origin: int) -> tuple[Batch, Ints, Ints, list[Note]]:
        records = part.records
        if self.broker_ts:
            records.stamps = {i: records.stamp(i) for i in range(records.n)}
            for place, gone in records.deletes.items():
                if gone.ts is None:
                    records.deletes[place] = Deletion(gone.key, records.stamps[place])
        places = np.asarray(part.offsets, np.int64)
        return delivered(part), np.full(places.size, origin << _ORIGIN, np.int64), places, []


def head_of(uri: Uri, table: str, ranges: list[Range]) -> Iterator[SpoutBatch]:
    """Some records of each partition."""
    for own in ranges:
        if own.start < own.stop:
            parts = _read(uri, table, own, most=1_000)
            yield from (part for _, part in zip(range(1), parts, strict=False))
            parts.close()


def _read(uri: Uri, table: str, own: Range, most: int = _LIMIT) -> Generator[SpoutBatch]:
    """The batches of a range."""
    spout = opened(uri, table)
    try:
        if own.start < own.stop:
            spout.begin_range(own)
        away = 0
        while own.start < own.stop and not spout.ended:
            batch = spout.next_batch(most, _WAIT)
            if batch is not None:
                away = 0
                yield batch
            elif not spout.ended and (away := away + 1) == _AWAY:
                reason = spout.trouble or f"the brokers sent no record before offset {own.stop:,}"
                raise SourceUnreadable(spout.name, reason, "run this again when the brokers answer")
    finally:
        spout.close()
