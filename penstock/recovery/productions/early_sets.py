"""Early sets: contributions of a batch sent to other partitions before the batch is saved, and their undo rows.

The receiver applies an early set and writes an undo row in one transaction. Each message names the sender's last saved
batch. So a receiver knows that an early set of a later batch is not saved yet. Invariants:

- a receiver applies the messages of a sender in the order of (epoch, batch, turn), each once, and refuses an older
  epoch;
- an undo row stays until the sender reports that the batch is saved, or that it failed: then the row is restored;
- a sender that opens reports its last saved batch before any other message.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, Writer, pack, seal, unpack, unseal
from penstock.recovery.productions.numbered_productions import OldEpoch

__all__ = ["BEFORE", "EarlySet", "Guard", "UndoRow", "keep_before", "newer", "unconfirmed_batches", "undo_rows"]

BEFORE = "before"
"""The database of undo rows."""
_KEY = struct.Struct(">I")  # the sender

Guard = tuple[int, int, int]
"""The order of the last message that was applied from a sender: epoch, batch and turn. The turn is 0 for an early set,
1 for contributions saved with the batch or later, 2 for the report of the batch's end.
"""


@dataclass(frozen=True, slots=True)
class EarlySet:
    """An early set in transit: its sender, the sender's epoch, its batch, and the last batch that is `saved`.

    Without parts it reports the end of the batch: saved or failed. With `waits` the sender waits without a time limit.
    """

    sender: int
    epoch: int
    batch: int
    saved: int
    parts: list[Any]
    waits: bool = True

    @property
    def order(self) -> Guard:
        """Return the order of the message among those of its sender."""
        return self.epoch, self.batch, 0 if self.parts else 2


@dataclass(frozen=True, slots=True)
class UndoRow:
    """An undo row: the contributions that an early set replaced."""

    batch: int
    parts: list[Any]


def newer(known: Guard, early: EarlySet) -> bool:
    """Return True if the message is newer than the last applied one. Raise OldEpoch for a zombie's message."""
    if early.epoch < known[0]:
        raise OldEpoch(early.sender, early.epoch, known[0])
    return early.order > known


def undo_rows(reader: Reader, sender: int) -> UndoRow | None:
    """Read the undo row of a sender's last early set, while its batch is not known to be saved."""
    key = _KEY.pack(sender)
    row = reader.get_many(BEFORE, [key])[0]
    return None if row is None else UndoRow(*unpack(unseal(key, row, BEFORE)))


def keep_before(writer: Writer, sender: int, undo: UndoRow | None) -> None:
    """Replace the undo row of a sender; with None delete it."""
    key = _KEY.pack(sender)
    if undo is None:
        writer.delete_many(BEFORE, [key])
    else:
        writer.put_many(BEFORE, [(key, seal(key, pack([undo.batch, undo.parts])))])


def unconfirmed_batches(reader: Reader) -> dict[int, int]:
    """Return the batch of each undo row, by sender."""
    return {_KEY.unpack(key)[0]: unpack(unseal(key, row, BEFORE))[0] for key, row in reader.scan(BEFORE)}
