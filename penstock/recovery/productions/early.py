"""What a partition tells another one of a batch before that is saved, and how it is taken back where it never is.

Who is told takes sets, and keeps in the same transaction what it had in their place. Everything that is told says which
batch its sender has, so that what is there of a later one is known to be told of a batch that is not in. Invariants:

- of one sender what is told is taken in the order of (epoch, batch, turn), and nothing that is not newer; what an older
  epoch said is refused;
- what was there is kept until its sender says that the batch is in, or is put back once it says that it is not;
- a sender that opens says which batch it has before it says anything else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, Writer, pack, seal, unpack, unseal
from penstock.recovery.productions.numbered import OldEpoch

__all__ = ["BEFORE", "Early", "Guard", "Kept", "keep_before", "kept_before", "newer", "untold"]

BEFORE = "before"
"""The database of what was there before others told something early."""
_KEY = struct.Struct(">I")  # who told it

Guard = tuple[int, int, int]
"""How new what was last taken of a sender is: its epoch, the batch, and 0 for what was told of it early, 1 for
what was saved with it or after it, 2 for what became of it."""


@dataclass(frozen=True, slots=True)
class Early:
    """Sets of one batch on their way: from whom, in which of its epochs, of which batch; `saved` is the last it has.

    Without parts it says what became of the batch. `waits` says that the sender waits however long it takes.
    """

    sender: int
    epoch: int
    batch: int
    saved: int
    parts: list[Any]
    waits: bool = True

    @property
    def order(self) -> Guard:
        """How new it is."""
        return self.epoch, self.batch, 0 if self.parts else 2


@dataclass(frozen=True, slots=True)
class Kept:
    """What was there before a batch was told, as sets."""

    batch: int
    parts: list[Any]


def newer(known: Guard, early: Early) -> bool:
    """Whether this is to be taken, after what was taken; OldEpoch of a zombie's."""
    if early.epoch < known[0]:
        raise OldEpoch(early.sender, early.epoch, known[0])
    return early.order > known


def kept_before(reader: Reader, sender: int) -> Kept | None:
    """What was there before this sender told what it told last, while it is not known to be in."""
    key = _KEY.pack(sender)
    row = reader.get_many(BEFORE, [key])[0]
    return None if row is None else Kept(*unpack(unseal(key, row, BEFORE)))


def keep_before(writer: Writer, sender: int, kept: Kept | None) -> None:
    """Keep what was there, in place of what was kept of this sender; with None nothing."""
    key = _KEY.pack(sender)
    if kept is None:
        writer.delete_many(BEFORE, [key])
    else:
        writer.put_many(BEFORE, [(key, seal(key, pack([kept.batch, kept.parts])))])


def untold(reader: Reader) -> dict[int, int]:
    """By sender the batch that it told last, of those that are not known to be in."""
    return {_KEY.unpack(key)[0]: unpack(unseal(key, row, BEFORE))[0] for key, row in reader.scan(BEFORE)}
