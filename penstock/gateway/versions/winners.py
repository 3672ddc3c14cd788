"""Pick the winning version of each key in a batch, with the same outcomes as for one record after the other.

These are pure functions of columns: the records in the order of the batch, and the stored versions. The version of a
record is (ts, arrival). Arrival is the order of the batch; a stored version always arrived earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from penstock.cache import FEW, Slots
from penstock.gateway.versions.version_stamps import Stamps

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
SameDocument = Callable[[int, int], bool]


class Outcome(IntEnum):
    """The outcome of a record."""

    APPLIED = 0
    EQUAL = 1
    LATE = 2


@dataclass(slots=True)
class Decision:
    """The outcome of each record, and by slot the record that becomes the new version."""

    outcome: NDArray[np.uint8]
    winners: Index
    slots: Slots


@dataclass(slots=True)
class StoredVersions:
    """The stored version of the key of each record: a document or a tombstone, and the ts."""

    present: Mask
    tombstone: Mask
    ts: Stamps | None

    def take(self, records: Index) -> StoredVersions:
        """Return the facts of these records."""
        ts = None if self.ts is None else self.ts.take(records)
        return StoredVersions(self.present[records], self.tombstone[records], ts)


def decide(
    slots: Slots,
    deletes: Mask | None,
    ts: Stamps | None,
    stored: StoredVersions,
    same: SameDocument,
    same_as_stored: Callable[[Index], Mask],
) -> Decision:
    """Decide a batch.

    `same(i, j)` compares the documents of records i and j. `same_as_stored(records)` compares each document with the
    stored
    one of its key.
    """
    n = int(slots.size)
    late, unmoved = _late(slots, ts, stored), None
    if ts is not None and stored.ts is not None:
        unmoved = ts.same(stored.ts)
    facts = _Facts(deletes, unmoved, stored, same_as_stored)
    if n <= FEW and len(set(slots.tolist())) == n:
        return _decide_unique(slots, late, facts)
    arrival = _by_slot(slots)
    first = np.ones(n, bool)
    ordered = slots[arrival]
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    if first.all():
        return _decide_unique(slots, late, facts)
    ascends = ts is None or ts.ascends()
    order = arrival if ts is None or ascends else np.lexsort((np.arange(n), ts.ranks(), slots))
    last = np.append(first[1:], True)
    winners = np.sort(order[last])
    lost = late[winners]  # an older version than the one that is stored
    if not ascends:
        late = late | _late_inside(slots, ts, arrival)
    alone = np.ones(n, bool)
    alone[arrival[~(first & last)]] = False
    alone = alone[winners]
    if lost.any():
        winners, alone = winners[~lost], alone[~lost]
    outcome = late.astype(np.uint8) * np.uint8(Outcome.LATE)
    equal = _equal_to_stored(winners, facts)
    outcome[winners[equal & alone]] = Outcome.EQUAL
    settled = np.zeros(n, bool)
    settled[winners[alone]] = True
    _equal_inside(outcome, settled, arrival, slots, deletes, ts, facts, same)
    if equal.any():
        winners = winners[~equal]
    return Decision(outcome, winners, slots if winners.size == n else slots[winners])


@dataclass(slots=True)
class _Facts:
    """Facts of each record compared with the stored version of its key."""

    deletes: Mask | None
    unmoved: Mask | None  # its ts is that of the stored version; None in a table without ts
    stored: StoredVersions
    same_as_stored: Callable[[Index], Mask]


def _decide_unique(slots: Slots, late: Mask, facts: _Facts) -> Decision:
    """Decide a batch with one record per key."""
    winners, outcome = np.arange(slots.size), np.zeros(slots.size, np.uint8)
    if np.count_nonzero(late):
        winners = (~late).nonzero()[0]
        outcome[late] = Outcome.LATE
    equal = _equal_to_stored(winners, facts)
    if np.count_nonzero(equal):
        outcome[winners[equal]] = Outcome.EQUAL
        winners = winners[~equal]
    return Decision(outcome, winners, slots if winners.size == slots.size else slots[winners])


def _by_slot(slots: Slots) -> Index:
    """Sort the records by slot, those of one slot in their order."""
    n = int(slots.size)
    if n and int(slots.max()) < 1 << 31:
        return np.sort(slots << 32 | np.arange(n)) & 0xFFFFFFFF
    return np.argsort(slots, kind="stable")


def _late(slots: Slots, ts: Stamps | None, stored: StoredVersions) -> Mask:
    """Mark the records whose ts is less than that of the stored version."""
    if ts is None or stored.ts is None:
        return np.zeros(slots.size, bool)
    return (stored.present | stored.tombstone) & ts.less(stored.ts)


def _late_inside(slots: Slots, ts: Stamps | None, arrival: Index) -> Mask:
    """Mark the records after a record of the same key and batch with a greater ts."""
    n = int(slots.size)
    out = np.zeros(n, bool)
    if ts is None:
        return out
    ordered = slots[arrival]
    run = np.cumsum(np.concatenate(([0], ordered[1:] != ordered[:-1])))
    height = run * np.int64(n + 1) + ts.ranks()[arrival]
    out[arrival] = np.maximum.accumulate(height) > height
    return out


def _equal_to_stored(records: Index, facts: _Facts) -> Mask:
    """Mark the records that equal the stored version of their key."""
    equal, stored = np.zeros(records.size, bool), facts.stored
    may = stored.present[records]
    if facts.deletes is not None:
        gone = facts.deletes[records]
        absent = ~may if facts.unmoved is None else stored.tombstone[records]
        equal |= gone & absent
        may &= ~gone
    if facts.unmoved is not None:
        unmoved = facts.unmoved[records]
        equal &= unmoved
        may &= unmoved
    at = may.nonzero()[0]
    if at.size:
        equal[at] = facts.same_as_stored(records[at])
    return equal


def _equal_inside(
    outcome: NDArray[np.uint8],
    settled: Mask,
    arrival: Index,
    slots: Slots,
    deletes: Mask | None,
    ts: Stamps | None,
    facts: _Facts,
    same: SameDocument,
) -> None:
    """Mark the records that repeat the version that was current on arrival, for keys with several records."""
    order = arrival[outcome[arrival] != Outcome.LATE]
    ordered = slots[order]
    repeats = np.zeros(order.size, bool)
    repeats[1:] = ordered[1:] == ordered[:-1]
    follows = repeats.nonzero()[0]
    before, after = order[follows - 1], order[follows]
    could = np.ones(after.size, bool) if ts is None else ts.take(after).same(ts.take(before))
    if deletes is not None:
        could &= deletes[before] == deletes[after]
    for j in could.nonzero()[0].tolist():
        i, k = int(before[j]), int(after[j])
        if (deletes is not None and deletes[k]) or same(i, k):
            outcome[k] = Outcome.EQUAL
    lead = order[~repeats]
    lead = lead[~settled[lead]]
    equal = _equal_to_stored(lead, facts)
    outcome[lead[equal]] = Outcome.EQUAL
