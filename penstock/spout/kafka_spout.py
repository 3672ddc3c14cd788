"""The spout of a Kafka topic: the store knows the offset of each of its partitions, and it alone decides.

The partitions are assigned and never subscribed to, so what a group's members have read or committed changes nothing
here; what is committed to the group is for monitors, and trails. Invariants:

- a partition is read from the store's offset, however it ended before; one that the store doesn't know begins where
  `from` says, and that is committed before its first record;
- a topic is known by its id: offsets of one that was deleted and made again are never taken for those of the old one;
- where the records from the store's offset on are not there any more, nothing is passed over unless `lost` says so;
- a partition that comes later is read from its first record: the store is told of partition 0 last, and where it knows
  that one it knew all those that were there.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.gateway import TableBatch
from penstock.kafka import Address, Broker, BrokerAway, Chunk, Client, OffsetLost, Reader, Topic, until_ready
from penstock.spout.errors import SourceMissing, SourceUnreadable
from penstock.spout.kafka_fetched import Held
from penstock.spout.kafka_records import Shape
from penstock.spout.protocol import Contract, Recall, Remembered, SpoutBatch

EARLIEST, LATEST = "earliest", "latest"
FIRST = 0
_ATONCE = 10_000  # records of one look
_GRACE = 0.005  # seconds that records which came wait for others
_LOOK = 0.5  # seconds between two looks at the topic
_COMMIT = 1.0  # seconds between two commits to the group
_UNREAD = Contract(False, "whether it replays is known when the topic has been looked at")
_EXACT = Contract(True, "its records from an offset on are read again until the topic's retention deletes them")
_COMPACTED = Contract(False, "the topic is compacted: of a key only the latest record is sure to be read again")
_UNTOLD = Contract(False, "the broker does not tell whether the topic is compacted")


class Note(msgspec.Struct, array_like=True, frozen=True):
    """What the spout notes with each batch."""

    topic: bytes  # its id, empty where the broker tells none


@dataclass(frozen=True, slots=True)
class Reading:
    """How a topic is read: where a partition begins that the store doesn't know, and what to do about what is lost."""

    start: str | int = EARLIEST  # or a moment, in milliseconds
    lost: str | None = None  # None refuses
    name: str | None = None  # what the store calls the topic, if not by its name
    shape: Shape = field(default_factory=Shape)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a partition is read from, and where the store stood; whether it is to be told."""

    partition: int
    before: int
    offset: int
    stands: bool = True


@dataclass(frozen=True, slots=True)
class Range:
    """What is there of a partition: what the store calls it, from which offset on, and the one after the last."""

    source: str
    partition: int
    start: int
    stop: int
    unit: str
    note: bytes


class KafkaSpout:
    """One topic into a table; `clock` is how time passes between two looks at it."""

    def __init__(
        self,
        address: Address,
        table: str,
        client: Client,
        reading: Reading,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = address.where
        self.contract = _UNREAD
        self.ended = False
        self.trouble: str | None = None
        self.timed = True  # whether the times of records are asked for: a table may take its ts from them
        self.group = address.group
        self._address = address
        self.source = f"{table}=kafka:{reading.name or address.topic}"
        self._client = client
        self._reading = reading
        self._clock = clock
        self._looked = self._told = 0.0
        self._broker: Broker | None = None
        self._reader: Reader | None = None
        self._topic = Topic(b"", 0)
        self._given: dict[int, int] = {}  # by partition: the next to give
        self._fetched: dict[int, int] = {}  # the next to fetch
        self._durable: dict[int, int] = {}  # by partition: what the group is told
        self._untold = False
        self._held = Held()
        self._lost: OffsetLost | None = None
        self._standing: deque[SpoutBatch] = deque()
        self._begun = False  # whether the store knew the topic before
        self._stop: int | None = None  # where the range of the one partition ends that is read

    # -- where to read

    def begin(self, recall: Recall) -> None:
        """Go on where the store stands in each partition."""
        topic = until_ready(self._connected)
        known = {partition: recall(self._named(partition)) for partition in range(topic.partitions)}
        self._begun = known[FIRST] is not None
        places = until_ready(lambda: self._decided(topic, known))
        self._begun = True
        self._reader = self._opened()
        self._read_from(places)
        self._looked = self._clock()

    def _opened(self) -> Reader:
        return self._client.reader(self._address, lean=self._lean)

    @property
    def _lean(self) -> bool:
        return not self.timed and self._reading.shape.by_value

    def _connected(self) -> Topic:
        """The topic as it is."""
        if self._broker is None:
            self._broker = self._client.broker(self._address)
        topic = self._broker.look(policy=True)
        if topic is None:
            raise SourceMissing(self.name, f"there is no topic {self._address.topic!r}", "create it, or check its name")
        self._topic = topic
        self.contract = {True: _COMPACTED, False: _EXACT, None: _UNTOLD}[topic.compacted]
        return topic

    # -- a topic read in parts, by others

    def ranges(self, until: str | int = LATEST) -> list[Range]:
        """What is there of each partition, up to a moment or to its end."""
        return until_ready(lambda: self._ranges(until))

    def _ranges(self, until: str | int) -> list[Range]:
        topic = self._connected()
        places = self._decided(topic, dict.fromkeys(range(topic.partitions)))
        assert self._broker is not None
        every = [place.partition for place in places]
        ends = {partition: end for partition, (_, end) in self._broker.bounds(every).items()}
        if isinstance(until, int):
            ends = self._broker.since(until, every)
        note = _encode(Note(topic.id))
        return [
            Range(self._named(n), n, place.offset, max(place.offset, ends[n]), self._unit(n), note)
            for n, place in zip(every, places, strict=True)
        ]

    def begin_range(self, own: Range) -> None:
        """Read this range of one partition alone, and end behind it; what is not there any more is an error."""
        topic = until_ready(self._connected)
        known = {own.partition: Remembered(own.start, own.note)}
        self._stop = own.stop
        self._reader = self._opened()
        self._read_from(until_ready(lambda: self._decided(topic, known)))
        self._standing.clear()
        self._looked = self._clock()

    def _named(self, partition: int) -> str:
        """What the store calls a partition."""
        return f"{self.source}/{partition}"

    def _decided(self, topic: Topic, known: Mapping[int, Remembered | None]) -> list[_Place]:
        """Where each of these partitions is to be read from."""
        assert self._broker is not None
        bounds = self._broker.bounds(list(known))
        fresh = [partition for partition, own in known.items() if own is None]
        start = EARLIEST if self._begun else self._reading.start  # later ones are read whole
        since = self._broker.since(start, fresh) if isinstance(start, int) and fresh else {}
        out: list[_Place] = []
        for partition, own in known.items():
            first, end = bounds[partition]
            if own is None:
                out.append(_Place(partition, 0, since.get(partition, end if start == LATEST else first)))
                continue
            reason = self._missing(topic, partition, own, first, end)
            instead = own.offset if reason is None else self._instead(reason, first, end)
            out.append(_Place(partition, own.offset, instead, stands=reason is not None))
        return out

    def _read_from(self, places: Sequence[_Place]) -> None:
        """Read these partitions from there; the store is told so before any record, where it doesn't know."""
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
        """Why the records from the store's offset on are not there; None where they are."""
        where = f"the store stands at offset {own.offset} of partition {partition}"
        note = _note(own.note)
        if note.topic and topic.id and note.topic != topic.id:
            return f"the topic was deleted and made again since: {where} of the one before"
        if own.offset < first:
            return f"{where}, and the topic begins at {first}: {first - own.offset:,} records have expired unread"
        if own.offset > end:
            return f"{where}, and the topic ends at {end}: its end was lost, or another topic has its name"
        return None

    def _instead(self, reason: str, first: int, end: int) -> int:
        """Where to go on instead, if that was said."""
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
        """The next records of one partition."""
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
        """What people call the place of a record."""
        return f"{self._address.topic}-{partition}, offset"

    def _batch(
        self, partition: int, start: int, resume: int, records: TableBatch, offsets: Sequence[int] = ()
    ) -> SpoutBatch:
        return SpoutBatch(
            records,
            self._named(partition),
            start,
            resume,
            _encode(Note(self._topic.id)),
            raw=False,
            unit=self._unit(partition),
            offsets=offsets,
        )

    def _gather(self, limit: int, wait: float) -> None:
        """Fetch what is there, up to a batch."""
        assert self._reader is not None, "it has begun"
        while self._lost is None and (room := self._held.room(limit)):
            try:
                chunks = self._reader.take(min(_ATONCE, room), min(wait, _GRACE) if self._held else wait)
            except OffsetLost as error:
                self._lost = error  # what came before it is given first
                break
            if not chunks:
                break
            for chunk in chunks:
                self._held.add(chunk)
                self._fetched[chunk.partition] = chunk.offsets[-1] + 1

    # -- what becomes of the topic

    def _look(self) -> None:
        """Now and then: whether it is still this topic, has more partitions, and what was to be read next."""
        now = self._clock()
        assert self._broker is not None
        assert self._reader is not None
        if now - self._told >= _COMMIT and (self._untold or self._reader.refusal() is not None):
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
        """It is so now."""
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
        """It was deleted: what was fetched is of no use, unless it is to go on with another one."""
        self._instead("the topic was deleted", 0, 0)
        self.trouble = "the topic was deleted, and is waited for"

    def _anew(self, topic: Topic) -> None:
        """It was made again, and what was fetched may be of either."""
        old = _encode(Note(self._topic.id))
        known = {p: Remembered(self._given[p], old) if p in self._given else None for p in range(topic.partitions)}
        places = self._decided(topic, known)
        self._forget()
        self._topic = topic
        self._read_from(places)

    def _forget(self) -> None:
        """Nothing was fetched."""
        self._held, self._given, self._fetched, self._durable, self._lost = Held(), {}, {}, {}, None

    def _find(self, topic: Topic) -> None:
        """What was to be read next is not there: it expired, or the end of the topic was lost."""
        assert self._lost is not None
        partition = self._lost.partition
        own = Remembered(self._given[partition], _encode(Note(self._topic.id)))
        places = self._decided(topic, {partition: own})
        self._lost = None
        self._read_from(places)

    # -- beside it

    def lag(self) -> int | None:
        """Offsets that were not given yet, as far as the broker has said."""
        if self._reader is None:
            return None
        ends = self._reader.ends()
        return sum(max(0, end - self._given[partition]) for partition, end in ends.items() if partition in self._given)

    def committed(self, batch: SpoutBatch) -> None:
        """The group is told so a while after."""
        assert batch.source is not None
        self._durable[int(batch.source.rpartition("/")[2])] = batch.resume
        self._untold = True

    def _tell(self, last: bool = False) -> None:
        if self._durable and self._reader is not None:
            self._told, self._untold = self._clock(), False
            self._reader.commit(self._durable, last)

    def close(self) -> None:
        """Tell the group how far it came, and let go."""
        self.ended = True
        reader, broker, self._broker = self._reader, self._broker, None
        if reader is not None:
            self._tell(last=True)
            self._reader = None
            reader.close()
        if broker is not None:
            broker.close()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Note).decode


def _note(data: bytes) -> Note:
    """A note; one that is none names no topic."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return Note(b"")
