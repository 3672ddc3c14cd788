"""The protocol of Kafka clients: a broker answers questions about a topic, a reader reads it, a producer writes it.

A reader gets the partitions and offsets to read from, and continues from there. It uses no other offsets and no group.
Invariants:

- the records of a partition come in order, each once, without aborted ones and without transaction markers;
- `take` raises OffsetLost if there is no record at an offset, and never moves to another offset by itself;
- `take` raises no error while a broker is away. It returns no records meanwhile;
- after a flush, all records of a producer are in the topic, once and in order. Otherwise the flush raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, Self

_OBJECT = ord("{")
_first = itemgetter(0)
MARK = b"{}"
"""The key of a null value that deletes nothing. A sink writes it for the sake of its header."""


class Fields(NamedTuple):
    """Functions that read one field of a client's record each."""

    value: Callable[[Any], bytes | None]
    key: Callable[[Any], bytes | None]
    offset: Callable[[Any], int]
    time: Callable[[Any], int | None]  # in milliseconds
    headers: Callable[[Any], Sequence[tuple[str, bytes | None]]]

    def timeless(self) -> Fields:
        """Return the same functions for records whose timestamp is not needed."""
        return self._replace(time=_no_time)


def _no_time(record: Any) -> None:
    """Return None: the timestamp was not kept."""


@dataclass(slots=True)
class Chunk:
    """Consecutive records of one partition, as columns. Rarely used fields are read from a single record.

    A chunk is plain if all values begin like JSON objects. Of plain records a lean reader keeps only the values. They
    have no timestamp, and their keys and headers must not be read.
    """

    partition: int
    records: Sequence[Any]  # empty if only values were kept; None for each such record among others
    fields: Fields
    values: list[Any]
    offsets: Sequence[int]
    plain: bool
    size: int  # bytes of all values

    @classmethod
    def of(cls, partition: int, records: Sequence[Any], fields: Fields, lean: bool = False) -> Chunk:
        """Create a chunk of a client's records. With `lean` it keeps only the values, if it is plain."""
        values = list(map(fields.value, records))
        return cls.made(partition, records, fields, values, are_plain(values), lean)

    @classmethod
    def made(
        cls, partition: int, records: Sequence[Any], fields: Fields, values: list[Any], plain: bool, lean: bool
    ) -> Chunk:
        """Create a chunk of records whose values were read already."""
        first, last = fields.offset(records[0]), fields.offset(records[-1])
        offsets: Sequence[int] = range(first, last + 1)
        if len(offsets) != len(records):
            offsets = list(map(fields.offset, records))
        size = sum(map(len, values if plain else filter(None, values)))
        return cls(partition, () if lean and plain else records, fields, values, offsets, plain, size)

    def __len__(self) -> int:
        return len(self.values)

    def cut(self, at: int) -> tuple[Chunk, Chunk]:
        """Split the chunk after `at` records."""
        first, rest = slice(None, at), slice(at, None)
        return self._part(first), self._part(rest)

    def _part(self, own: slice) -> Chunk:
        values = self.values[own]
        size = sum(map(len, filter(None, values)))
        return Chunk(self.partition, self.records[own], self.fields, values, self.offsets[own], self.plain, size)

    @staticmethod
    def join(parts: Sequence[Chunk]) -> Chunk:
        """Join consecutive chunks of one partition."""
        if len(parts) == 1:
            return parts[0]
        records: Sequence[Any] = ()
        if any(part.records for part in parts):
            records = [record for part in parts for record in part.records or [None] * len(part)]
        values = [value for part in parts for value in part.values]
        offsets: Sequence[int] = range(parts[0].offsets[0], parts[-1].offsets[-1] + 1)
        if len(offsets) != len(values):
            offsets = [offset for part in parts for offset in part.offsets]
        plain, size = all(part.plain for part in parts), sum(part.size for part in parts)
        return Chunk(parts[0].partition, records, parts[0].fields, values, offsets, plain, size)

    def key(self, at: int) -> bytes | None:
        """Return the key of one record."""
        return self.fields.key(self.records[at])

    def headers(self, at: int) -> Mapping[str, bytes | None]:
        """Return the headers of one record."""
        return dict(self.fields.headers(self.records[at]))

    def time(self, at: int) -> int | None:
        """Return the broker's timestamp of one record in milliseconds, or None if there is none or it was not kept."""
        record = self.records[at] if self.records else None
        return None if record is None else self.fields.time(record)


def are_plain(values: list[Any]) -> bool:
    """Return whether all values begin like JSON objects."""
    try:
        return set(map(_first, values)) == {_OBJECT}
    except (TypeError, IndexError):  # a null value, or an empty one
        return False


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its broker describes it. The id is empty if the broker does not report it."""

    id: bytes
    partitions: int
    compacted: bool | None = None  # None if the broker does not report it


class KafkaReader(Protocol):
    """A reader of some partitions of a topic."""

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets from now on."""
        ...

    def take(self, most: int, wait: float) -> list[Chunk]:
        """Return at most `most` next records. Return an empty list if none came within `wait` seconds."""
        ...

    def ends(self) -> Mapping[int, int]:
        """Return the end of each partition, if it arrived with records."""
        ...

    def reached(self, partition: int) -> int:
        """Return the offset up to which a partition was read, with transaction markers and compacted records.

        -1 if it is unknown.
        """
        ...

    def commit(self, places: Mapping[int, int], last: bool = False) -> None:
        """Report offsets to the group for monitoring. Only the `last` call waits, for a short time."""
        ...

    def refusal(self) -> str | None:
        """Return the reason if the group refused the last offsets, or None if it accepted them or has not answered."""
        ...

    def close(self) -> None:
        """Close the reader."""
        ...


class Producer(Protocol):
    """A producer that appends records to a topic, idempotently and in order."""

    idempotent: str
    """The words that name the client and how it avoids duplicates."""

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Send records, each with a key and a value, with these headers. They may arrive later."""
        ...

    def flush(self) -> None:
        """Wait until all records are in the topic. Raise KafkaFault if they can't arrive."""
        ...

    def close(self) -> None:
        """Close the producer."""
        ...


class Broker(Protocol):
    """A connection that answers questions about one topic."""

    def look(self, policy: bool = False) -> Topic | None:
        """Return the topic's current state, or None without a topic. `policy` also asks whether it is compacted."""
        ...

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return per partition the first existing offset, and the offset after the last readable record."""
        ...

    def since(self, moment: int, partitions: Sequence[int]) -> dict[int, int]:
        """Return per partition the first offset from a moment on (in milliseconds), or the end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


def refused(group: str | None, words: str, subscribed: bool) -> str:
    """Return the message for a group that refuses offsets, perhaps because another consumer is `subscribed`."""
    if subscribed:
        words = "somebody else is subscribed in it; end that one, or read with another group="
    return f"group {group} takes no offsets for its monitors: {words}"
