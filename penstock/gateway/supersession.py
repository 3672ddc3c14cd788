"""Find the quarantined records with a newer record of the same key, in a table without ts.

In such a table the last record wins. So a retry takes a record only if no record of its key has arrived since. Record
numbers show this, because they grow with each batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    RECORD,
    PenstockError,
    Reader,
    Slots,
    received_document,
    segments_from,
    segments_of,
)
from penstock.gateway.intake.intake import TableBatch
from penstock.gateway.lines.line_numbers import first_numbers
from penstock.gateway.table_node import TableNode
from penstock.gateway.view_deltas import key_value
from penstock.mapreduce import key_lanes

__all__ = ["superseded"]

Index = NDArray[np.int64]
WRITTEN = "superseded: its key was written since; drop it, or put it anew if it is right"
_UNKNOWN = (
    "its key has no document, and compacting has passed over what came since, which may have deleted it; put it anew "
    "if it is right, or drop it"
)


def superseded(node: TableNode, reader: Reader, batch: TableBatch, tails: Sequence[int]) -> dict[int, str]:
    """Return the records of a batch that a retry cannot take, with reasons; `tails` are from their first arrival."""
    assert not node.table.has_ts, "elsewhere ts says which version wins"
    keys = _keys(node, batch)
    places = list(keys)
    (k0, k1), refused = key_lanes(list(keys.values()), node.seed)
    slots = node.slots_of(reader, k0, k1)
    # Memory may still contain a deletion that compaction has removed. The key has no other line then.
    known = (node.log.keys.state[slots] & RECORD != 0) & (node.log.records(slots) >= node.log.head)
    since = np.array([tails[place] for place in places], np.int64)
    out: dict[int, str] = {}
    at = np.flatnonzero(known)
    for i in at[_first_numbers(node, reader, slots[at]) >= since[at]].tolist():
        out[i] = WRITTEN
    rest = np.flatnonzero(~known)
    if rest.size:
        out.update((int(rest[j]), why) for j, why in _deleted(node, reader, slots[rest], since[rest]).items())
    return {places[i]: why for i, why in out.items() if i not in refused}


def _keys(node: TableNode, batch: TableBatch) -> dict[int, object]:
    """Return the keys of the records of a batch by place, without records that have no valid key."""
    out: dict[int, object] = {place: deletion.key for place, deletion in batch.deletes.items()}
    for place, line in zip(batch.places().tolist(), batch.lines, strict=True):
        try:
            out[place] = key_value(node.table, received_document(line))
        except (PenstockError, ValueError, RecursionError):
            continue  # it is rejected again
    return out


def _first_numbers(node: TableNode, reader: Reader, slots: Slots) -> Index:
    """Return the original numbers of the newest lines of these slots."""
    out = np.zeros(slots.size, np.int64)
    for segment, which, at in segments_of(reader, node.number, node.log.records(slots)):
        out[which] = first_numbers(node.number, reader, segment.base, at)
    return out


def _deleted(node: TableNode, reader: Reader, slots: Slots, since: Index) -> dict[int, str]:
    """Find the slots without a line that were deleted since, or may have been."""
    out = dict.fromkeys(np.flatnonzero(since < node.log.head).tolist(), _UNKNOWN)
    lane0, lane1 = node.log.keys.map.lanes(slots)
    for segment in segments_from(reader, node.number, int(since.min())):
        for i in range(slots.size):
            same = segment.k0 == lane0[i]
            if segment.k1 is not None or lane1 is not None:
                same &= (0 if segment.k1 is None else segment.k1) == (0 if lane1 is None else lane1[i])
            at = np.flatnonzero(same)
            if at.size and bool((first_numbers(node.number, reader, segment.base, at) >= since[i]).any()):
                out[i] = WRITTEN
    return out
