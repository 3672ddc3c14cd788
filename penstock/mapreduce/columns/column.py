"""A column of values: the input of every node after the decoder.

A value is a 64-bit lane and a kind. The lane of an int is the int, and that of a float is its bits. All other values
are in `objs` by index. Invariants:

- `kind is None` means that every value is an INT. Most columns are, and then no kind is stored;
- a BIG (a Decimal, or an int beyond 64 bits) is always in `objs`, an OTHER only if the column keeps values;
- lanes of NULL, BIG and OTHER are 0, so a sum over lanes is the sum of the INTs if there are no floats.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.cache import canonical
from penstock.mapreduce.columns.group_codes import Codes, Groups
from penstock.mapreduce.columns.text_pool import PooledTexts

Ints = NDArray[np.int64]
Kinds = NDArray[np.uint8]


class LaneKind:
    """The kind of a value, as far as a reducer needs it.

    Kinds are plain ints: NumPy takes five times as long to compare a few kinds with an enum member.
    """

    NULL: Final = 0
    INT: Final = 1
    FLOAT: Final = 2
    BIG: Final = 3
    OTHER: Final = 4


KINDS = 5
"""The number of kinds."""


_KIND_OF: dict[type, int] = {
    type(None): LaneKind.NULL,
    int: LaneKind.INT,
    float: LaneKind.FLOAT,
    Decimal: LaneKind.BIG,
}
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_FEW = 16  # limit of values up to which Python is faster than NumPy's fixed cost
_FLOAT, _BITS = struct.Struct("<d"), struct.Struct("<q")


def lane_of(value: Any) -> tuple[int, int]:
    """Return the lane and the kind of one value."""
    kind = _KIND_OF.get(type(value), LaneKind.OTHER)
    if kind is LaneKind.INT:
        return (value, kind) if _INT_MIN <= value <= _INT_MAX else (0, LaneKind.BIG)
    return (_BITS.unpack(_FLOAT.pack(value))[0] if kind is LaneKind.FLOAT else 0), kind


def value_of(lane: int, kind: int, obj: Any) -> Any:
    """Return the value of a lane of this kind. `obj` is the value of a kind without lanes."""
    if kind == LaneKind.INT:
        return lane
    if kind == LaneKind.NULL:
        return None
    return _FLOAT.unpack(_BITS.pack(lane))[0] if kind == LaneKind.FLOAT else obj


@dataclass(slots=True)
class Column:
    """The values of one field, one per row."""

    lane: Ints
    kind: Kinds | None = None
    objs: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.lane.size)

    @classmethod
    def of(cls, values: Sequence[Any], keep: bool = True) -> Column:
        """Convert Python values to a column. `keep` keeps values that are not numbers."""
        n = len(values)
        types = set(map(type, values))
        if types == {int}:
            try:
                return cls(np.fromiter(values, np.int64, n))
            except OverflowError:
                pass
        elif types == {float}:
            return cls(np.fromiter(values, np.float64, n).view(np.int64), np.full(n, LaneKind.FLOAT, np.uint8))
        elif types == {str}:
            kind = np.full(n, LaneKind.OTHER, np.uint8)
            return cls(np.zeros(n, np.int64), kind, dict(enumerate(values)) if keep else {})
        elif not types <= {int, float, type(None)}:
            return cls._mixed(values, keep)
        elif types == {float, type(None)}:
            null = np.fromiter((v is None for v in values), bool, n)
            lane = np.fromiter((0.0 if v is None else v for v in values), np.float64, n).view(np.int64)
            return cls(lane, np.where(null, LaneKind.NULL, LaneKind.FLOAT).astype(np.uint8))
        return cls._mixed(values, keep)

    @classmethod
    def _mixed(cls, values: Sequence[Any], keep: bool) -> Column:
        n = len(values)
        if n <= _FEW:
            lanes, kinds = [0] * n, bytearray(n)
            for i, value in enumerate(values):
                lanes[i], kinds[i] = lane_of(value)
            few = {i: values[i] for i, k in enumerate(kinds) if k >= LaneKind.BIG and (keep or k == LaneKind.BIG)}
            return cls(np.array(lanes, np.int64), np.frombuffer(kinds, np.uint8), few)
        kind = np.fromiter((_KIND_OF.get(type(v), LaneKind.OTHER) for v in values), np.uint8, n)
        lane = np.zeros(n, np.int64)
        objs: dict[int, Any] = {}
        for i in (kind == LaneKind.INT).nonzero()[0].tolist():
            if _INT_MIN <= values[i] <= _INT_MAX:
                lane[i] = values[i]
            else:
                kind[i] = LaneKind.BIG
        at = (kind == LaneKind.FLOAT).nonzero()[0]
        lane[at] = np.fromiter((values[i] for i in at.tolist()), np.float64, at.size).view(np.int64)
        kept = kind >= LaneKind.BIG if keep else kind == LaneKind.BIG
        for i in kept.nonzero()[0].tolist():
            objs[i] = values[i]
        return cls(lane, kind, objs)

    @classmethod
    def nulls(cls, n: int) -> Column:
        """Return a column of nulls."""
        return cls(np.zeros(n, np.int64), np.zeros(n, np.uint8))

    @property
    def floats(self) -> NDArray[np.float64]:
        """Return the lanes as floats. They are valid where the kind is FLOAT."""
        return self.lane.view(np.float64)

    def kinds(self) -> Kinds:
        """Return the kind of each value."""
        return np.full(self.lane.size, LaneKind.INT, np.uint8) if self.kind is None else self.kind

    def all_kinds(self) -> set[int]:
        """Return the kinds that occur."""
        if self.kind is None:
            return {LaneKind.INT} if self.lane.size else set()
        return set(self.kind.tolist()) if self.kind.size <= _FEW else set(np.bincount(self.kind).nonzero()[0].tolist())

    def narrow(self) -> Column:
        """Return the column without kinds if all values are ints."""
        if self.kind is not None and self.kind.size and bool((self.kind == LaneKind.INT).all()):
            return Column(self.lane)
        return self

    def take(self, index: NDArray[Any]) -> Column:
        """Return the rows at these indexes or under this mask."""
        at = index.nonzero()[0] if index.dtype == bool else index
        objs: Mapping[int, Any] = {}
        if type(self.objs) is PooledTexts:
            objs = self.objs.take(at)
        elif self.objs and _FEW * at.size < self.lane.size:  # a small selection costs only its own rows
            objs = {j: self.objs[i] for j, i in enumerate(at.tolist()) if i in self.objs}
        elif self.objs:
            held = np.zeros(self.lane.size, bool)
            held[np.fromiter(self.objs, np.int64, len(self.objs))] = True
            found = held[at].nonzero()[0]
            objs = dict(zip(found.tolist(), map(self.objs.__getitem__, at[found].tolist()), strict=True))
        return Column(self.lane[at], None if self.kind is None else self.kind[at], objs)

    def part(self, a: int, b: int) -> Column:
        """Return rows a to b, with memory of their own."""
        if type(self.objs) is PooledTexts:
            return self.take(np.arange(a, b))
        objs = {i - a: self.objs[i] for i in range(a, b) if i in self.objs} if self.objs else {}
        return Column(self.lane[a:b].copy(), None if self.kind is None else self.kind[a:b].copy(), objs)

    def values(self) -> list[Any]:
        """Return the values as Python objects. An OTHER that was not kept is returned as True, which is also OTHER."""
        if self.kind is None:
            out: list[Any] = self.lane.tolist()
            return out
        if type(self.objs) is PooledTexts and self.objs.whole:
            return self.objs.listed()
        if self.lane.size <= _FEW:
            rows = enumerate(zip(self.lane.tolist(), self.kind.tolist(), strict=True))
            return [value_of(lane, kind, self.objs.get(i, True)) for i, (lane, kind) in rows]
        out = self.lane.tolist()
        for i in (self.kind == LaneKind.NULL).nonzero()[0].tolist():
            out[i] = None
        at = (self.kind == LaneKind.FLOAT).nonzero()[0]
        for i, v in zip(at.tolist(), self.lane[at].view(np.float64).tolist(), strict=True):
            out[i] = v
        for i in (self.kind >= LaneKind.BIG).nonzero()[0].tolist():
            out[i] = self.objs.get(i, True)
        return out

    @staticmethod
    def join(parts: Sequence[Column]) -> Column:
        """Concatenate the parts."""
        if len(parts) == 1:
            return parts[0]
        lane = np.concatenate([p.lane for p in parts]) if parts else np.zeros(0, np.int64)
        kind: Kinds | None = None
        if any(p.kind is not None for p in parts):
            kind = np.concatenate(
                [np.full(len(p), LaneKind.INT, np.uint8) if p.kind is None else p.kind for p in parts]
            )
        return Column(lane, kind, PooledTexts.join([p.objs for p in parts], list(map(len, parts))))

    def codes(self, groups: Groups) -> Codes:
        """Return the codes of the values as groups, BAD for values that cannot be groups."""
        if type(self.objs) is PooledTexts and self.objs.whole:
            return self.objs.pool.codes(groups, self.objs.number)
        return groups.codes(self.values())

    def equal(self, i: NDArray[Any], j: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the pairs of rows i and j with identical values. 1 and 1.0 differ."""
        kinds = self.kinds()
        same: NDArray[np.bool_] = (self.lane[i] == self.lane[j]) & (kinds[i] == kinds[j])
        at = (same & (kinds[i] >= LaneKind.BIG)).nonzero()[0]
        if at.size:
            left, right = self.take(i[at]).values(), self.take(j[at]).values()
            same[at] = np.fromiter(map(_identical, left, right), bool, at.size)
        return same


def _identical(a: Any, b: Any) -> bool:
    return a == b if type(a) is str and type(b) is str else canonical(a) == canonical(b)
