"""Read a Kafka topic. The store alone has the offsets of its partitions.

The spout assigns partitions itself and never subscribes, so the offsets of a consumer group have no effect here.
Offsets are also committed to the group, with a delay, for monitoring only. Invariants:

- a partition is read from the store's offset, however the former run ended. A partition that the store does not know
  starts at `from`, and this offset is committed before its first record;
- a topic is identified by its id. Offsets of a topic that was deleted and recreated are never used for the new one;
- if the records at the store's offset no longer exist, none are skipped unless `lost` allows it;
- a partition that is added later is read from its first record. The offset of partition 0 is stored last. So if the
  store knows partition 0, it knows all partitions that existed then.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.gateway import TableBatch
from penstock.kafka import Address, Broker, BrokerAway, Chunk, Client, KafkaReader, OffsetLost, Topic, until_ready
from penstock.spout.errors import SourceMissing, SourceUnreadable
from penstock.spout.kafka_buffer import KafkaBuffer
from penstock.spout.kafka_records import KafkaFormat
from penstock.spout.protocol import Contract, Recall, Remembered, SpoutBatch

EARLIEST, LATEST = "earliest", "latest"
FIRST = 0
_ATONCE = 10_000  # records per fetch
_GRACE = 0.005  # seconds that records wait for further records
_LOOK = 0.5  # seconds between two looks at the topic
_COMMIT = 1.0  # seconds between two commits to the group
_UNREAD = Contract(False, "whether it replays is known when the topic has been looked at")
_EXACT = Contract(True, "its records from an offset on are read again until the topic's retention deletes them")
_COMPACTED = Contract(False, "the topic is compacted: of a key only the latest record is sure to be read again")
_UNKNOWN = Contract(False, "the broker does not tell whether the topic is compacted")


class KafkaState(msgspec.Struct, array_like=True, frozen=True):
    """The spout state of a topic, stored with each batch."""

    topic: bytes  # the topic's id, empty if the broker reports none


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of reading a topic: the start of an unknown partition, and the reaction to lost records."""

    start: str | int = EARLIEST  # or a moment, in milliseconds
    lost: str | None = None  # None refuses to continue
    name: str | None = None  # the name of the topic in the store, if it differs
    shape: KafkaFormat = field(default_factory=KafkaFormat)


@dataclass(frozen=True, slots=True)
class _ReadPosition:
    """The offset from which a partition is read, and the store's offset before. `stands` says whether to report it."""

    partition: int
    before: int
    offset: int
    stands: bool = True


@dataclass(frozen=True, slots=True)
class Range:
    """A range of one partition: its source partition, its first offset, and the offset after its last."""

    source: str
    partition: int
    start: int
    stop: int
    unit: str
    state: bytes


class KafkaSpout:
    """The spout of one topic for a table. `clock` measures the time between two looks at the topic."""

    def __init__(
        self,
        address: Address,
        table: str,
        client: Client,
        reading: ReadOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = address.where
        self.contract = _UNREAD
        self.ended = False
        self.trouble: str | None = None
        self.timed = True  # whether timestamps are needed: a table may read its ts from them
        self.group = address.group
        self._address = address
        self.source = f"{table}=kafka:{reading.name or address.topic}"
        self._client = client
        self._reading = reading
        self._clock = clock
        self._looked = self._reported = 0.0
        self._broker: Broker | None = None
        self._reader: KafkaReader | None = None
        self._topic = Topic(b"", 0)
        self._given: dict[int, int] = {}  # by partition: the next offset to return
        self._fetched: dict[int, int] = {}  # the next offset to fetch
        self._durable: dict[int, int] = {}  # by partition: the offset to report to the group
        self._unreported = False
        self._held = KafkaBuffer()
        self._lost: OffsetLost | None = None
        self._standing: deque[SpoutBatch] = deque()
        self._begun = False  # whether the store knew the topic before
        self._stop: int | None = None  # the end of the range, if only one range is read

    # -- where to read

    def begin(self, recall: Recall) -> None:
        """Continue at the store's offset of each partition."""
        topic = until_ready(self._connected)
        known = {partition: recall(self._named(partition)) for partition in range(topic.partitions)}
        self._begun = known[FIRST] is not None
        places = until_ready(lambda: self._decided(topic, known))
        self._begun = True
        self._reader = self._opened()
        self._read_from(places)
        self._looked = self._clock()

    def _opened(self) -> KafkaReader:
        return self._client.reader(self._address, lean=self._lean)

    @property
    def _lean(self) -> bool:
        return not self.timed and self._reading.shape.by_value

    def _connected(self) -> Topic:
        """Connect to the brokers, and return the current state of the topic."""
        if self._broker is None:
            self._broker = self._client.broker(self._address)
        topic = self._broker.look(policy=True)
        if topic is None:
            raise SourceMissing(self.name, f"there is no topic {self._address.topic!r}", "create it, or check its name")
        self._topic = topic
        self.contract = {True: _COMPACTED, False: _EXACT, None: _UNKNOWN}[topic.compacted]
        return topic

    # -- ranges of a topic, for readers in other processes

    def ranges(self, until: str | int = LATEST) -> list[Range]:
        """Return the available range of each partition, up to a moment or to its end."""
        return until_ready(lambda: self._ranges(until))

    def _ranges(self, until: str | int) -> list[Range]:
        topic = self._connected()
        places = self._decided(topic, dict.fromkeys(range(topic.partitions)))
        assert self._broker is not None
        every = [place.partition for place in places]
        ends = {partition: end for partition, (_, end) in self._broker.bounds(every).items()}
        if isinstance(until, int):
            ends = self._broker.since(until, every)
        state = _encode(KafkaState(topic.id))
        return [
            Range(self._named(n), n, place.offset, max(place.offset, ends[n]), self._unit(n), state)
            for n, place in zip(every, places, strict=True)
        ]

    def begin_range(self, own: Range) -> None:
        """Read only this range of one partition, and end after it. Records that no longer exist raise an error."""
        topic = until_ready(self._connected)
        known = {own.partition: Remembered(own.start, own.state)}
        self._stop = own.stop
        self._reader = self._opened()
        self._read_from(until_ready(lambda: self._decided(topic, known)))
        self._standing.clear()
        self._looked = self._clock()

    def _named(self, partition: int) -> str:
        """Return the source partition of a partition."""
        return f"{self.source}/{partition}"

    def _decided(self, topic: Topic, known: Mapping[int, Remembered | None]) -> list[_ReadPosition]:
        """Decide from which offset to read each of these partitions."""
        assert self._broker is not None
        bounds = self._broker.bounds(list(known))
        fresh = [partition for partition, own in known.items() if own is None]
        start = EARLIEST if self._begun else self._reading.start  # partitions that are added later are read completely
        since = self._broker.since(start, fresh) if isinstance(start, int) and fresh else {}
        out: list[_ReadPosition] = []
        for partition, own in known.items():
            first, end = bounds[partition]
            if own is None:
                out.append(_ReadPosition(partition, 0, since.get(partition, end if start == LATEST else first)))
                continue
            reason = self._missing(topic, partition, own, first, end)
            instead = own.offset if reason is None else self._instead(reason, first, end)
            out.append(_ReadPosition(partition, own.offset, instead, stands=reason is not None))
        return out

    def _read_from(self, places: Sequence[_ReadPosition]) -> None:
        """Read these partitions. Batches without records first report offsets that the store does not know."""
        for place in reversed(places):
            self._given[place.partition] = self._fetched[place.partition] = place.offset
            self._held.drop(place.partition)
            if place.stands:
                batch = self._batch(place.partition, place.before, place.offset, TableBatch([]))
                batch.again = True
                self._standing.append(batch)
        assert self._reader is not None
        self._reader.assign(self._fetched)

    def _missing(self, topic: Topic, partition: int, own: Remembered, first: int, end: int) -> str | None:
        """Return the reason if the records at the store's offset no longer exist, or None."""
        where = f"the store stands at offset {own.offset} of partition {partition}"
        state = _kafka_state(own.note)
        if state.topic and topic.id and state.topic != topic.id:
            return f"the topic was deleted and made again since: {where} of the one before"
        if own.offset < first:
            return f"{where}, and the topic begins at {first}: {first - own.offset:,} records have expired unread"
        if own.offset > end:
            return f"{where}, and the topic ends at {end}: its end was lost, or another topic has its name"
        return None

    def _instead(self, reason: str, first: int, end: int) -> int:
        """Return the offset to continue at, according to `lost`. Raise SourceUnreadable without that option."""
        if self._reading.lost is None:
            raise SourceUnreadable(
                self.name,
                reason,
                "say with lost=earliest to go on at the first record that is there, or with lost=latest behind the "
                "last one; what is in the store stays",
            )
        return first if self._reading.lost == EARLIEST else end

    # -- batches

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the next records of one partition."""
        if self.ended:
            return None
        if not self._standing:
            self._gather(limit, wait)
            self._look()
        if self._standing:
            return self._standing.popleft()
        chunk = self._held.take(limit)
        if chunk is None:
            assert self._reader is not None, "it has begun"
            self.ended = self._stop is not None and min(map(self._reader.reached, self._given)) >= self._stop
            return None
        if self._stop is not None and chunk.offsets[-1] >= self._stop - 1:
            self.ended = True
            chunk, _ = chunk.cut(bisect_left(chunk.offsets, self._stop))
        return self._of(chunk) if len(chunk) else None

    def _of(self, chunk: Chunk) -> SpoutBatch:
        taken = self._reading.shape.take(chunk)
        start, resume = self._given[chunk.partition], chunk.offsets[-1] + 1
        self._given[chunk.partition] = resume
        out = self._batch(chunk.partition, start, resume, taken.batch, chunk.offsets)
        out.skips, out.refused, out.received = taken.skips, taken.refused, taken.received
        out.records.refused = len(taken.refused)
        return out

    def _unit(self, partition: int) -> str:
        """Return the text that precedes an offset in messages."""
        return f"{self._address.topic}-{partition}, offset"

    def _batch(
        self, partition: int, start: int, resume: int, records: TableBatch, offsets: Sequence[int] = ()
    ) -> SpoutBatch:
        return SpoutBatch(
            records,
            self._named(partition),
            start,
            resume,
            _encode(KafkaState(self._topic.id)),
            raw=False,
            unit=self._unit(partition),
            offsets=offsets,
        )

    def _gather(self, limit: int, wait: float) -> None:
        """Fetch records up to one full batch."""
        assert self._reader is not None, "it has begun"
        while self._lost is None and (room := self._held.room(limit)):
            try:
                chunks = self._reader.take(min(_ATONCE, room), min(wait, _GRACE) if self._held else wait)
            except OffsetLost as error:
                self._lost = error  # records before it are returned first
                break
            if not chunks:
                break
            for chunk in chunks:
                self._held.add(chunk)
                self._fetched[chunk.partition] = chunk.offsets[-1] + 1

    # -- changes of the topic

    def _look(self) -> None:
        """From time to time, check the topic's id, its number of partitions, and lost records."""
        now = self._clock()
        assert self._broker is not None
        assert self._reader is not None
        if now - self._reported >= _COMMIT and (self._unreported or self._reader.refusal() is not None):
            self._tell()
        lost = self._lost is not None and not self._held
        if now - self._looked < _LOOK and not lost:
            return
        self._looked = now
        try:
            topic = self._broker.look()
            self.trouble = self._reader.refusal()
            self._found(topic, lost)
        except BrokerAway as error:
            self.trouble = error.reason

    def _found(self, topic: Topic | None, lost: bool) -> None:
        """Compare the topic's current state with the former one."""
        if topic is None:
            self._gone()
        elif topic.id != self._topic.id or topic.partitions < len(self._given):
            self._anew(topic)
        elif topic.partitions > len(self._given) and self._stop is None:
            more = range(len(self._given), topic.partitions)
            self._read_from(self._decided(topic, dict.fromkeys(more)))
        elif lost:
            self._find(topic)

    def _gone(self) -> None:
        """Handle a deleted topic: raise an error, unless `lost` allows waiting for another one."""
        self._instead("the topic was deleted", 0, 0)
        self.trouble = "the topic was deleted, and is waited for"

    def _anew(self, topic: Topic) -> None:
        """Handle a recreated topic. Fetched records are dropped, because they may be of either topic."""
        old = _encode(KafkaState(self._topic.id))
        known = {p: Remembered(self._given[p], old) if p in self._given else None for p in range(topic.partitions)}
        places = self._decided(topic, known)
        self._forget()
        self._topic = topic
        self._read_from(places)

    def _forget(self) -> None:
        """Drop all fetched records and offsets."""
        self._held, self._given, self._fetched, self._durable, self._lost = KafkaBuffer(), {}, {}, {}, None

    def _find(self, topic: Topic) -> None:
        """Handle missing records at the next offset: they expired, or the end of the topic was lost."""
        assert self._lost is not None
        partition = self._lost.partition
        own = Remembered(self._given[partition], _encode(KafkaState(self._topic.id)))
        places = self._decided(topic, {partition: own})
        self._lost = None
        self._read_from(places)

    # -- the rest of the protocol

    def lag(self) -> int | None:
        """Return the number of offsets not returned yet, as far as the broker has reported the ends."""
        if self._reader is None:
            return None
        ends = self._reader.ends()
        return sum(max(0, end - self._given[partition]) for partition, end in ends.items() if partition in self._given)

    def committed(self, batch: SpoutBatch) -> None:
        """Note the offset, which is reported to the group a little later."""
        assert batch.source is not None
        self._durable[int(batch.source.rpartition("/")[2])] = batch.resume
        self._unreported = True

    def _tell(self, last: bool = False) -> None:
        if self._durable and self._reader is not None:
            self._reported, self._unreported = self._clock(), False
            self._reader.commit(self._durable, last)

    def close(self) -> None:
        """Commit the last offsets to the group, and close."""
        self.ended = True
        reader, broker, self._broker = self._reader, self._broker, None
        if reader is not None:
            self._tell(last=True)
            self._reader = None
            reader.close()
        if broker is not None:
            broker.close()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KafkaState).decode


def _kafka_state(data: bytes) -> KafkaState:
    """Decode the spout state. Invalid bytes give a state without a topic id."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return KafkaState(b"")
