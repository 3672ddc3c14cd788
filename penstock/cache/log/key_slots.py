"""Keys to dense slots, whole columns at a time: open addressing in numpy.

A key is two 64-bit lanes. An int64 is itself with a second lane of 0, exact; any other key is the seeded 128-bit hash
of its encoding with the lowest bit of the second lane set. Everything remembered of a key stands in columns by slot.

Invariants:

- slots are given in order and never taken back; a full cache is dropped whole and starts again;
- a table entry is slot + 1, so that 0 is an empty place;
- growing moves a bounded number of entries a call: until all are moved a look-up that misses asks the older table too;
- the second lane is stored only once a key needs it.
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
_CLOSE = 0.75  # the load up to which no larger table is made for the last keys that there is room for
_TAIL = 12  # probes left over are walked one by one: a numpy call costs more than a probe
_FEW = 8
_STEP = 1 << 16
_FIRST = 1 << 12
_AHEAD = 0.7  # how full, of what it may be, the table is when the next one is made
_LARGE = 1 << 18


def mix(x: Lane) -> Lane:
    """The hash of a lane: a bijection, so that int keys never collide."""
    x = x ^ (x >> _S1)
    x *= _L1
    x ^= x >> _S2
    x *= _L2
    x ^= x >> _S3
    return x


def mix_one(x: int) -> int:
    """`mix` of one lane."""
    x = ((x ^ (x >> 31)) * _M1) & _MASK64
    x = ((x ^ (x >> 29)) * _M2) & _MASK64
    return x ^ (x >> 32)


def key_hash(lane0: Lane, lane1: Lane | None) -> Lane:
    """The 64-bit hash by which the index orders keys."""
    return mix(lane0) if lane1 is None else mix(lane0 ^ lane1)


def _distinct(k0: Lane, k1: Lane | None) -> tuple[Slots, Slots]:
    """Indexes of the distinct keys, and for each key which of them it is."""
    _, index, inverse = np.unique(k0, return_index=True, return_inverse=True)
    if k1 is not None and bool((k1[index][inverse.ravel()] != k1).any()):  # two keys that share their first lane
        both = np.empty(k0.size, [("a", np.uint64), ("b", np.uint64)])
        both["a"], both["b"] = k0, k1
        _, index, inverse = np.unique(both, return_index=True, return_inverse=True)
    return index, inverse.ravel()


def first_size(capacity: int) -> int:
    """How many slots a column begins with."""
    return min(capacity, _FIRST)


def roomy(column: NDArray[Any], used: int, need: int, capacity: int) -> NDArray[Any]:
    """The column, or if it is too short a longer one with what its first `used` slots hold, and zeros after them.

    A large column is reserved whole: its pages are committed as they are used, and nothing large is ever copied.
    """
    if need <= column.size:
        return column
    out: NDArray[Any] = np.zeros(roomy_size(column.size, need, capacity), column.dtype)
    out[:used] = column[:used]
    return out


def roomy_size(size: int, need: int, capacity: int) -> int:
    """How long a column of this size becomes when so many slots are needed."""
    return capacity if need > _LARGE else min(capacity, max(need, 4 * size))


class SlotMap:
    """Lanes of keys to slots 0, 1, 2 …"""

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
        """Bytes in use (not reserved)."""
        older = 0 if self._older is None else self._older.nbytes
        ready = 0 if self._ready is None else 4 * self._touched
        return self._table.nbytes + older + ready + self.used * (8 if self.lane1 is None else 16)

    def find(self, k0: Lane, k1: Lane | None) -> Slots:
        """The slot of each key, -1 where it has none."""
        if k0.size <= _FEW:
            return self._find_few(k0, k1)
        slots = self._find_in(self._table, k0, k1)
        if self._older is not None:
            miss = (slots < 0).nonzero()[0]
            if miss.size:
                slots[miss] = self._find_in(self._older, k0[miss], None if k1 is None else k1[miss])
        return slots

    def find_or_add(self, k0: Lane, k1: Lane | None) -> Slots:
        """The slot of each key; keys without one are given one."""
        slots = self.find(k0, k1)
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
        """The slot of one key, -1 where it has none."""
        home = mix_one(k0 ^ k1)
        entry = self._walk(self._table, home & (self._table.size - 1), k0, k1)
        if entry == 0 and self._older is not None:
            entry = self._walk(self._older, home & (self._older.size - 1), k0, k1)
        return entry - 1

    def add_few(self, k0: Lane, k1: Lane | None) -> list[int]:
        """Slots for a handful of keys that have none yet, in the order of the keys, the same for the same key."""
        keys = list(zip(k0.tolist(), [0] * k0.size if k1 is None else k1.tolist(), strict=True))
        fresh = {key: self.add_one(*key) for key in sorted(set(keys))}
        return [fresh[key] for key in keys]

    def add_one(self, k0: int, k1: int) -> int:
        """A slot for one key that has none yet."""
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
        """Slots for keys that have none yet, all of them different."""
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
        """The keys in these slots."""
        return self.lane0[slots], None if self.lane1 is None else self.lane1[slots]

    def _fit(self, stop: int, wide: bool) -> None:
        """Make place for the keys of slots up to `stop`; `wide` where one of the new ones has a second lane."""
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
        out = np.empty(k0.size, np.int64)
        for j, first in enumerate(k0.tolist()):
            out[j] = self.find_one(first, 0 if k1 is None else k1.item(j))
        return out

    def _place(self, table: NDArray[np.int32], k0: Lane, k1: Lane | None, slots: Slots) -> None:
        mask = table.size - 1
        at = (key_hash(k0, k1) & np.uint64(mask)).astype(np.int64)
        entries = (slots + 1).astype(np.int32)
        while entries.size:
            free = (table[at] == 0).nonzero()[0]
            table[at[free]] = entries[free]  # several may want one place: the last writer has it
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
        """How many keys a table of this size takes; all there can be, where they fit a little closer."""
        return self.capacity if self.capacity <= size * _CLOSE else size * _LOAD

    def _prepare(self, need: int) -> None:
        """Touch the pages of the next table bit by bit before it is needed: a system takes its time to give them."""
        limit = self._limit(self._table.size)
        if need <= limit * _AHEAD or limit >= self.capacity:
            return
        if self._ready is None:
            self._ready, self._touched = np.zeros(2 * self._table.size, np.int32), 0
        room = limit * (1 - _AHEAD)
        upto = self._touched + int(self._ready.size / room * (need - self.used)) + _FIRST
        self._ready[self._touched : upto] = 0
        self._touched = upto
