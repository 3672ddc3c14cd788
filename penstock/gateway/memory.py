"""What memory holds of a table's documents, by slot: ts, and what field and function views were told of each.

Columns by slot are as narrow as what they hold and widen when they must; they grow as slots are used. All of it
follows from committed rows, and may be dropped at any time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Slots, first_size, roomy
from penstock.gateway.stamps import Stamps
from penstock.mapreduce import MANY, Codes, Column, Columns, Emissions, Kind, Plan
from penstock.views import Key, Path, Where

_INTS = tuple(
    (kind, np.dtype(kind).itemsize, int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for kind in (np.int16, np.int32, np.int64)
)


def _wide_enough(a: NDArray[Any], low: int, high: int, used: int) -> NDArray[Any]:
    """The column, or a wider one with what it holds, so that ints from low to high fit."""
    for kind, size, least, most in _INTS:
        if size >= a.itemsize and least <= low and high <= most:
            if a.itemsize == size:
                return a
            out: NDArray[Any] = np.empty(a.size, kind)
            out[:used] = a[:used]
            return out
    raise AssertionError("int64 holds every lane")


class SlotColumn:
    """Values by slot."""

    __slots__ = ("_capacity", "kind", "lane", "objs")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.lane: NDArray[Any] = np.zeros(first_size(capacity), np.int16)
        self.kind: NDArray[np.uint8] | None = None
        self.objs: dict[int, Any] = {}

    def put(self, slots: Slots, column: Column, used: int) -> None:
        """Set the values of these slots."""
        if not slots.size:
            return
        self.lane = roomy(self.lane, self.lane.size, used, self._capacity)
        if self.kind is not None:
            self.kind = roomy(self.kind, self.kind.size, used, self._capacity)
        self.lane = _wide_enough(self.lane, int(column.lane.min()), int(column.lane.max()), used)
        self.lane[slots] = column.lane
        if column.kind is not None and self.kind is None:
            self.kind = np.empty(self.lane.size, np.uint8)
            self.kind[:used] = Kind.INT
        if self.kind is not None:
            self.kind[slots] = column.kinds()
        if self.objs:
            for slot in slots.tolist():
                self.objs.pop(slot, None)
        if column.objs:
            listed = slots.tolist()
            self.objs.update((listed[i], value) for i, value in column.objs.items())

    def take(self, slots: Slots) -> Column:
        """The values of these slots."""
        objs: dict[int, Any] = {}
        if self.objs:
            objs = {i: self.objs[s] for i, s in enumerate(slots.tolist()) if s in self.objs}
        return Column(self.lane[slots].astype(np.int64), None if self.kind is None else self.kind[slots], objs)

    def cost(self) -> int:
        """Bytes a slot."""
        return int(self.lane.itemsize) + (self.kind is not None)


class SlotEmissions:
    """What one function view was told of each slot."""

    __slots__ = ("_capacity", "code", "many", "values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.code: NDArray[np.int32] = np.zeros(first_size(capacity), np.int32)
        self.values = SlotColumn(capacity)
        self.many: dict[int, Emissions] = {}  # of documents with several contributions, or none

    def put(self, slots: Slots, emissions: Emissions, used: int) -> None:
        """Set what these slots' documents yielded."""
        self.code = roomy(self.code, self.code.size, used, self._capacity)
        if self.many:
            for slot in slots.tolist():
                self.many.pop(slot, None)
        if emissions.counts is None:
            self.code[slots] = emissions.code
            values = Column.nulls(int(slots.size)) if emissions.values is None else emissions.values
            self.values.put(slots, values, used)
            return
        single = np.flatnonzero(emissions.counts == 1)
        if single.size:
            flat = emissions.flat_index(single)
            taken = None if emissions.values is None else emissions.values.take(flat)
            self.put(slots[single], Emissions(None, emissions.code[flat], taken), used)
        for i in np.flatnonzero(emissions.counts != 1).tolist():
            slot = int(slots[i])
            self.code[slot] = MANY
            self.many[slot] = emissions.take(np.array([i]))

    def take(self, slots: Slots) -> Emissions:
        """What these slots' documents yielded."""
        code = self.code[slots]
        if not self.many or not bool((code == MANY).any()):
            return Emissions(None, code, self.values.take(slots))
        parts: list[Emissions] = []
        cuts = np.flatnonzero(code == MANY).tolist()
        a = 0
        for b in [*cuts, int(code.size)]:
            if a < b:
                parts.append(Emissions(None, code[a:b], self.values.take(slots[a:b])))
            if b < code.size:
                parts.append(self.many[int(slots[b])])
            a = b + 1
        return Emissions.join(parts)

    def cost(self) -> int:
        """Bytes a slot."""
        return 4 + self.values.cost()


class Remembered:
    """Gathered columns of some slots: what field views read, as of before a batch."""

    __slots__ = ("codes", "inputs", "where")

    def __init__(
        self, codes: dict[Key, Codes], inputs: dict[Path, Column], where: dict[Where, NDArray[np.bool_]]
    ) -> None:
        self.codes = codes
        self.inputs = inputs
        self.where = where


class TableMemory:
    """All columns by slot of one table."""

    __slots__ = ("_capacity", "codes", "functions", "hi", "inputs", "lo", "where")

    def __init__(self, capacity: int, plan: Plan, has_ts: bool, functions: list[str]) -> None:
        self._capacity = capacity
        first = first_size(capacity)
        self.lo: NDArray[np.int64] | None = np.zeros(first, np.int64) if has_ts else None
        self.hi: NDArray[np.float64] | None = None
        self.codes: dict[Key, NDArray[Any]] = {key: np.zeros(first, np.int16) for key in plan.groups}
        self.inputs = {path: SlotColumn(capacity) for path in plan.inputs}
        self.where = {w: np.zeros(first, np.bool_) for w in plan.wheres}
        self.functions = {name: SlotEmissions(capacity) for name in functions}

    def fit(self, used: int) -> None:
        """Make place for so many slots in the columns that are read before they are set."""
        if self.lo is not None:
            self.lo = roomy(self.lo, self.lo.size, used, self._capacity)
        if self.hi is not None:
            self.hi = roomy(self.hi, self.hi.size, used, self._capacity)
        for key, codes in self.codes.items():
            self.codes[key] = roomy(codes, codes.size, used, self._capacity)
        for where, kept in self.where.items():
            self.where[where] = roomy(kept, kept.size, used, self._capacity)

    def cost(self, used: int) -> int:
        """Bytes in use, about."""
        each = (0 if self.lo is None else 8) + (0 if self.hi is None else 8) + len(self.where)
        each += sum(a.itemsize for a in self.codes.values())
        each += sum(c.cost() for c in self.inputs.values()) + sum(f.cost() for f in self.functions.values())
        objs = sum(len(c.objs) for c in self.inputs.values())
        objs += sum(len(f.values.objs) + 4 * len(f.many) for f in self.functions.values())
        return each * used + 200 * objs

    def stamps(self, slots: Slots) -> Stamps:
        """The ts of these slots."""
        assert self.lo is not None, "asked of tables with a ts alone"
        return Stamps(self.lo[slots], None if self.hi is None else self.hi[slots])

    def put_stamps(self, slots: Slots, stamps: Stamps, used: int) -> None:
        """Set the ts of these slots."""
        assert self.lo is not None, "asked of tables with a ts alone"
        if stamps.hi is not None and self.hi is None:
            pairs = Stamps(self.lo[:used].copy()).paired()
            self.hi = np.zeros(self.lo.size, np.float64)
            self.lo[:used] = pairs.lo
            if pairs.hi is not None:
                self.hi[:used] = pairs.hi
        if self.hi is not None:
            stamps = stamps.paired()
            assert stamps.hi is not None
            self.hi[slots] = stamps.hi
        self.lo[slots] = stamps.lo

    def put_fields(self, slots: Slots, columns: Columns, at: NDArray[Any] | None, used: int) -> None:
        """Set what field views read of these slots, from the columns' documents `at` (None: all)."""
        for key, codes in columns.codes.items():
            own = codes if at is None else codes[at]
            if own.size:
                self.codes[key] = _wide_enough(self.codes[key], int(own.min()), int(own.max()), used)
                self.codes[key][slots] = own
        for path, column in columns.inputs.items():
            self.inputs[path].put(slots, column if at is None else column.take(at), used)
        for where, kept in columns.where.items():
            self.where[where][slots] = kept if at is None else kept[at]

    def take_fields(self, slots: Slots) -> Remembered:
        """What field views read of these slots."""
        return Remembered(
            {key: codes[slots] for key, codes in self.codes.items()},
            {path: column.take(slots) for path, column in self.inputs.items()},
            {where: kept[slots] for where, kept in self.where.items()},
        )
