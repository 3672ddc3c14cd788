"""The seam of Kafka's clients: a broker that is asked about a topic, a reader of it, and a producer into it.

A reader is told which partitions to read and from which offsets, and reads on from there: it knows no group, and no
offset but those. Invariants:

- the records of a partition come in its order, each once, aborted ones and markers of transactions left out;
- `take` raises OffsetLost where there is nothing at an offset, and never moves to another one by itself;
- a broker that is away is not an error of `take`: nothing comes meanwhile;
- a producer that has flushed has all that it was given in the topic, once and in order, or raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, Self

_OBJECT = ord("{")
_first = itemgetter(0)
MARK = b"{}"
"""The key of a null that deletes nothing: a sink writes it for the header that it has."""


class Fields(NamedTuple):
    """How a client's records say what they are: each a function of one record."""

    value: Callable[[Any], bytes | None]
    key: Callable[[Any], bytes | None]
    offset: Callable[[Any], int]
    time: Callable[[Any], int | None]  # milliseconds
    headers: Callable[[Any], Sequence[tuple[str, bytes | None]]]

    def timeless(self) -> Fields:
        """The same, of records whose time is of no interest."""
        return self._replace(time=_no_time)


def _no_time(record: Any) -> None:
    """None."""


@dataclass(slots=True)
class Chunk:
    """Records of one partition, one after the other, as columns; what is seldom asked for is asked of a record.

    Plain ones are JSON objects by their first byte. Of a lean reader's plain ones nothing but the values was kept:
    nobody asks for their keys and headers, and they have no time.
    """

    partition: int
    records: Sequence[Any]  # none where only values were kept, and None for each such one among others
    fields: Fields
    values: list[Any]
    offsets: Sequence[int]
    plain: bool
    size: int  # bytes of the values

    @classmethod
    def of(cls, partition: int, records: Sequence[Any], fields: Fields, lean: bool = False) -> Chunk:
        """The chunk of these records of a client, a `lean` one if it can be."""
        values = list(map(fields.value, records))
        return cls.made(partition, records, fields, values, are_plain(values), lean)

    @classmethod
    def made(
        cls, partition: int, records: Sequence[Any], fields: Fields, values: list[Any], plain: bool, lean: bool
    ) -> Chunk:
        """The same, of records that were looked at."""
        first, last = fields.offset(records[0]), fields.offset(records[-1])
        offsets: Sequence[int] = range(first, last + 1)
        if len(offsets) != len(records):
            offsets = list(map(fields.offset, records))
        size = sum(map(len, values if plain else filter(None, values)))
        return cls(partition, () if lean and plain else records, fields, values, offsets, plain, size)

    def __len__(self) -> int:
        return len(self.values)

    def cut(self, at: int) -> tuple[Chunk, Chunk]:
        """The first so many, and the others."""
        first, rest = slice(None, at), slice(at, None)
        return self._part(first), self._part(rest)

    def _part(self, own: slice) -> Chunk:
        values = self.values[own]
        size = sum(map(len, filter(None, values)))
        return Chunk(self.partition, self.records[own], self.fields, values, self.offsets[own], self.plain, size)

    @staticmethod
    def join(parts: Sequence[Chunk]) -> Chunk:
        """Chunks of one partition that follow each other, as one."""
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
        """The key of one."""
        return self.fields.key(self.records[at])

    def headers(self, at: int) -> Mapping[str, bytes | None]:
        """The headers of one."""
        return dict(self.fields.headers(self.records[at]))

    def time(self, at: int) -> int | None:
        """The broker's timestamp of one, in milliseconds, if it has one that was kept."""
        record = self.records[at] if self.records else None
        return None if record is None else self.fields.time(record)


def are_plain(values: list[Any]) -> bool:
    """Whether all begin as a JSON object does."""
    try:
        return set(map(_first, values)) == {_OBJECT}
    except (TypeError, IndexError):  # a null, or nothing at all
        return False


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker has it; an id that a broker doesn't tell is empty."""

    id: bytes
    partitions: int
    compacted: bool | None = None  # None where the broker doesn't say


class Reader(Protocol):
    """Something that reads partitions of a topic."""

    def assign(self, places: Mapping[int, int]) -> None:
        """From now on read these partitions, from these offsets."""
        ...

    def take(self, most: int, wait: float) -> list[Chunk]:
        """The next records, at most so many; nothing if none came within `wait` seconds."""
        ...

    def ends(self) -> Mapping[int, int]:
        """The offset after the last record of partitions, as far as that came along with records."""
        ...

    def reached(self, partition: int) -> int:
        """The offset that this partition was read up to, markers and compacted records included; -1 if not known."""
        ...

    def commit(self, places: Mapping[int, int], last: bool = False) -> None:
        """Let the group's monitors know; only the `last` is waited for, and not for long."""
        ...

    def refusal(self) -> str | None:
        """Why the group does not take what it was told last, in words; None where it does, or may yet."""
        ...

    def close(self) -> None:
        """Let go of the topic."""
        ...


class Producer(Protocol):
    """Something that appends records to a topic, idempotently and in order."""

    idempotent: str
    """Which client gives that, in words."""

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """More, a key and a value each, with these headers; they may be under way for a while."""
        ...

    def flush(self) -> None:
        """Wait until all are in the topic; KafkaFault where they can't be."""
        ...

    def close(self) -> None:
        """Let go of the topic."""
        ...


class Broker(Protocol):
    """Brokers, asked about one topic."""

    def look(self, policy: bool = False) -> Topic | None:
        """The topic as it is now, with `policy` whether it is compacted; None where there is none."""
        ...

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The first offset that is there, and the one after the last that can be read."""
        ...

    def since(self, moment: int, partitions: Sequence[int]) -> dict[int, int]:
        """The first offset from a moment on (milliseconds), or the end."""
        ...

    def close(self) -> None:
        """Let go of the brokers."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


def refused(group: str | None, words: str, subscribed: bool) -> str:
    """What a group that takes no offsets is said to be; those that somebody else is `subscribed` in take none."""
    if subscribed:
        words = "somebody else is subscribed in it; end that one, or read with another group="
    return f"group {group} takes no offsets for its monitors: {words}"
