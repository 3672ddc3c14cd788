"""What a partition owes another, numbered and durable until it has arrived: strong productions.

A production is what one transaction of one partition owes another: parts for its views. It is saved in that transaction
with the next number of the way between the two, sent, taken by a transaction of the other that remembers the number,
acknowledged, and deleted. Invariants:

- nothing is sent that is not durable, and nothing is acknowledged that is not;
- a number is taken once, after the one before it, so that any delivery (again, late, in any order) changes nothing;
- a sender of an older epoch than was heard of it is refused: its store has another owner.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.cache import PenstockError, Reader, Writer, pack, seal, unpack, unseal
from penstock.recovery.productions.delayed_productions import DELAYED

__all__ = [
    "OUT",
    "OldEpoch",
    "Owed",
    "Production",
    "Sent",
    "Taken",
    "consistent",
    "deleted",
    "oldest_owed",
    "owed_after",
    "owed_back",
    "parts_of",
    "pending",
    "saved",
    "taken",
]

OUT = "out"
"""The database of what is owed."""
_KEY = struct.Struct(">IQ")  # to which partition, and the number
Sent = dict[int, int]
"""By partition the number of the last production that it is owed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was last taken of a partition: its epoch then, and the number."""

    epoch: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Owed:
    """A production as it is stored."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Production:
    """Productions on their way, in the order of their numbers: from whom, in which of its epochs."""

    sender: int
    epoch: int
    owed: tuple[Owed, ...]


class OldEpoch(PenstockError):
    """Something that an owner sent whose store has another owner since."""

    def __init__(self, partition: int, epoch: int, newest: int) -> None:
        super().__init__(partition, epoch, newest)
        self.partition, self.epoch, self.newest = partition, epoch, newest

    def __str__(self) -> str:
        return (
            f"partition {self.partition} was heard of in its epoch {self.newest}, and what it said in epoch "
            f"{self.epoch} is refused: its store has another owner since, and this one must end"
        )


def saved(writer: Writer, leaving: dict[int, list[Any]], sent: Sent) -> Sent:
    """Write what a transaction owes others; the numbers that were given last."""
    if not leaving:
        return sent
    now = dict(sent)
    rows: list[tuple[bytes, bytes]] = []
    for other in sorted(leaving):
        now[other] = now.get(other, 0) + 1
        key = _KEY.pack(other, now[other])
        rows.append((key, seal(key, pack(leaving[other]))))
    writer.put_many(OUT, rows)
    return now


def owed_after(reader: Reader, other: int, number: int, most: int) -> tuple[Owed, ...]:
    """What a partition is owed after this number, of so many bytes about, or one at least."""
    out: list[Owed] = []
    size = 0
    for key, row in reader.scan(OUT, _KEY.pack(other, number + 1), _KEY.pack(other + 1, 0)):
        data = unseal(key, row, OUT)
        out.append(Owed(_KEY.unpack(key)[1], bytes(data)))
        size += len(data)
        if size >= most:
            break
    return tuple(out)


def owed_back(reader: Reader, other: int, number: int) -> Iterator[Owed]:
    """What a partition is owed after this number, the last one first."""
    for key, row in reader.scan(OUT, _KEY.pack(other, number + 1), _KEY.pack(other + 1, 0), reverse=True):
        yield Owed(_KEY.unpack(key)[1], bytes(unseal(key, row, OUT)))


def consistent(readers: Sequence[Reader], sent: Sequence[Sent], taken: Sequence[Sent]) -> bool:
    """Whether partitions as these snapshots have them fit together.

    What was given and not taken is stored, and nothing was taken before it was given.
    """
    return all(
        taken[to].get(of, 0) <= own.get(to, 0)
        and sum(1 for _ in owed_back(readers[of], to, taken[to].get(of, 0))) == own.get(to, 0) - taken[to].get(of, 0)
        for of, own in enumerate(sent)
        for to in range(len(readers))
        if of != to
    )


def deleted(writer: Writer, arrived: Sent, known: Sent) -> None:
    """Delete what has arrived: up to these numbers, from those on that are known to be deleted."""
    keys = [
        _KEY.pack(other, n) for other, number in arrived.items() for n in range(known.get(other, 0) + 1, number + 1)
    ]
    if keys:
        writer.delete_many(OUT, keys)


def oldest_owed(reader: Reader, others: Iterable[int]) -> Sent:
    """By partition the number before the oldest production that is stored for it."""
    out: Sent = {}
    for other in others:
        for key, _ in islice(reader.scan(OUT, _KEY.pack(other, 0), _KEY.pack(other + 1, 0)), 1):
            out[other] = _KEY.unpack(key)[1] - 1
    return out


def pending(reader: Reader) -> int:
    """Count the productions that have not arrived, as far as this partition knows, and the contributions that wait."""
    return reader.count(OUT) + reader.count(DELAYED)


def taken(before: Taken, production: Production) -> Sequence[Owed]:
    """Those that are next, in order; what was taken, or comes too early, is passed over. OldEpoch of a zombie's."""
    if production.epoch < before.epoch:
        raise OldEpoch(production.sender, production.epoch, before.epoch)
    out: list[Owed] = []
    number = before.number
    for owed in production.owed:
        if owed.number == number + 1:
            out.append(owed)
            number += 1
    return out


def parts_of(owed: Owed) -> list[Any]:
    """The parts of a production."""
    found: list[Any] = unpack(owed.data)
    return found
