"""Write the keys that changed since the last index fold into the index, one range of buckets per step.

At the start the keys are sorted by the upper 16 bits of their hash, which is a radix sort. Each step sorts its own
range completely, so no step takes long. A step writes the place of a key's newest line at that moment, which may be
newer than the start of the fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.cache.log import hash_index
from penstock.cache.log.key_cache import GONE, KeyCache
from penstock.cache.log.key_slots import Lane, Slots, key_hash
from penstock.cache.store.protocol import Writer

_TOP = 16


@dataclass(slots=True)
class IndexFold:
    """An index fold in progress."""

    slots: Slots
    hashes: Lane
    top: NDArray[np.uint16]
    bits: int
    doubling: bool  # all rows are rewritten, split in two
    mark: int  # the index will have all records before this one
    release: int  # the last step deletes the segments before this record
    steps: int
    at: int = 0

    @classmethod
    def begin(cls, keys: KeyCache, bits: int, doubling: bool, mark: int, release: int, buckets: int) -> IndexFold:
        """Take all changed keys. A step touches about `buckets` buckets."""
        slots = keys.take_dirty()
        hashes = key_hash(*keys.map.lanes(slots))
        top = (hashes >> np.uint64(64 - _TOP)).astype(np.uint16)
        order = np.argsort(top, kind="stable")
        steps = max(1, (1 << min(bits, _TOP)) // buckets)
        return cls(slots[order], hashes[order], top[order], bits, doubling, mark, release, steps)

    @property
    def done(self) -> bool:
        """Return whether all steps are done."""
        return self.at == self.steps

    def step(self, writer: Writer, db: str, keys: KeyCache, tombstones: bool, at: int) -> None:
        """Write one range of buckets."""
        low, high = ((i << min(self.bits, _TOP)) // self.steps for i in (at, at + 1))
        shift = max(0, _TOP - self.bits)
        edges = (min(edge << shift, 1 << _TOP) for edge in (low, high))
        a, b = (int(np.searchsorted(self.top, edge - 1, "right")) if edge else 0 for edge in edges)
        hashes = self.hashes[a:b]
        order = np.argsort(hashes)
        slots, hashes = self.slots[a:b][order], hashes[order]
        entries = hash_index.IndexEntries(hashes, hash_index.rest_of(keys.map.lanes(slots)[1]), keys.record[slots])
        drop = (keys.state[slots] & GONE != 0) & (not tombstones)
        if entries.rest is not None:
            twin = np.lexsort((entries.rest, entries.hash))
            entries = hash_index.IndexEntries(hashes[twin], entries.rest[twin], entries.record[twin])
            drop = drop[twin]
        if self.doubling:
            wide = max(0, self.bits - _TOP)
            hash_index.rewrite_range(writer, db, self.bits, (low << wide, high << wide), entries, drop)
        elif slots.size:
            buckets = hashes >> np.uint64(64 - self.bits)
            first = np.concatenate(([True], buckets[1:] != buckets[:-1]))
            hash_index.rewrite(writer, db, self.bits, buckets[first], entries, drop)
