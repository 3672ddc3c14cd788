"""The seam of spouts: batches of records, each with the offset after it, and what is promised of reading again.

A spout reads one source into one table. It is told once where the store stands, then gives batches in order.
Invariants:

- a batch's `resume` is the next to read: all before it has been given, nothing from it on;
- batches of one source follow each other without a gap: each begins where the one before it ended;
- a fenced batch never moves an offset that another reader of its source has moved since, nor joins records of two
  sources that had one name: its note is the store's, or else it begins anew where the store stood;
- a spout keeps nothing itself: the offset and a note of its own are committed with the records of a batch, and are what
  it is told at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from penstock.gateway import Received, TableBatch
from penstock.spout.errors import SourceCut


@dataclass(frozen=True, slots=True)
class Remembered:
    """Where a store stands in a source: the offset, next to read, and the spout's note."""

    offset: int
    note: bytes = b""


@dataclass(frozen=True, slots=True)
class Contract:
    """Whether all records since a committed offset can be read again, in order and none left out; and why, in words."""

    exact: bool
    says: str


@dataclass(slots=True)
class SpoutBatch:
    """Some records of one source in their order, and the offset after the last of them.

    Under `raw` the lines are as they were read: blank ones are no records, and what is no JSON object is told apart by
    the engine. Else they are documents in stored form, and what could not become one is in `refused`.

    >>> batch = SpoutBatch(TableBatch([b'{"id": 7}', b""]), "users=file:a", start=0, resume=11, unit="a, line")
    >>> batch.records.n, batch.resume
    (2, 11)
    """

    records: TableBatch
    source: str | None = None  # the store's name of the source partition; None of what can't be read again
    start: int = 0  # the offset of the first
    resume: int = 0
    note: bytes = b""
    again: bool = False  # the source begins anew, wherever the store stands in it
    raw: bool = True
    unit: str = "record"
    first: int = 1  # the number of the first place, as people count
    skips: list[int] = field(default_factory=list)  # places, from 0, that gave no record
    refused: dict[int, str] = field(default_factory=dict)  # by such places: why they gave none
    received: dict[int, Received] = field(default_factory=dict)  # by such places: what was received
    envelope: bool = False  # each record names its own table
    offsets: Sequence[int] = ()  # by place, of records that have offsets of their own
    begins: Sequence[int] = ()  # by place where it begins; may be left out of raw lines that stand as they were read
    fenced: bool = False  # others may read the source: it counts only where the store stands as its spout was told
    stood: Remembered | None = None  # of a fenced one that begins anew: where that was

    def __post_init__(self) -> None:
        assert not (self.raw and (self.skips or self.records.n != len(self.records.lines))), (
            "raw lines are all there is"
        )
        self.records.refused = len(self.refused)

    def begin_of_each(self) -> Sequence[int]:
        """Return by place the offset where it begins; SourceCut is raised if the spout does not tell."""
        begins = self.known_begins()
        if not begins and self.resume > self.start:
            raise SourceCut(self.source or "", self.start, self.resume)
        return begins

    def known_begins(self) -> Sequence[int]:
        """Return by place the offset where it begins; nothing if the spout does not tell."""
        if self.begins or not self.raw:
            return self.begins
        begins = list(accumulate((len(line) + 1 for line in self.records.lines), initial=self.start))
        return begins[:-1] if begins[-1] == self.resume else ()


Recall = Callable[[str], Remembered | None]


class Spout(Protocol):
    """A source being read: five methods, what it promises of reading again, and whether nothing more will come."""

    contract: Contract
    ended: bool

    def begin(self, recall: Recall) -> None:
        """Go on where the store stands; `recall` says where that is, by the names of sources."""
        ...

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """At most `limit` records. None if none came within `wait` seconds, or if it has ended."""
        ...

    def lag(self) -> int | None:
        """How much is there and not given yet, in the source's own unit; None where that can't be known."""
        ...

    def committed(self, batch: SpoutBatch) -> None:
        """This batch, and all before it, is durable."""
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...
