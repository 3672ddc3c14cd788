"""Strong productions: numbered messages to another partition, durable until they are acknowledged.

A production has the contributions that one transaction owes another partition. That transaction saves it under the next
number of this sender and receiver. Then it is sent, applied by the receiver together with its number, acknowledged and
deleted. Invariants:

- only durable productions are sent, and only durable ones are acknowledged;
- a receiver applies each number once, in order, so a repeated, delayed or reordered delivery changes nothing;
- a receiver refuses an older epoch than it knows of the sender: another writer owns the sender's store.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import PenstockError, Reader, Writer, pack, seal, unpack, unseal
from penstock.recovery.productions.delayed_productions import DELAYED

if TYPE_CHECKING:
    from penstock.core import StateRow

__all__ = [
    "OUT",
    "OldEpoch",
    "Production",
    "ProductionGuard",
    "Sent",
    "StoredProduction",
    "after_productions",
    "consistent",
    "deleted",
    "in_flight",
    "next_productions",
    "numbered_productions",
    "numbers_of",
    "oldest_owed",
    "owed_after",
    "owed_back",
    "parts_of",
    "saved",
]

OUT = "out"
"""The database of productions that are owed."""
_KEY = struct.Struct(">IQ")  # the receiver, and the number
Sent = dict[int, int]
"""By partition the number of the last production that it is owed."""


@dataclass(frozen=True, slots=True)
class ProductionGuard:
    """The last production that was applied from a partition: the epoch then, and the number."""

    epoch: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class StoredProduction:
    """A production as it is stored."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Production:
    """Productions in transit, in the order of their numbers, with their sender and its epoch."""

    sender: int
    epoch: int
    owed: tuple[StoredProduction, ...]


class OldEpoch(PenstockError):
    """An error for a message from a zombie: the sender's store has a newer writer."""

    def __init__(self, partition: int, epoch: int, newest: int) -> None:
        super().__init__(partition, epoch, newest)
        self.partition, self.epoch, self.newest = partition, epoch, newest

    def __str__(self) -> str:
        return (
            f"partition {self.partition} was heard of in its epoch {self.newest}, and what it said in epoch "
            f"{self.epoch} is refused: its store has another owner since, and this one must end"
        )


def saved(writer: Writer, leaving: dict[int, list[Any]], sent: Sent) -> Sent:
    """Write the productions of a transaction. Return the last number of each receiver."""
    found = numbered_productions(leaving, sent)
    if found:
        rows = [(key, seal(key, own.data)) for other, own in found if (key := _KEY.pack(other, own.number))]
        writer.put_many(OUT, rows)
    return after_productions(found, sent)


def numbered_productions(leaving: Mapping[int, list[Any]], sent: Sent) -> list[tuple[int, StoredProduction]]:
    """Give the productions of a transaction their numbers. Return each with its receiver."""
    return [(other, StoredProduction(sent.get(other, 0) + 1, pack(leaving[other]))) for other in sorted(leaving)]


def after_productions(found: Iterable[tuple[int, StoredProduction]], sent: Sent) -> Sent:
    """Return the last number of each receiver after these productions."""
    return {**sent, **{other: own.number for other, own in found}}


def owed_after(reader: Reader, other: int, number: int, most: int) -> tuple[StoredProduction, ...]:
    """Return the stored productions for a partition after this number: about `most` bytes, or at least one."""
    out: list[StoredProduction] = []
    size = 0
    for key, row in reader.scan(OUT, _KEY.pack(other, number + 1), _KEY.pack(other + 1, 0)):
        data = unseal(key, row, OUT)
        out.append(StoredProduction(_KEY.unpack(key)[1], bytes(data)))
        size += len(data)
        if size >= most:
            break
    return tuple(out)


def owed_back(reader: Reader, other: int, number: int) -> Iterator[StoredProduction]:
    """Yield the stored productions for a partition after this number, the last one first."""
    for key, row in reader.scan(OUT, _KEY.pack(other, number + 1), _KEY.pack(other + 1, 0), reverse=True):
        yield StoredProduction(_KEY.unpack(key)[1], bytes(unseal(key, row, OUT)))


def consistent(readers: Sequence[Reader], states: Sequence[StateRow]) -> bool:
    """Return True if the snapshots of all partitions are consistent with each other.

    Each production that is numbered and not applied is stored, and none was applied that was not numbered.
    """
    return all(
        taken <= sent and sum(1 for _ in owed_back(readers[of], to, taken)) == sent - taken
        for of, to, sent, taken in numbers_of(states)
    )


def numbers_of(states: Sequence[StateRow]) -> Iterator[tuple[int, int, int, int]]:
    """Yield for each pair of partitions: the sender, the receiver, the last number saved and the last one applied."""
    for to, state in enumerate(states):
        for of, sender in enumerate(states):
            if of != to:
                yield of, to, sender.sent.get(to, 0), state.taken.get(of, (0, 0))[1]


def deleted(writer: Writer, arrived: Sent, known: Sent) -> None:
    """Delete the productions up to the `arrived` numbers; those up to the `known` numbers are deleted already."""
    keys = [
        _KEY.pack(other, n) for other, number in arrived.items() for n in range(known.get(other, 0) + 1, number + 1)
    ]
    if keys:
        writer.delete_many(OUT, keys)


def oldest_owed(reader: Reader, others: Iterable[int]) -> Sent:
    """Return, by partition, the number before the oldest stored production."""
    out: Sent = {}
    for other in others:
        for key, _ in islice(reader.scan(OUT, _KEY.pack(other, 0), _KEY.pack(other + 1, 0)), 1):
            out[other] = _KEY.unpack(key)[1] - 1
    return out


def in_flight(reader: Reader) -> int:
    """Count the productions that are not acknowledged, and the contributions that wait in `delayed`."""
    return reader.count(OUT) + reader.count(DELAYED)


def next_productions(before: ProductionGuard, production: Production) -> Sequence[StoredProduction]:
    """Return the next productions in order. Skip applied and early ones. Raise OldEpoch for a zombie's."""
    if production.epoch < before.epoch:
        raise OldEpoch(production.sender, production.epoch, before.epoch)
    out: list[StoredProduction] = []
    number = before.number
    for owed in production.owed:
        if owed.number == number + 1:
            out.append(owed)
            number += 1
    return out


def parts_of(owed: StoredProduction) -> list[Any]:
    """Decode the parts of a production."""
    found: list[Any] = unpack(owed.data)
    return found
