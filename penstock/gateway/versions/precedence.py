"""The rule for one record: does it replace the current version of its key, repeat it, or come too late?

The rule is one function of a few facts. `OUTCOMES` is its table over all their combinations. A small batch looks up one
record at a time, and a batch of columns looks up all its records at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Outcome(IntEnum):
    """The outcome of a record."""

    APPLIED = 0
    EQUAL = 1
    LATE = 2


COMPARE = 3  # EQUAL if the two documents are equal, else APPLIED

# The facts, as bits of a place in `OUTCOMES`
DOCUMENT = 1  # the current version is a document
TOMBSTONE = 2  # the current version is a tombstone
DELETES = 4  # the record deletes
EARLIER = 8  # its ts is less than that of the current version
SAME_TS = 16  # its ts equals that of the current version
STAMPED = 32  # the table has ts. Without ts there are no tombstones, and EARLIER and SAME_TS are ignored


def outcome_of(facts: int) -> int:
    """Return the outcome of a record, or COMPARE."""
    document, deleted = bool(facts & DOCUMENT), not facts & DOCUMENT
    if facts & STAMPED:
        deleted = bool(facts & TOMBSTONE)
        if facts & EARLIER and (document or deleted):
            return Outcome.LATE
        if not facts & SAME_TS:
            return Outcome.APPLIED
    if facts & DELETES:
        return Outcome.EQUAL if deleted else Outcome.APPLIED
    return COMPARE if document else Outcome.APPLIED


OUTCOMES = tuple(outcome_of(facts) for facts in range(2 * STAMPED))
_UNSTAMPED, _STAMPED = np.split(np.array(OUTCOMES, np.uint8), 2)
_BITS = {bit: np.array(bit, np.uint8) for bit in (TOMBSTONE, DELETES, EARLIER, SAME_TS)}


def outcomes_of(document: Mask, facts: Mapping[int, Mask | None], stamped: bool) -> NDArray[np.uint8]:
    """Return the outcome of each record, or COMPARE.

    `document` marks the records whose current version is a document, and `facts` those with other facts; None: none.
    """
    places = document.view(np.uint8)
    for bit, mask in facts.items():
        if mask is not None:
            places = places | mask.view(np.uint8) * _BITS[bit]
    return (_STAMPED if stamped else _UNSTAMPED).take(places)
