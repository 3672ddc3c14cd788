"""The protocol of spouts: batches of records, each with the offset after it, and a promise about reading again.

A spout reads one file or topic into one table. It gets the store's offset once, then returns batches in order.
Invariants:

- a batch's `resume` is the next offset to read: all records before it were returned, and none from it on;
- batches of one source partition follow each other without a gap: each begins where the one before ended;
- a fenced batch never moves an offset that another reader has moved since. It also never mixes records of two topics or
  files of one name. Either its spout state equals the stored one, or it starts again at the store's former offset;
- a spout stores nothing itself. Its offset and its spout state are committed with the records of a batch, and are
  passed to it at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from penstock.gateway import ReceivedRecord, TableBatch
from penstock.spout.errors import SourceCut


@dataclass(frozen=True, slots=True)
class Remembered:
    """The store's state of a source partition: the next offset to read, and the spout state."""

    offset: int
    note: bytes = b""


@dataclass(frozen=True, slots=True)
class Contract:
    """A promise whether all records since a committed offset can be read again in order, with a reason."""

    exact: bool
    says: str


@dataclass(slots=True)
class SpoutBatch:
    """Consecutive records of one source partition, and the offset after the last of them.

    With `raw` the lines are as they were read: blank lines are no records, and the engine rejects lines that are no
    JSON objects. Otherwise they are documents in stored form, and `refused` has the records that could not be
    converted.

    >>> batch = SpoutBatch(TableBatch([b'{"id": 7}', b""]), "users=file:a", start=0, resume=11, unit="a, line")
    >>> batch.records.n, batch.resume
    (2, 11)
    """

    records: TableBatch
    source: str | None = None  # the source partition; None if it can't be read again
    start: int = 0  # the offset of the first record
    resume: int = 0
    note: bytes = b""
    again: bool = False  # the source partition starts again, at any stored offset
    raw: bool = True
    unit: str = "record"
    first: int = 1  # the number of the first place in messages
    skips: list[int] = field(default_factory=list)  # places, from 0, that gave no record
    refused: dict[int, str] = field(default_factory=dict)  # by such places: the reason
    received: dict[int, ReceivedRecord] = field(default_factory=dict)  # by such places: the received bytes
    envelope: bool = False  # each record names its own table
    offsets: Sequence[int] = ()  # by place, for records that have their own offsets
    begins: Sequence[int] = ()  # by place: its first offset. It may be empty for raw lines that are unchanged
    fenced: bool = False  # others may read it too: it is refused if its reader had an outdated offset
    stood: Remembered | None = None  # of a fenced batch that starts again: the store's former state

    def __post_init__(self) -> None:
        assert not (self.raw and (self.skips or self.records.n != len(self.records.lines))), (
            "raw lines are all there is"
        )
        self.records.refused = len(self.refused)

    def begin_of_each(self) -> Sequence[int]:
        """Return the first offset of each place. Raise SourceCut if the spout does not report it."""
        begins = self.known_begins()
        if not begins and self.resume > self.start:
            raise SourceCut(self.source or "", self.start, self.resume)
        return begins

    def known_begins(self) -> Sequence[int]:
        """Return the first offset of each place, or nothing if the spout does not report it."""
        if self.begins or not self.raw:
            return self.begins
        begins = list(accumulate((len(line) + 1 for line in self.records.lines), initial=self.start))
        return begins[:-1] if begins[-1] == self.resume else ()


Recall = Callable[[str], Remembered | None]


class Spout(Protocol):
    """A reader of one file or topic.

    `contract` promises what can be read again, `ended` says that no record will follow.
    """

    contract: Contract
    ended: bool

    def begin(self, recall: Recall) -> None:
        """Continue at the store's offset. `recall` returns the state of a source partition by name."""
        ...

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return at most `limit` records. Return None if none came within `wait` seconds, or if the spout has ended."""
        ...

    def lag(self) -> int | None:
        """Return the amount that is available but not returned yet, in the unit of the offset.

        None if that is unknown.
        """
        ...

    def committed(self, batch: SpoutBatch) -> None:
        """Accept that this batch, and all before it, are durable."""
        ...

    def close(self) -> None:
        """Close the spout."""
        ...
