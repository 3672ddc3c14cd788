"""Atomic batches of several partitions: saved by one of them, and then applied by the others.

Readers may see the commits of such a batch one after the other. Invariants:

- one commit decides: before it no record of the batch is stored, and after it each partition will apply its own;
- a partition applies its records of a saved batch before any other batch, so that later puts stay later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from penstock.cache import PenstockError
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.partitions.member import MemberStatus, Tables
from penstock.partitions.transport.local_delivery import REFUSED

__all__ = ["AtomicBatches", "BatchWaits"]

_AGAIN = 0.001  # seconds between two looks at a partition that is to take its records
_LOOK = 0.05  # seconds between two looks at the one that sends them


class BatchWaits(PenstockError):
    """An atomic batch is saved, and one of its partitions can't take its records.

    >>> print(BatchWaits(1, 0, "the disk is full"))
    partition 1 can't take its records of a batch that is saved at partition 0, and takes no other batch before that: \
the disk is full; once that is mended the batch goes on by itself
    """

    def __init__(self, partition: int, saved: int, why: str) -> None:
        super().__init__(partition, saved, why)
        self.partition, self.saved, self.why = partition, saved, why

    def __str__(self) -> str:
        return (
            f"partition {self.partition} can't take its records of a batch that is saved at partition {self.saved}, "
            f"and takes no other batch before that: {self.why}; once that is mended the batch goes on by itself"
        )


class AtomicBatches:
    """The atomic batches of a store that partitions still must apply; `carry` delivers productions in one process."""

    def __init__(
        self, handles: Sequence[PartitionHandle], standing: Sequence[MemberStatus], carry: Callable[[], None]
    ) -> None:
        self._handles = handles
        self._carry = carry
        self._unsure: set[tuple[int, int]] = set()  # by sender and receiver, those of a batch that may have been saved
        self._waiting = {  # by sender and receiver, the number of the production
            (of, to): number
            for of, own in enumerate(standing)
            for to, number in own.batches.items()
            if standing[to].taken.get(of, 0) < number
        }

    def give(self, routed: Mapping[int, Tables], number: int, kinds: Mapping[str, str], strict: bool) -> None:
        """Save a batch at one of its partitions, and wait until the others have applied it."""
        first = self._free(sorted(routed))
        others = [owner for owner in sorted(routed) if owner != first]
        ways = {(first, other) for other in others}
        self._unsure |= ways  # if this fails, the batch may still be saved
        self._handles[first].take(routed[first], {}, number, kinds, strict, {other: routed[other] for other in others})
        saved = self._handles[first].marks().batches
        self._waiting.update({(first, other): saved[other] for other in others})
        self._unsure -= ways
        self.arrive(others)

    def _free(self, owners: Sequence[int]) -> int:
        """Find a partition whose productions none of the others refuses."""
        refused = {to: self._handles[to].marks().refused for to in owners}
        for of in owners:
            if not any(of in refused[to] for to in owners if to != of):
                return of
        to, why = next((to, why) for to in owners for of, why in refused[to].items() if of in owners)
        raise PenstockError(f"partition {to} can't take what others owe it, so nothing of this batch is stored: {why}")

    def arrive(self, partitions: Collection[int]) -> None:
        """Wait until these partitions have applied their records of saved batches; raise BatchWaits if one can't."""
        for sender, to in [way for way in self._unsure if way[1] in partitions]:
            self._waiting[sender, to] = self._handles[sender].marks().batches.get(to, 0)
            self._unsure.discard((sender, to))
        for way, number in list(self._waiting.items()):
            if way[1] in partitions:
                self.wait(*way, number)
                del self._waiting[way]

    def wait(self, sender: int, to: int, number: int) -> None:
        """Wait until a partition has applied the production with this number."""
        since = looked = time.monotonic()
        while True:
            with suppress(PenstockError):  # the one that can't take it says so
                self._carry()
            marks, now = self._handles[to].marks(), time.monotonic()
            if marks.taken.get(sender, 0) >= number:
                return
            if sender in marks.refused and now - since >= REFUSED:
                raise BatchWaits(to, sender, marks.refused[sender])
            if now - looked >= _LOOK:
                looked = now
                self._handles[sender].marks()  # this replaces a process that has ended
            time.sleep(_AGAIN)
