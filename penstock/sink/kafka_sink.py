"""Write changes to a topic, keyed by group, and continue after the last complete position.

    key     the group, as JSON
    value   {"group": "Joe", "value": 2}, or null when the group is gone
            under envelope=change {"group": "Joe", "old": 1, "new": 2, "position": 7}, without an absent side; a null
            follows when the group is gone
    header  penstock: {"view": "namecount", "held": 6, "position": 7}: no change after 7 was sent so far. All changes
            up to 6 were in the topic before. With several partitions both are lists of numbers

A mark is a record that only carries the header. It has the key {}, which no group has, and a null value. Invariants:

- the producer flushes before a header names a position as held. So the greatest `held` in the last records of all
  partitions is a position without missing changes. Later changes are sent again with equal content. The held positions
  of all runs form one chain, so that a greatest exists;
- a mark follows the initial rows, and the end of each run. A topic without a held position may lack initial rows. It
  gets all of them, and a null for each other key;
- after a kill, changes that may have been sent already are sent again, but only the last one of each group. So no value
  goes back. For this, changes are collected until a position is held that covers the positions of all last records, in
  each of its numbers. Changes that were never sent are collected too. The killed run may have read the partitions in
  another order, so a greater position does not prove that a change was not sent. Under envelope=change all changes are
  sent again;
- the changes of a group are in one partition in order, each once: the client numbers its records, and the broker drops
  repeated ones;
- a topic whose last records do not belong to this view is never written.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import compress, groupby
from typing import Any, NoReturn

import msgspec

from penstock.kafka import MARK, Address, BrokerAway, Chunk, KafkaFault, KafkaReader, address_of, connect, until_ready
from penstock.sink.errors import SinkBusy, SinkTaken
from penstock.sink.position_order import has_all, joined, position_of, width_of
from penstock.sink.protocol import Claiming, nobody
from penstock.views import ABSENT, Change, Changes, Position

_HEADER = "penstock"
_PENDING = 10_000  # the most changes in flight before a header names their position as held
_SOON = 0.05  # seconds after which this happens for fewer changes
_PATIENCE = 30.0  # seconds to wait for records that the topic has
_PLAIN = frozenset((str, int, bool, type(None)))
_encode, _lines = msgspec.json.Encoder().encode, msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def open_topic(
    text: str,
    rest: str,
    options: Mapping[str, str],
    view: str,
    envelope: str,
    dumps: Callable[[object], str],
) -> KafkaSink:
    """Open the sink of a topic. `dumps` converts any value to JSON. Raise KafkaFault if the URI is invalid."""
    return KafkaSink(address_of(text, rest, options, ("envelope", "early")), view, envelope, dumps)


class KafkaSink:
    """A sink that writes to a topic. `clock` measures the time between two flushes."""

    def __init__(
        self,
        address: Address,
        view: str,
        envelope: str,
        dumps: Callable[[object], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._client = connect(address)
        self._view = view
        self._change = envelope == "change"
        self._dumps = dumps
        self._clock = clock
        self._producer = self._client.producer(address)
        self.contract = f"of a group the latest value is seen once for each commit: {self._producer.idempotent}"
        self.claim: Claiming = nobody
        self._called = ""  # the name under which the topic is claimed, after the first query
        self._held: Position | None = None
        self._position: Position | None = None
        self._stale: set[bytes] = set()  # keys of an incomplete topic that no row has been written for yet
        self._start = b""  # the start of a header
        self._sent: Position | None = None  # no change after this position is in the topic or in flight
        self._again: dict[bytes, Change] | None = None  # by key: the last change that may have been sent already
        self._pending = 0
        self._flushed = clock()

    def begin(self) -> Position | None:
        """Return the greatest position that the last record of any partition names as held."""
        if self._called:
            self._take(self._called)  # without a query to the broker while another process has the claim
        bounds = until_ready(self._bounds)
        reader = self._client.reader(self._address)
        try:
            filled = {partition: own for partition, own in bounds.items() if own[0] < own[1]}
            self._stand([self._last(reader, partition, *own) for partition, own in filled.items()])
            if self._held is None:
                for partition, own in filled.items():
                    self._stale |= self._keys(reader, partition, *own)
        finally:
            reader.close()
        return self._held

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """Claim the topic, and return the bounds of its partitions."""
        with self._client.broker(self._address) as broker:
            topic = broker.look()
            if topic is None:
                raise KafkaFault(
                    self._address.where,
                    f"there is no topic {self._address.topic!r}",
                    "create it, with cleanup.policy=compact if it is to keep the latest of each group",
                )
            called = f"topic {topic.id.hex() or self._address.topic}"
            if called != self._called:
                self._take(called)
            return broker.bounds(range(topic.partitions))

    def _take(self, called: str) -> None:
        self._called = called
        other = self.claim(called)
        if other is not None:
            raise SinkBusy(self._address.where, other)

    def _stand(self, found: list[tuple[Position | None, Position]]) -> None:
        """Set the state from each last record: its held position, and the last position that was sent."""
        held = [(own, position) for own, position in found if own is not None]
        if len({width_of(one) for both in held for one in both}) > 1:
            self._refuse("its records are of stores of different numbers of partitions")
        self._hold(reduce(joined, (own for own, _ in held)) if held else None)
        self._sent = reduce(joined, (position for both in held for position in both)) if held else None
        if self._sent is not None and not self._change and self._sent != self._held:
            self._again = {}

    def _refuse(self, reason: str) -> NoReturn:
        raise SinkTaken(self._address.where, reason, "name another topic")

    def _keys(self, reader: KafkaReader, partition: int, first: int, end: int) -> set[bytes]:
        """Return the keys that have a value in a partition."""
        latest: dict[bytes, bool] = {}
        for chunk in self._chunks(reader, partition, first, end):
            for place, value in enumerate(chunk.values):
                latest[chunk.key(place) or b""] = value is not None
        return {key for key, present in latest.items() if present}

    def _last(self, reader: KafkaReader, partition: int, first: int, end: int) -> tuple[Position | None, Position]:
        """Return the held position in the last record of a partition, and the last position that was sent."""
        back = 1
        while True:
            start = max(first, end - back)
            chunk = self._tail(reader, partition, start, end)
            if chunk is not None:
                return self._positions(chunk)
            if start == first:
                return None, 0
            back *= 8  # transaction markers, or compacted records

    def _tail(self, reader: KafkaReader, partition: int, start: int, end: int) -> Chunk | None:
        """Return the last records from an offset on, or None."""
        chunks = deque(self._chunks(reader, partition, start, end), 1)
        return chunks[0] if chunks else None

    def _chunks(self, reader: KafkaReader, partition: int, start: int, end: int) -> Iterator[Chunk]:
        """Yield the records from an offset to the end."""
        reader.assign({partition: start})
        until, at = self._clock() + _PATIENCE, start
        while at < end:
            for chunk in reader.take(10_000, 0.05):
                yield chunk
                at, until = chunk.offsets[-1] + 1, self._clock() + _PATIENCE
            at = max(at, reader.reached(partition))
            if at < end and self._clock() >= until:
                raise BrokerAway(self._address.where, f"the records from offset {at:,} to {end:,} did not come")

    def _positions(self, chunk: Chunk) -> tuple[Position | None, Position]:
        data = chunk.headers(len(chunk) - 1).get(_HEADER)
        try:
            own = {} if data is None else _decode(data)
        except msgspec.MsgspecError:
            own = {}
        position = position_of(own.get("position"))
        if own.get("view") != self._view or position is None:
            self._refuse(f"its last record is no change of view {self._view!r}")
        return position_of(own.get("held")), position

    def write(self, changes: Sequence[Change]) -> None:
        """Send one record per change, and a null for a group that is gone.

        Collect changes that may have been sent already.
        """
        if self._again is not None:
            self._again.update((self._json(change.group), change) for change in changes)
            return
        self._send(changes if isinstance(changes, Changes) else Changes.of(changes))

    def _send(self, own: Changes) -> None:
        keys = self._texts(own.groups)
        if self._change:
            positions, keys, values = self._whole(own, keys)
        else:
            positions, values = own.positions, self._latest(own, keys)
        start = 0
        for position, run in groupby(positions):
            end = start + sum(1 for _ in run)
            self._producer.send(keys[start:end], values[start:end], self._header(position))
            start = end
        self._pending += len(keys)
        if self._stale:
            self._stale.difference_update(keys)

    def _latest(self, own: Changes, keys: list[bytes]) -> list[bytes | None]:
        """Return the value of each change with its group, or None for a group that is gone."""
        present = [new is not ABSENT for new in own.new]
        texts = self._texts(list(compress(own.new, present)))
        values = [b'{"group":%b,"value":%b}' % pair for pair in zip(compress(keys, present), texts, strict=True)]
        if len(values) == len(keys):
            return [*values]
        left = iter(values)
        return [next(left) if is_present else None for is_present in present]

    def _whole(self, own: Changes, keys: list[bytes]) -> tuple[list[Position], list[bytes], list[bytes | None]]:
        """Return positions, keys and values: each whole change, and a null after it for a group that is gone."""
        at, out, values = list[Position](), list[bytes](), list[bytes | None]()
        for key, change in zip(keys, own, strict=True):
            data = change.data()
            del data["view"]
            messages: list[bytes | None] = [self._dumps(data).encode()]
            if change.new is ABSENT:
                messages.append(None)
            values += messages
            at += [change.position] * len(messages)
            out += [key] * len(messages)
        return at, out, values

    def _texts(self, values: list[Any]) -> list[bytes]:
        """Return the JSON of each value."""
        if _PLAIN.issuperset(map(type, values)):
            try:
                return _lines(values).split(b"\n")[:-1]  # JSON contains no line feed
            except (OverflowError, UnicodeEncodeError):
                pass
        return list(map(self._json, values))

    def _json(self, value: Any) -> bytes:
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            try:
                return _encode(value)
            except (OverflowError, UnicodeEncodeError):
                pass
        return self._dumps(value).encode()

    def holds(self, position: Position) -> None:
        """Name this position as held in later records, after all records before it have arrived."""
        begins = self._held is None
        if self._again is not None:
            if not has_all(position, self._sent):
                return  # the collected changes are not complete yet
            again, self._again = self._again, None
            self._send(Changes.of(again.values()))
        self._position = position
        if self._stale:
            self._producer.send([*self._stale], [None] * len(self._stale), self._header(position))
        if begins or self._pending >= _PENDING or self._clock() - self._flushed >= _SOON:
            self._flush()
            self._hold(position)
        self._stale = set()
        if begins:
            self._mark(position)

    def _mark(self, position: Position) -> None:
        self._producer.send([MARK], [None], self._header(position))
        self._flush()

    def _flush(self) -> None:
        self._producer.flush()
        self._pending, self._flushed = 0, self._clock()

    def _hold(self, position: Position | None) -> None:
        self._held = position
        self._start = _encode({"view": self._view, "held": position})[:-1]

    def _header(self, position: Position) -> tuple[tuple[str, bytes]]:
        """Return the header for records of a position. It covers earlier records with a greater position too."""
        self._sent = position if self._sent is None else joined(self._sent, position)
        return ((_HEADER, b'%b,"position":%b}' % (self._start, _encode(self._sent))),)

    def close(self) -> None:
        """Wait for records in flight, write a mark that names them as held, and close."""
        try:
            if self._position is not None and self._position != self._held:
                self._flush()
                self._hold(self._position)
                self._mark(self._position)
        finally:
            self._producer.close()
