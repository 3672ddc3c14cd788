"""A topic in memory, behind the seam of Kafka's clients, whose producer can be killed while records are under way.

What was sent arrives by topic partition, in its order; of what was not flushed any part may, one partition ahead of
another. It stands in for a broker where thousands of kills are drawn; the real one is in `tests/kafka`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Self
from zlib import crc32

from penstock.kafka import Address, Chunk, Fields, Topic

_SENDING, _FLUSHING = 0.02, 0.3  # of such calls who can be killed is killed in the midst
ADDRESS = Address("kafka://here/out", "here:1", "out")


class Killed(Exception):
    """The run ends here, without a word."""


class Sent(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    offset: int


_FIELDS = Fields(lambda r: r.value, lambda r: r.key, lambda r: r.offset, lambda r: None, lambda r: r.headers)


class Topics:
    """The client of one topic, and all that it opens; `clock` is what time it is."""

    idempotent = "nothing is sent twice here"

    def __init__(self, draw: Random, partitions: int) -> None:
        self.draw = draw
        self.there: list[list[Sent]] = [[] for _ in range(partitions)]
        self.under_way: list[list[Sent]] = [[] for _ in range(partitions)]
        self.now = 0.0
        self.mortal = False  # whether a run may be killed within a call
        self._place, self._at = 0, 0

    def clock(self) -> float:
        """Time passes."""
        self.now += self.draw.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.1))
        return self.now

    def broker(self, address: Address) -> Self:
        """This."""
        return self

    def reader(self, address: Address, lean: bool = False) -> Self:
        """This."""
        return self

    def producer(self, address: Address) -> Self:
        """This."""
        return self

    def look(self, policy: bool = False) -> Topic:
        """The topic."""
        return Topic(b"1" * 16, len(self.there))

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """First and end."""
        return {i: (0, len(self.there[i])) for i in partitions}

    def assign(self, places: Mapping[int, int]) -> None:
        """Read on from there."""
        ((self._place, self._at),) = places.items()

    def take(self, most: int, wait: float) -> list[Chunk]:
        """The next."""
        own = self.there[self._place][self._at : self._at + most]
        self._at += len(own)
        return [Chunk.of(self._place, own, _FIELDS)] if own else []

    def reached(self, partition: int) -> int:
        """How far it was read."""
        return self._at

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Some of it arrives."""
        self._live(_SENDING)
        for key, value in zip(keys, values, strict=True):
            i = crc32(key or b"") % len(self.there)
            self.under_way[i].append(Sent(key, value, list(headers), len(self.there[i]) + len(self.under_way[i])))
        self._arrive()

    def _live(self, deadly: float) -> None:
        if self.mortal and self.draw.random() < deadly:
            raise Killed

    def _arrive(self) -> None:
        for there, coming in zip(self.there, self.under_way, strict=True):
            many = self.draw.choice((0, 0, self.draw.randrange(len(coming) + 1), len(coming)))
            there += coming[:many]
            del coming[:many]

    def flush(self) -> None:
        """All of it arrives."""
        self._live(_FLUSHING)
        for there, coming in zip(self.there, self.under_way, strict=True):
            there += coming
            coming.clear()

    def kill(self) -> None:
        """Some of it arrives, and nothing else ever."""
        self._arrive()
        for coming in self.under_way:
            coming.clear()

    def rows(self) -> list[Sent]:
        """All records, those of a partition in their order."""
        return [record for there in self.there for record in there]

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None: ...
