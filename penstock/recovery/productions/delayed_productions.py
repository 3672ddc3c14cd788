"""Productions for views on views that wait until the early sets before them are saved.

A commit that changes rows of a view may follow from an early set. Its contributions to groups of other partitions stay
in the database `delayed`, by the position of the commit. The readers of saved changes decide how long: see
`partitions/exchange/production_delay`. Invariants:

- a row is written in the transaction that changes the rows of the view;
- it is deleted in the transaction that puts its contributions into `out`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.cache import Reader, Writer, pack, seal, unpack, unseal

__all__ = ["DELAYED", "DelayedContributions", "delay", "delayed", "drop_delayed", "first_delayed"]

DELAYED = "delayed"
"""The database of productions that wait."""
_KEY = struct.Struct(">QI")  # the position, and the receiver


@dataclass(frozen=True, slots=True)
class DelayedContributions:
    """Contributions of the commits at one position to the groups of one receiver."""

    position: int
    receiver: int
    parts: list[Any]


def delay(writer: Writer, position: int, leaving: Mapping[int, list[Any]]) -> None:
    """Keep contributions of a commit at this position, after those that are there."""
    keys = [_KEY.pack(position, receiver) for receiver in sorted(leaving)]
    rows: list[tuple[bytes, bytes]] = []
    for key, row in zip(keys, writer.get_many(DELAYED, keys), strict=True):
        before = [] if row is None else unpack(unseal(key, row, DELAYED))
        rows.append((key, seal(key, pack([*before, *leaving[_KEY.unpack(key)[1]]]))))
    writer.put_many(DELAYED, rows)


def delayed(reader: Reader, until: int | None = None) -> Iterator[DelayedContributions]:
    """Read the rows up to a position, or all of them, in the order of positions."""
    end = None if until is None else _KEY.pack(until + 1, 0)
    for key, row in reader.scan(DELAYED, b"", end):
        position, receiver = _KEY.unpack(key)
        yield DelayedContributions(position, receiver, unpack(unseal(key, row, DELAYED)))


def first_delayed(reader: Reader) -> int | None:
    """Find the first position with a row."""
    return next((_KEY.unpack(key)[0] for key, _ in islice(reader.scan(DELAYED), 1)), None)


def drop_delayed(writer: Writer, rows: Iterable[DelayedContributions]) -> None:
    """Delete rows whose contributions go into `out`."""
    writer.delete_many(DELAYED, [_KEY.pack(row.position, row.receiver) for row in rows])
