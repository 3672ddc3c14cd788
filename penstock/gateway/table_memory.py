"""Columns in memory of the documents of a table, by slot: ts, and the inputs or emissions of views.

Each column uses the narrowest type that holds its values, and widens on demand. Columns grow with the slots in use.
All of it comes from committed rows, so it may be dropped at any time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Slots, bounds, first_size, roomy, roomy_size
from penstock.gateway.versions.version_stamps import Stamps, is_lane, pair_of, unpaired
from penstock.mapreduce import (
    MANY,
    Codes,
    Column,
    DecodedColumns,
    DocumentFields,
    Emissions,
    FieldPlan,
    LaneKind,
    PooledTexts,
    TextPool,
    Yielded,
    lane_of,
    value_of,
)
from penstock.views import Key, Path, Where

_SPARE_TEXTS = 1 << 12  # a pool may have so many texts beyond two for each slot
_INTS = tuple(
    (kind, np.dtype(kind).itemsize, int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for kind in (np.int16, np.int32, np.int64)
)


def _wide_enough(a: NDArray[Any], low: int, high: int, used: int) -> NDArray[Any]:
    """Return the column, or a copy with a wider type, so that ints from low to high fit."""
    for kind, size, bottom, top in _INTS:
        if size >= a.itemsize and bottom <= low and high <= top:
            if a.itemsize == size:
                return a
            out: NDArray[Any] = np.empty(a.size, kind)
            out[:used] = a[:used]
            return out
    raise AssertionError("int64 holds every lane")


class SlotCodes:
    """Group codes by slot."""

    __slots__ = ("lane",)

    def __init__(self, capacity: int) -> None:
        self.lane: NDArray[Any] = np.zeros(first_size(capacity), np.int16)

    def put(self, slots: Slots, codes: Codes, used: int) -> None:
        """Set the codes of these slots."""
        if codes.size:
            self.lane = _wide_enough(self.lane, *bounds(codes), used)
            self.lane[slots] = codes

    def put_one(self, slot: int, code: int, used: int) -> None:
        """Set the code of one slot."""
        self.lane = _wide_enough(self.lane, code, code, used)
        self.lane[slot] = code


class SlotColumn:
    """Values by slot. A text is in the lane as its number in a pool, from 1 on."""

    __slots__ = ("_capacity", "kind", "lane", "objs", "pool")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.lane: NDArray[Any] = np.zeros(first_size(capacity), np.int16)
        self.kind: NDArray[np.uint8] | None = None
        self.objs: dict[int, Any] = {}
        self.pool = TextPool()

    def put(self, slots: Slots, column: Column, used: int) -> None:
        """Set the values of these slots."""
        if not slots.size:
            return
        if len(self.pool) > 2 * used + _SPARE_TEXTS:
            self._drop_texts(used)
        lane, beside = self._pooled(column) if column.objs else (column.lane, {})
        self._fit(*bounds(lane), column.kind is not None, used)
        self.lane[slots] = lane
        if self.kind is not None:
            self.kind[slots] = column.kinds()
        if self.objs:
            for slot in slots.tolist():
                self.objs.pop(slot, None)
        if beside:
            listed = slots.tolist()
            self.objs.update((listed[i], value) for i, value in beside.items())

    def _pooled(self, column: Column) -> tuple[NDArray[np.int64], dict[int, Any]]:
        """Return the lanes of a column with texts in the pool, and the other values without a lane."""
        own = {row: value for row, value in column.objs.items() if type(value) is str}
        lane = column.lane.copy()
        lane[np.fromiter(own, np.int64, len(own))] = self.pool.numbers(list(own.values())) + 1
        if len(own) == len(column.objs):
            return lane, {}
        return lane, {row: value for row, value in column.objs.items() if row not in own}

    def _drop_texts(self, used: int) -> None:
        """Make a pool without the texts that no slot has. Columns that were taken keep the former one."""
        if self.kind is None:
            self.pool = TextPool()
            return
        own = ((self.kind[:used] == LaneKind.OTHER) & (self.lane[:used] > 0)).nonzero()[0]
        numbers, place = np.unique(self.lane[own], return_inverse=True)
        former, self.pool = self.pool, TextPool()
        self.lane[own] = (self.pool.numbers([former.texts[number - 1] for number in numbers.tolist()]) + 1)[place]

    def put_one(self, slot: int, value: Any, keep: bool, used: int) -> None:
        """Set the value of one slot; `keep` keeps a value that is not a number."""
        lane, kind = lane_of(value)
        text = keep and type(value) is str
        if text:
            lane = self.pool.number(value) + 1
        self._fit(lane, lane, kind is not LaneKind.INT, used)
        self.lane[slot] = lane
        if self.kind is not None:
            self.kind[slot] = kind
        self.objs.pop(slot, None)
        if kind is LaneKind.BIG or (keep and kind is LaneKind.OTHER and not text):
            self.objs[slot] = value

    def take_one(self, slot: int) -> Any:
        """Return the value of one slot; a value that was not kept reads as True."""
        lane = self.lane.item(slot)
        if self.kind is None:
            return lane
        kind = self.kind.item(slot)
        if kind == LaneKind.OTHER and lane:
            return self.pool.texts[lane - 1]
        return value_of(lane, kind, self.objs.get(slot, True))

    def _fit(self, low: int, high: int, mixed: bool, used: int) -> None:
        """Make room for lanes from low to high; `mixed` if not all values are ints."""
        self.lane = roomy(self.lane, self.lane.size, used, self._capacity)
        if self.kind is not None:
            self.kind = roomy(self.kind, self.kind.size, used, self._capacity)
        self.lane = _wide_enough(self.lane, low, high, used)
        if mixed and self.kind is None:
            self.kind = np.empty(self.lane.size, np.uint8)
            self.kind[:used] = LaneKind.INT

    def take(self, slots: Slots) -> Column:
        """Return the values of these slots."""
        lane, kind = self.lane[slots].astype(np.int64), None if self.kind is None else self.kind[slots]
        beside: dict[int, Any] = {}
        if self.objs:
            found = enumerate(map(self.objs.get, slots.tolist()))
            beside = {i: value for i, value in found if value is not None}
        if kind is None or not len(self.pool):
            return Column(lane, kind, beside)
        text = kind == LaneKind.OTHER
        return Column(np.where(text, 0, lane), kind, PooledTexts(self.pool, np.where(text, lane, 0) - 1, beside))

    def cost(self) -> int:
        """Return the bytes per slot."""
        return int(self.lane.itemsize) + (self.kind is not None)

    def objects(self) -> int:
        """Return the number of values without a lane."""
        return len(self.objs) + len(self.pool)


class SlotEmissions:
    """The emissions of one function view by slot."""

    __slots__ = ("_capacity", "code", "many", "values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.code: NDArray[np.int32] = np.zeros(first_size(capacity), np.int32)
        self.values = SlotColumn(capacity)
        self.many: dict[int, Emissions] = {}  # of documents with several contributions, or none

    def put(self, slots: Slots, emissions: Emissions, used: int) -> None:
        """Set the emissions of the documents of these slots."""
        self.code = roomy(self.code, self.code.size, used, self._capacity)
        if self.many:
            for slot in slots.tolist():
                self.many.pop(slot, None)
        if emissions.counts is None:
            self.code[slots] = emissions.code
            values = Column.nulls(int(slots.size)) if emissions.values is None else emissions.values
            self.values.put(slots, values, used)
            return
        single = (emissions.counts == 1).nonzero()[0]
        if single.size:
            flat = emissions.flat_index(single)
            taken = None if emissions.values is None else emissions.values.take(flat)
            self.put(slots[single], Emissions(None, emissions.code[flat], taken), used)
        others = (emissions.counts != 1).nonzero()[0]
        self.code[slots[others]] = MANY
        self.many.update(zip(slots[others].tolist(), emissions.each(others.tolist()), strict=True))

    def take(self, slots: Slots) -> Emissions:
        """Return the emissions of the documents of these slots."""
        code = self.code[slots]
        if not self.many or not bool((code == MANY).any()):
            return Emissions(None, code, self.values.take(slots))
        parts: list[Emissions] = []
        cuts = (code == MANY).nonzero()[0].tolist()
        a = 0
        for b in [*cuts, int(code.size)]:
            if a < b:
                parts.append(Emissions(None, code[a:b], self.values.take(slots[a:b])))
            if b < code.size:
                parts.append(self.many[int(slots[b])])
            a = b + 1
        return Emissions.join(parts)

    def put_one(self, slot: int, emissions: Emissions, pairs: Yielded, used: int) -> None:
        """Set the emissions of the document of one slot; `pairs` are the same emissions as values."""
        self.code = roomy(self.code, self.code.size, used, self._capacity)
        self.many.pop(slot, None)
        if len(pairs) == 1:
            [(self.code[slot], value)] = pairs
            self.values.put_one(slot, value, True, used)
        else:
            self.code[slot] = MANY
            self.many[slot] = emissions

    def take_one(self, slot: int) -> Yielded:
        """Return the emissions of the document of one slot."""
        code = self.code.item(slot)
        return self.many[slot].yielded() if code == MANY else [(code, self.values.take_one(slot))]

    def cost(self) -> int:
        """Return the bytes per slot."""
        return 4 + self.values.cost()


class PreviousColumns:
    """The columns that field views read of some slots, as they were before a batch."""

    __slots__ = ("codes", "inputs", "where")

    def __init__(
        self, codes: dict[Key, Codes], inputs: dict[Path, Column], where: dict[Where, NDArray[np.bool_]]
    ) -> None:
        self.codes = codes
        self.inputs = inputs
        self.where = where


class TableMemory:
    """All columns of one table, by slot."""

    __slots__ = ("_capacity", "_plan", "_room", "codes", "functions", "hi", "inputs", "lo", "where")

    def __init__(self, capacity: int, plan: FieldPlan, has_ts: bool, functions: list[str]) -> None:
        self._capacity = capacity
        self._plan = plan
        first = self._room = first_size(capacity)  # slots in the columns that `fit` grows
        self.lo: NDArray[np.int64] | None = np.zeros(first, np.int64) if has_ts else None
        self.hi: NDArray[np.float64] | None = None
        self.codes = {key: SlotCodes(capacity) for key in plan.groups}
        self.inputs = {path: SlotColumn(capacity) for path in plan.inputs}
        self.where = {w: np.zeros(first, np.bool_) for w in plan.wheres}
        self.functions = {name: SlotEmissions(capacity) for name in functions}

    def fit(self, used: int) -> None:
        """Make room for so many slots in the columns that may be read before they are set."""
        if used <= self._room:
            return
        old, capacity = self._room, self._capacity
        self._room = roomy_size(old, used, capacity)
        if self.lo is not None:
            self.lo = roomy(self.lo, old, used, capacity)
        if self.hi is not None:
            self.hi = roomy(self.hi, old, used, capacity)
        for codes in self.codes.values():
            codes.lane = roomy(codes.lane, old, used, capacity)
        for where, conditions in self.where.items():
            self.where[where] = roomy(conditions, old, used, capacity)

    def cost(self, used: int) -> int:
        """Estimate the bytes in use."""
        each = (0 if self.lo is None else 8) + (0 if self.hi is None else 8) + len(self.where)
        each += sum(codes.lane.itemsize for codes in self.codes.values())
        each += sum(c.cost() for c in self.inputs.values()) + sum(f.cost() for f in self.functions.values())
        objs = sum(c.objects() for c in self.inputs.values())
        objs += sum(f.values.objects() + 4 * len(f.many) for f in self.functions.values())
        return each * used + 200 * objs

    def stamps(self, slots: Slots) -> Stamps:
        """Return the ts of these slots."""
        assert self.lo is not None, "asked of tables with a ts alone"
        return Stamps(self.lo[slots], None if self.hi is None else self.hi[slots])

    def put_stamps(self, slots: Slots, stamps: Stamps, used: int) -> None:
        """Set the ts of these slots."""
        assert self.lo is not None, "asked of tables with a ts alone"
        if stamps.hi is not None:
            self._pair(used)
        if self.hi is not None:
            stamps = stamps.paired()
            assert stamps.hi is not None
            self.hi[slots] = stamps.hi
        self.lo[slots] = stamps.lo

    def put_fields(self, slots: Slots, columns: DecodedColumns, at: NDArray[Any] | None, used: int) -> None:
        """Set the columns for field views of these slots, from the documents `at` (None: all)."""
        for key, codes in columns.codes.items():
            self.codes[key].put(slots, codes if at is None else codes[at], used)
        for path, column in columns.inputs.items():
            self.inputs[path].put(slots, column if at is None else column.take(at), used)
        for where, conditions in columns.where.items():
            self.where[where][slots] = conditions if at is None else conditions[at]

    def take_fields(self, slots: Slots) -> PreviousColumns:
        """Return the columns for field views of these slots."""
        return PreviousColumns(
            {key: codes.lane[slots] for key, codes in self.codes.items()},
            {path: column.take(slots) for path, column in self.inputs.items()},
            {where: conditions[slots] for where, conditions in self.where.items()},
        )

    # -- slot by slot

    def stamp(self, slot: int) -> int | float:
        """Return the ts of one slot."""
        assert self.lo is not None, "asked of tables with a ts alone"
        lo = self.lo.item(slot)
        return lo if self.hi is None else unpaired(self.hi.item(slot), lo)

    def put_stamp(self, slot: int, ts: int | float, used: int) -> None:
        """Set the ts of one slot."""
        assert self.lo is not None, "asked of tables with a ts alone"
        if not is_lane(ts):
            self._pair(used)
        if self.hi is None:
            self.lo[slot] = ts
        else:
            self.hi[slot], self.lo[slot] = pair_of(ts)

    def _pair(self, used: int) -> None:
        """Change the column of ts to pairs."""
        assert self.lo is not None, "asked of tables with a ts alone"
        if self.hi is None:
            pairs = Stamps(self.lo[:used].copy()).paired()
            self.hi = np.zeros(self.lo.size, np.float64)
            self.lo[:used] = pairs.lo
            if pairs.hi is not None:
                self.hi[:used] = pairs.hi

    def read(self, slot: int) -> DocumentFields:
        """Return the inputs of field views from one slot."""
        return DocumentFields(
            [codes.lane.item(slot) for codes in self.codes.values()],
            [column.take_one(slot) for column in self.inputs.values()],
            [conditions.item(slot) for conditions in self.where.values()],
        )

    def put_reading(self, slot: int, reading: DocumentFields, used: int) -> None:
        """Set the inputs of field views for one slot."""
        for codes, code in zip(self.codes.values(), reading.codes, strict=True):
            codes.put_one(slot, code, used)
        for column, value, keep in zip(self.inputs.values(), reading.values, self._plan.inputs.values(), strict=True):
            column.put_one(slot, value, keep, used)
        for conditions, holds in zip(self.where.values(), reading.conditions, strict=True):
            conditions[slot] = holds
