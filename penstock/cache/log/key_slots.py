"""Map keys to dense slots, whole columns at a time: open addressing in NumPy.

A key is two 64-bit lanes. An int64 is exact: the first lane is its value, the second is 0. Any other key is the seeded
128-bit hash of its encoding with the lowest bit of the second lane set. All data about a key is in columns by slot.

Invariants:

- slots are assigned in order and never freed. A full cache is dropped and starts again;
- a table entry is slot + 1, so 0 is an empty entry;
- growing moves a bounded number of entries per call. Until all are moved, a look-up that misses also asks the old
  table;
- the second lane is stored only after a key needed it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Lane = NDArray[np.uint64]
Slots = NDArray[np.int64]

_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK64 = (1 << 64) - 1
_L1, _L2, _S1, _S2, _S3 = map(np.uint64, (_M1, _M2, 31, 29, 32))
_LOAD = 0.6
_CLOSE = 0.75  # up to this load the last keys that fit do not cause a larger table
_TAIL = 12  # the last probes are walked one by one, since a NumPy call costs more than a probe
_FEW = 8
_STEP = 1 << 16
_FIRST = 1 << 12
_AHEAD = 0.7  # the load of the table, as part of its limit, at which the next one is prepared
_LARGE = 1 << 18


def mix(x: Lane) -> Lane:
    """Hash a lane. The hash is a bijection, so int keys never collide."""
    x = x ^ (x >> _S1)
    x *= _L1
    x ^= x >> _S2
    x *= _L2
    x ^= x >> _S3
    return x


def mix_one(x: int) -> int:
    """Hash one lane like `mix`."""
    x = ((x ^ (x >> 31)) * _M1) & _MASK64
    x = ((x ^ (x >> 29)) * _M2) & _MASK64
    return x ^ (x >> 32)


def key_hash(lane0: Lane, lane1: Lane | None) -> Lane:
    """Return the 64-bit hash by which the index orders keys."""
    return mix(lane0) if lane1 is None else mix(lane0 ^ lane1)


def _distinct(k0: Lane, k1: Lane | None) -> tuple[Slots, Slots]:
    """Return the indexes of the distinct keys, and for each key the position of its distinct key."""
    _, index, inverse = np.unique(k0, return_index=True, return_inverse=True)
    if k1 is not None and bool((k1[index][inverse.ravel()] != k1).any()):  # two keys with equal first lanes
        both = np.empty(k0.size, [("a", np.uint64), ("b", np.uint64)])
        both["a"], both["b"] = k0, k1
        _, index, inverse = np.unique(both, return_index=True, return_inverse=True)
    return index, inverse.ravel()


def first_size(capacity: int) -> int:
    """Return the initial number of slots in a column."""
    return min(capacity, _FIRST)


def bounds(column: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the greatest of these ints. `min` of NumPy has a fixed cost that `argmin` does not have."""
    if column.size == 1:
        one = column.item()
        return one, one
    return column.item(column.argmin()), column.item(column.argmax())


def roomy(column: NDArray[Any], used: int, need: int, capacity: int) -> NDArray[Any]:
    """Return the column, or a longer copy of its first `used` slots, with zeros after them, if it is too short.

    A large column is reserved at full size. The system provides its pages on use, and no large column is ever copied.
    """
    if need <= column.size:
        return column
    out: NDArray[Any] = np.zeros(roomy_size(column.size, need, capacity), column.dtype)
    out[:used] = column[:used]
    return out


def roomy_size(size: int, need: int, capacity: int) -> int:
    """Return the length for a column of this size that needs so many slots."""
    return capacity if need > _LARGE else min(capacity, max(need, 4 * size))


class SlotMap:
    """A map from the lanes of keys to slots 0, 1, 2 …"""

    __slots__ = ("_moved", "_older", "_ready", "_table", "_touched", "_until", "capacity", "lane0", "lane1", "used")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.lane0: Lane = np.zeros(first_size(capacity), np.uint64)
        self.lane1: Lane | None = None
        self._table: NDArray[np.int32] = np.zeros(1 << 12, np.int32)
        self._older: NDArray[np.int32] | None = None
        self._moved = self._until = 0
        self._ready: NDArray[np.int32] | None = None  # the next table
        self._touched = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes in use, without reserved ones."""
        older = 0 if self._older is None else self._older.nbytes
        ready = 0 if self._ready is None else 4 * self._touched
        return self._table.nbytes + older + ready + self.used * (8 if self.lane1 is None else 16)

    def find(self, k0: Lane, k1: Lane | None) -> Slots:
        """Return the slot of each key, -1 for a key without one."""
        if k0.size <= _FEW:
            return self._find_few(k0, k1)
        slots = self._find_in(self._table, k0, k1)
        if self._older is not None:
            miss = (slots < 0).nonzero()[0]
            if miss.size:
                slots[miss] = self._find_in(self._older, k0[miss], None if k1 is None else k1[miss])
        return slots

    def find_or_add(self, k0: Lane, k1: Lane | None) -> Slots:
        """Return the slot of each key. Keys without a slot get one."""
        slots = self.find(k0, k1)
        if slots.size and bounds(slots)[0] >= 0:
            return slots
        miss = (slots < 0).nonzero()[0]
        if not miss.size:
            return slots
        missing = k0[miss], None if k1 is None else k1[miss]
        if miss.size <= _FEW:
            slots[miss] = self.add_few(*missing)
            return slots
        index, inverse = _distinct(*missing)
        fresh = self.add(missing[0][index], None if missing[1] is None else missing[1][index])
        slots[miss] = fresh[inverse]
        return slots

    def find_one(self, k0: int, k1: int) -> int:
        """Return the slot of one key, -1 if it has none."""
        home = mix_one(k0 ^ k1)
        entry = self._walk(self._table, home & (self._table.size - 1), k0, k1)
        if entry == 0 and self._older is not None:
            entry = self._walk(self._older, home & (self._older.size - 1), k0, k1)
        return entry - 1

    def add_few(self, k0: Lane, k1: Lane | None) -> list[int]:
        """Add a few keys without slots. Return their slots in the order of the keys. Equal keys get one slot."""
        keys = list(zip(k0.tolist(), [0] * k0.size if k1 is None else k1.tolist(), strict=True))
        fresh = {key: self.add_one(*key) for key in sorted(set(keys))}
        return [fresh[key] for key in keys]

    def add_one(self, k0: int, k1: int) -> int:
        """Add one key that has no slot, and return its slot."""
        slot = self.used
        self._fit(slot + 1, k1 != 0)
        self.lane0[slot] = k0
        if self.lane1 is not None:
            self.lane1[slot] = k1
        self._grow(slot + 1)
        self.used = slot + 1
        table, mask = self._table, self._table.size - 1
        at = mix_one(k0 ^ k1) & mask
        while table.item(at):
            at = (at + 1) & mask
        table[at] = slot + 1
        return slot

    def add(self, k0: Lane, k1: Lane | None) -> Slots:
        """Add distinct keys that have no slots, and return their slots."""
        start, stop = self.used, self.used + int(k0.size)
        self._fit(stop, k1 is not None)
        self.lane0[start:stop] = k0
        if self.lane1 is not None:
            self.lane1[start:stop] = 0 if k1 is None else k1
        self._grow(stop)
        self.used = stop
        fresh = np.arange(start, stop, dtype=np.int64)
        self._place(self._table, k0, k1, fresh)
        return fresh

    def lanes(self, slots: NDArray[Any]) -> tuple[Lane, Lane | None]:
        """Return the keys in these slots."""
        return self.lane0[slots], None if self.lane1 is None else self.lane1[slots]

    def _fit(self, stop: int, wide: bool) -> None:
        """Make room for the keys of slots up to `stop`. `wide` says that a new key has a second lane."""
        assert stop <= self.capacity, "the caller drops a full cache before it adds to it"
        self.lane0 = roomy(self.lane0, self.used, stop, self.capacity)
        if wide and self.lane1 is None:
            self.lane1 = np.zeros(self.lane0.size, np.uint64)
        if self.lane1 is not None:
            self.lane1 = roomy(self.lane1, self.used, stop, self.capacity)

    def _same(self, slots: NDArray[Any], k0: Lane, k1: Lane | None) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.lane0[slots] == k0
        if k1 is not None:
            same &= (self.lane1[slots] == k1) if self.lane1 is not None else (k1 == 0)
        elif self.lane1 is not None:
            same &= self.lane1[slots] == 0
        return same

    def _find_in(self, table: NDArray[np.int32], k0: Lane, k1: Lane | None) -> Slots:
        mask = table.size - 1
        at = (key_hash(k0, k1) & np.uint64(mask)).astype(np.int64)
        entry = table[at].astype(np.int64)
        todo = ((entry > 0) & ~self._same(np.maximum(entry - 1, 0), k0, k1)).nonzero()[0]
        while todo.size > _TAIL:
            step = (at[todo] + 1) & mask
            at[todo] = step
            got = table[step].astype(np.int64)
            entry[todo] = got
            off = (got > 0) & ~self._same(np.maximum(got - 1, 0), k0[todo], None if k1 is None else k1[todo])
            todo = todo[off]
        for j in todo.tolist():
            second = 0 if k1 is None else int(k1[j])
            entry[j] = self._walk(table, (int(at[j]) + 1) & mask, int(k0[j]), second)
        return entry - 1

    def _walk(self, table: NDArray[np.int32], at: int, k0: int, k1: int) -> int:
        mask = table.size - 1
        while True:
            entry = table.item(at)
            if entry == 0:
                return 0
            if self.lane0.item(entry - 1) == k0:
                second = 0 if self.lane1 is None else self.lane1.item(entry - 1)
                if second == k1:
                    return entry
            at = (at + 1) & mask

    def _find_few(self, k0: Lane, k1: Lane | None) -> Slots:
        others = [0] * k0.size if k1 is None else k1.tolist()
        return np.array(list(map(self.find_one, k0.tolist(), others)), np.int64)

    def _place(self, table: NDArray[np.int32], k0: Lane, k1: Lane | None, slots: Slots) -> None:
        mask = table.size - 1
        at = (key_hash(k0, k1) & np.uint64(mask)).astype(np.int64)
        entries = (slots + 1).astype(np.int32)
        while entries.size:
            free = (table[at] == 0).nonzero()[0]
            table[at[free]] = entries[free]  # if several keys want one entry, the last one gets it
            lost = (table[at] != entries).nonzero()[0]
            entries = entries[lost]
            at = (at[lost] + 1) & mask

    def _grow(self, need: int) -> None:
        self._prepare(need)
        if self._older is None and need > self._limit(self._table.size):
            self._older, self._moved, self._until = self._table, 0, self.used
            size = self._table.size
            while need > self._limit(size):
                size *= 2
            ready, self._ready = self._ready, None
            self._table = ready if ready is not None and ready.size == size else np.zeros(size, np.int32)
        while self._older is not None:
            a, b = self._moved, min(self._until, self._moved + _STEP)
            self._place(self._table, self.lane0[a:b], None if self.lane1 is None else self.lane1[a:b], np.arange(a, b))
            self._moved = b
            if b == self._until:
                self._older = None
            if need <= self._limit(self._table.size):
                return  # else the next doubling is due already: finish this one
        if need > self._limit(self._table.size):
            self._grow(need)

    def _limit(self, size: int) -> float:
        """Return how many keys fit a table of this size.

        It is the whole capacity if that fits with a slightly higher load.
        """
        return self.capacity if self.capacity <= size * _CLOSE else size * _LOAD

    def _prepare(self, need: int) -> None:
        """Touch the pages of the next table step by step in advance, because the system provides them slowly."""
        limit = self._limit(self._table.size)
        if need <= limit * _AHEAD or limit >= self.capacity:
            return
        if self._ready is None:
            self._ready, self._touched = np.zeros(2 * self._table.size, np.int32), 0
        room = limit * (1 - _AHEAD)
        upto = self._touched + int(self._ready.size / room * (need - self.used)) + _FIRST
        self._ready[self._touched : upto] = 0
        self._touched = upto
