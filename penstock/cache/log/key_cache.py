"""Cache the keys of a table in memory: slot, record number, state, and the keys that are not in the index yet.

States of a slot, as bits:

- 0: unknown. The index must be asked, unless all keys are known to be here;
- RECORD: `record` names the key's newest line, but its columns are not loaded;
- LOADED: the columns by slot are filled. With PRESENT there is a document. With GONE a record says that there is none
  (a tombstone). With neither there is no record.

All of this follows from committed rows, so it may be dropped at any time. Keys that are not in the index are carried
over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache.log.key_slots import Lane, SlotMap, Slots, first_size, roomy
from penstock.cache.log.segment import FEW

PRESENT, GONE, LOADED, RECORD = 1, 2, 4, 8


class KeyCache:
    """The cached keys of one table."""

    __slots__ = ("_dirty", "_single", "dirty_count", "map", "record", "state")

    def __init__(self, capacity: int) -> None:
        self.map = SlotMap(capacity)
        self.record: NDArray[np.uint32] = np.zeros(first_size(capacity), np.uint32)
        self.state: NDArray[np.uint8] = np.zeros(first_size(capacity), np.uint8)
        self._dirty: list[Slots] = []
        self._single: list[int] = []  # also dirty; they came one by one
        self.dirty_count = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes in use."""
        return self.map.nbytes + 5 * self.map.used + 8 * self.dirty_count

    def room(self, n: int) -> bool:
        """Return whether n more keys fit."""
        return self.map.used + n <= self.map.capacity

    def find_or_add(self, k0: Lane, k1: Lane | None) -> Slots:
        """Return the slot of each key. New slots have the state 0."""
        before = self.map.used
        slots = self.map.find_or_add(k0, k1)
        if self.map.used != before:
            self._fit(before)
        return slots

    def find_or_add_few(self, keys: Sequence[tuple[int, int]]) -> list[int]:
        """Do the same as `find_or_add` for a few keys."""
        slots = [self.map.find_one(k0, k1) for k0, k1 in keys]
        if min(slots) < 0:
            before = self.map.used
            missing = sorted({key for key, slot in zip(keys, slots, strict=True) if slot < 0})
            fresh = {key: self.map.add_one(*key) for key in missing}
            self._fit(before)
            slots = [fresh[key] if slot < 0 else slot for key, slot in zip(keys, slots, strict=True)]
        return slots

    def _fit(self, before: int) -> None:
        need, capacity = self.map.used, self.map.capacity
        self.record = roomy(self.record, before, need, capacity)
        self.state = roomy(self.state, before, need, capacity)

    def put(self, slots: Slots, records: NDArray[Any], state: NDArray[np.uint8] | np.uint8) -> None:
        """Set newer records of these slots. The index does not have them yet."""
        self.record[slots] = records  # modulo 2**32
        self.state[slots] = state
        if slots.size <= FEW:
            self._single += slots.tolist()
        else:
            self._dirty.append(slots)
        self.dirty_count += int(slots.size)

    def put_few(self, slots: list[int], base: int, state: Sequence[int]) -> None:
        """Do the same as `put` for a few slots, with consecutive records from `base` on."""
        for record, (slot, bits) in enumerate(zip(slots, state, strict=True), base):
            self.record[slot] = record & 0xFFFFFFFF
            self.state[slot] = bits
        self._single += slots
        self.dirty_count += len(slots)

    def overlay(self, k0: Lane, k1: Lane | None, base: int, gone: NDArray[np.bool_] | None) -> None:
        """Add consecutive records from `base` on that the index may not have. The last record of a key wins."""
        slots = self.find_or_add(k0, k1)
        state = np.full(slots.size, RECORD, np.uint8)
        if gone is not None:
            state[gone] |= GONE
        self.put(slots, np.arange(base, base + slots.size), state)

    def under(self, newer: KeyCache) -> KeyCache:
        """Merge the records of this cache and of a newer one into a new cache without dirty keys."""
        out = KeyCache(self.map.used + newer.map.used)
        for part in (self, newer):
            used = part.map.used
            slots = out.find_or_add(*part.map.lanes(np.arange(used)))
            out.record[slots], out.state[slots] = part.record[:used], part.state[:used]
        return out

    def take_dirty(self) -> Slots:
        """Return each slot once that the index does not have. They count as clean from now on."""
        flag = np.zeros(self.map.used, bool)
        for slots in (*self._dirty, np.array(self._single, np.int64)):
            flag[slots] = True
        self._dirty, self._single, self.dirty_count = [], [], 0
        return flag.nonzero()[0]

    def heir(self, also_dirty: Slots | None, capacity: int, room: int) -> KeyCache:
        """Return a new cache with only the keys that the index does not have, and with space for `room` more keys."""
        if also_dirty is not None:
            self._dirty.append(also_dirty)
        slots = self.take_dirty()
        out = KeyCache(max(capacity, int(slots.size) + room))
        if slots.size:
            k0, k1 = self.map.lanes(slots)
            had = self.state[slots]
            state = np.where(had & LOADED, RECORD | (had & GONE), had).astype(np.uint8)
            fresh = out.map.add(k0, k1)
            out._fit(0)
            out.put(fresh, self.record[slots], state)
        return out
