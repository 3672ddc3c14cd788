"""Pick the winning version of each key in a batch, with the same outcomes as for one record after the other.

These are pure functions of the records in the order of the batch, and of the stored versions. The version of a record
is (ts, arrival). Arrival is the order of the batch; a stored version always arrived earlier. `decide` takes columns,
and `decide_each` takes a few records one by one. Both apply the rule of `precedence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import FEW, Slots
from penstock.gateway.versions.precedence import (
    COMPARE,
    DELETES,
    DOCUMENT,
    EARLIER,
    OUTCOMES,
    SAME_TS,
    STAMPED,
    TOMBSTONE,
    Outcome,
    outcomes_of,
)
from penstock.gateway.versions.version_stamps import Stamps

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
# NumPy converts an int on each use, which costs more than the comparison of a few records.
_EQUAL, _LATE, _COMPARE = (np.array(found, np.uint8) for found in (Outcome.EQUAL, Outcome.LATE, COMPARE))
SameDocument = Callable[[int, int], bool]


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
    stored one of its key.
    """
    n = int(slots.size)
    facts = _Facts(_against_stored(deletes, ts, stored), same_as_stored)
    late = facts.outcomes == _LATE
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
    """Each record compared with the stored version of its key."""

    outcomes: NDArray[np.uint8]  # as if it were the only record of its key; COMPARE if the documents decide
    same_as_stored: Callable[[Index], Mask]


def _against_stored(deletes: Mask | None, ts: Stamps | None, stored: StoredVersions) -> NDArray[np.uint8]:
    """Return the outcome of each record against the stored version of its key, or COMPARE."""
    if ts is None or stored.ts is None:
        return outcomes_of(stored.present, {DELETES: deletes}, False)
    earlier, same_ts = ts.less(stored.ts), ts.same(stored.ts)
    facts = {TOMBSTONE: stored.tombstone, DELETES: deletes, EARLIER: earlier, SAME_TS: same_ts}
    return outcomes_of(stored.present, facts, True)


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
    outcomes = facts.outcomes[records]
    equal: Mask = outcomes == _EQUAL
    at = (outcomes == _COMPARE).nonzero()[0]
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
    stored: _Facts,
    same: SameDocument,
) -> None:
    """Mark the records that repeat the version that was current on arrival, for keys with several records."""
    order = arrival[outcome[arrival] != Outcome.LATE]
    ordered = slots[order]
    repeats = np.zeros(order.size, bool)
    repeats[1:] = ordered[1:] == ordered[:-1]
    follows = repeats.nonzero()[0]
    before, after = order[follows - 1], order[follows]
    document, facts = np.ones(after.size, bool), dict[int, Mask | None]()
    if deletes is not None:
        document, facts = ~deletes[before], {TOMBSTONE: deletes[before], DELETES: deletes[after]}
    if ts is not None:
        facts[SAME_TS] = ts.take(after).same(ts.take(before))
    outcomes = outcomes_of(document, facts, ts is not None)
    outcome[after[outcomes == _EQUAL]] = Outcome.EQUAL
    for j in (outcomes == _COMPARE).nonzero()[0].tolist():
        i, k = int(before[j]), int(after[j])
        if same(i, k):
            outcome[k] = Outcome.EQUAL
    lead = order[~repeats]
    lead = lead[~settled[lead]]
    equal = _equal_to_stored(lead, stored)
    outcome[lead[equal]] = Outcome.EQUAL


# -- one by one


@dataclass(slots=True)
class CurrentVersion:
    """The current version of a key: of a record of the batch, or as it is stored."""

    facts: int  # DOCUMENT, TOMBSTONE or neither
    ts: Any = None
    record: int = -1  # -1: it is stored
    fresh: bool = False  # it differs from the stored version


def decide_each(
    slots: Sequence[int],
    deletes: Sequence[bool],
    ts: list[Any] | None,
    stored: Callable[[int], CurrentVersion],
    same: SameDocument,
    same_as_stored: Callable[[int], bool],
) -> tuple[bytearray, list[int]]:
    """Decide a few records, one after the other. Return their outcomes, and the winners.

    The ts of a deletion may be None. It gets the ts of the version that it deletes; without one it changes nothing.
    """
    outcome = bytearray(len(slots))
    current: dict[int, CurrentVersion] = {}
    before: dict[int, CurrentVersion] = {}

    def against(version: CurrentVersion, i: int) -> int:
        facts = version.facts | (DELETES if deletes[i] else 0)
        if ts is not None:
            facts |= STAMPED
            if version.facts:
                facts |= EARLIER if ts[i] < version.ts else SAME_TS if ts[i] == version.ts else 0
        found = OUTCOMES[facts]
        if found != COMPARE:
            return found
        equal = same(version.record, i) if version.record >= 0 else same_as_stored(i)
        return Outcome.EQUAL if equal else Outcome.APPLIED

    for i, slot in enumerate(slots):
        version = current.get(slot)
        if version is None:
            version = current[slot] = before[slot] = stored(slot)
        if ts is not None and ts[i] is None:
            if not version.facts:
                outcome[i] = Outcome.EQUAL
                continue
            ts[i] = version.ts
        found = outcome[i] = against(version, i)
        if found == Outcome.LATE:
            continue
        fresh = version.fresh
        if found == Outcome.APPLIED:
            fresh = version.record < 0 or against(before[slot], i) != Outcome.EQUAL
        facts = TOMBSTONE if deletes[i] else DOCUMENT
        current[slot] = CurrentVersion(facts, None if ts is None else ts[i], i, fresh)
    return outcome, sorted(version.record for version in current.values() if version.fresh)
