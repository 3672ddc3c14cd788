"""A topic in memory with the protocol of Kafka clients. Its producer can be killed while records are in flight.

Records arrive per topic partition in their order. Of unflushed records any part may arrive, with one partition ahead of
another. This replaces a broker in thousands of random kills. `tests/kafka` uses the real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Self
from zlib import crc32

from penstock.kafka import Address, Chunk, Fields, Topic

_SENDING, _FLUSHING = 0.02, 0.3  # the chances that a call of a mortal run is killed
ADDRESS = Address("kafka://here/out", "here:1", "out")


class Killed(Exception):
    """The run is killed here."""


class Sent(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    offset: int


_FIELDS = Fields(lambda r: r.value, lambda r: r.key, lambda r: r.offset, lambda r: None, lambda r: r.headers)


class Topics:
    """The client of one topic, with its broker, reader and producer. `clock` returns the time."""

    idempotent = "nothing is sent twice here"

    def __init__(self, draw: Random, partitions: int) -> None:
        self.draw = draw
        self.stored: list[list[Sent]] = [[] for _ in range(partitions)]
        self.under_way: list[list[Sent]] = [[] for _ in range(partitions)]
        self.now = 0.0
        self.mortal = False  # whether a run may be killed within a call
        self._place, self._at = 0, 0

    def clock(self) -> float:
        """Return the time, which advances with each call."""
        self.now += self.draw.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.1))
        return self.now

    def broker(self, address: Address) -> Self:
        """Return itself."""
        return self

    def reader(self, address: Address, lean: bool = False) -> Self:
        """Return itself."""
        return self

    def producer(self, address: Address) -> Self:
        """Return itself."""
        return self

    def look(self, policy: bool = False) -> Topic:
        """Return the topic."""
        return Topic(b"1" * 16, len(self.stored))

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset and the end of each partition."""
        return {i: (0, len(self.stored[i])) for i in partitions}

    def assign(self, places: Mapping[int, int]) -> None:
        """Read from these offsets on."""
        ((self._place, self._at),) = places.items()

    def take(self, most: int, wait: float) -> list[Chunk]:
        """Return the next records."""
        own = self.stored[self._place][self._at : self._at + most]
        self._at += len(own)
        return [Chunk.of(self._place, own, _FIELDS)] if own else []

    def reached(self, partition: int) -> int:
        """Return the offset up to which a partition was read."""
        return self._at

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Send records, of which some arrive now."""
        self._live(_SENDING)
        for key, value in zip(keys, values, strict=True):
            i = crc32(key or b"") % len(self.stored)
            self.under_way[i].append(Sent(key, value, list(headers), len(self.stored[i]) + len(self.under_way[i])))
        self._arrive()

    def _live(self, deadly: float) -> None:
        if self.mortal and self.draw.random() < deadly:
            raise Killed

    def _arrive(self) -> None:
        for stored, coming in zip(self.stored, self.under_way, strict=True):
            many = self.draw.choice((0, 0, self.draw.randrange(len(coming) + 1), len(coming)))
            stored += coming[:many]
            del coming[:many]

    def flush(self) -> None:
        """Let all records arrive."""
        self._live(_FLUSHING)
        for stored, coming in zip(self.stored, self.under_way, strict=True):
            stored += coming
            coming.clear()

    def kill(self) -> None:
        """Let some records arrive, and lose all others."""
        self._arrive()
        for coming in self.under_way:
            coming.clear()

    def rows(self) -> list[Sent]:
        """Return all records, those of a partition in order."""
        return [record for stored in self.stored for record in stored]

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None: ...
