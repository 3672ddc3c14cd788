"""Forgetting tombstones: keys whose deletion is too old to matter leave the index, as if they had never been.

A step is one transaction: the index no longer names their lines, and the mark counts them no more. The lines are dead
then, and go when compacting passes over them. Invariants:

- only a tombstone that the index names is forgotten, never one in a segment that opening would lay over the index
  again; so all that is to be forgotten is folded first;
- nothing else changes: a key that has a newer record keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from penstock.cache.log import hash_index
from penstock.cache.log.document_log import DocLog, index_db
from penstock.cache.log.key_cache import LOADED
from penstock.cache.log.key_slots import Slots, key_hash
from penstock.cache.log.log_reader import segments_from
from penstock.cache.log.segment import Segment
from penstock.cache.store.protocol import Writer

__all__ = ["forget_step"]


def forget_step(
    log: DocLog, writer: Writer, start: int, n: int, is_old: Callable[[bytes], bool]
) -> tuple[int, int, Callable[[], None]]:
    """Pass over about n records from `start` on, and forget the tombstones whose lines are old.

    The answer is where the next step starts, how many were forgotten, and what is to be called after the commit. At
    the end of what is folded it doesn't move on.
    """
    assert not log.folding, "the index names where each key's line stands"
    assert not log.mark.doubling, "each bucket has a row of its own"
    found: list[Slots] = []
    passed, at = 0, start
    for segment in segments_from(writer, log.table, start):
        end = segment.base + len(segment)
        if end > log.mark.folded or (passed and passed + len(segment) > n):
            break
        if segment.gone is not None:
            if not log.keys.room(len(segment)):
                break
            found.append(_old(log, writer, segment, is_old))
        passed, at = passed + len(segment), end
    slots = np.concatenate(found) if found else np.zeros(0, np.int64)
    if not slots.size:
        return at, 0, lambda: None
    _drop(log, writer, slots)
    mark = msgspec.structs.replace(
        log.mark, tombstones=log.mark.tombstones - int(slots.size), forgotten=log.mark.forgotten + 1
    )
    log.put_mark(writer, mark)

    def committed() -> None:
        log.mark = mark
        log.keys.state[slots] = LOADED

    return at, int(slots.size), committed


def _old(log: DocLog, writer: Writer, segment: Segment, is_old: Callable[[bytes], bool]) -> Slots:
    """The slots of a segment's living tombstones that are old."""
    slots, at = log.living(writer, segment)
    assert segment.gone is not None, "asked of segments with deletions"
    gone = segment.gone[at]
    slots, at = slots[gone], at[gone]
    return slots[[is_old(line) for line in segment.lines(at)]] if at.size else slots


def _drop(log: DocLog, writer: Writer, slots: Slots) -> None:
    lane0, lane1 = log.keys.map.lanes(slots)
    hashes = key_hash(lane0, lane1)
    rest = hash_index.rest_of(lane1)
    order = np.argsort(hashes) if rest is None else np.lexsort((rest, hashes))
    hashes = hashes[order]
    entries = hash_index.Entries(hashes, None if rest is None else rest[order], log.keys.record[slots[order]])
    buckets = np.unique(hashes >> np.uint64(64 - log.mark.bits))
    hash_index.rewrite(writer, index_db(log.table), log.mark.bits, buckets, entries, np.ones(slots.size, bool))
