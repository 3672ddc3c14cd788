"""Remove old tombstones: the index forgets keys whose deletion is too old to matter.

A step is one transaction. The index drops the keys, and the mark no longer counts them. Their lines are then dead, and
compaction skips them. Invariants:

- a tombstone is removed only if the index has it. In a segment that `open` would lay over the index again it stays, so
  tombstones are folded first;
- nothing else changes: a key with a newer record keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from penstock.cache.log import hash_index
from penstock.cache.log.document_log import DocumentLog, index_db
from penstock.cache.log.key_cache import LOADED
from penstock.cache.log.key_slots import Slots, key_hash
from penstock.cache.log.log_reader import segments_from
from penstock.cache.log.segment import Segment
from penstock.cache.store.protocol import Writer

__all__ = ["forget_step"]


def forget_step(
    log: DocumentLog, writer: Writer, start: int, n: int, is_old: Callable[[bytes], bool]
) -> tuple[int, int, Callable[[], None]]:
    """Pass over about n records from `start` on, and remove the tombstones whose lines are old.

    Return the start of the next step, the number of removed tombstones, and a function to call after the commit. At the
    end of the folded records, the start stays the same.
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


def _old(log: DocumentLog, writer: Writer, segment: Segment, is_old: Callable[[bytes], bool]) -> Slots:
    """Return the slots of the old tombstones among a segment's live lines."""
    slots, at = log.living(writer, segment)
    assert segment.gone is not None, "asked of segments with deletions"
    gone = segment.gone[at]
    slots, at = slots[gone], at[gone]
    return slots[[is_old(line) for line in segment.lines(at)]] if at.size else slots


def _drop(log: DocumentLog, writer: Writer, slots: Slots) -> None:
    lane0, lane1 = log.keys.map.lanes(slots)
    hashes = key_hash(lane0, lane1)
    rest = hash_index.rest_of(lane1)
    order = np.argsort(hashes) if rest is None else np.lexsort((rest, hashes))
    hashes = hashes[order]
    entries = hash_index.IndexEntries(hashes, None if rest is None else rest[order], log.keys.record[slots[order]])
    buckets = np.unique(hashes >> np.uint64(64 - log.mark.bits))
    hash_index.rewrite(writer, index_db(log.table), log.mark.bits, buckets, entries, np.ones(slots.size, bool))
