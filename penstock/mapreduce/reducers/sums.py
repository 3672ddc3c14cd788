"""Exact sums and sums of squares by group, for sum, mean, variance and stddev.

A group's state is its lanes (number of values, total of the ints, total of their squares) and a spill. The spill has
everything that does not fit the lanes. With D as the degree, the spill is:

    floats, D × (mantissa, exponent of 2), D × int total beyond 64 bits, Decimals, D × (mantissa, exponent of 10),
    NaNs, infinities, negative infinities

Invariants:

- a total of ints is in its lane if it fits 64 bits, else in the spill with a lane of 0;
- a binary mantissa is odd, a decimal one has no trailing zero, and a total of nothing is (0, 0);
- a spill ends with its last nonzero number, but not within the part of the floats; a spill of zeros is absent;
- so a state is a function of the multiset of values, and `update` only ever adds to exact totals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.cache import StoreDamaged
from penstock.mapreduce.columns.column import KINDS, LaneKind
from penstock.mapreduce.reducers.exact_group_sums import (
    LANE_MAX,
    LANE_MIN,
    BinarySums,
    Floats,
    IntSums,
    Locs,
    add_binary,
    add_decimal,
    count_of,
    decimal_sums,
    float_square_sums,
    float_sums,
    int_sums,
    square_sums,
)
from penstock.mapreduce.reducers.rounding import parts_of
from penstock.views import GroupTotals, Ints, Locals, Need, Path, SideTotals, State, Values

_ROOM = 1 << 61
_NOT_HELD = "a view, which counts a value that is no number, so that the document should be held"
_FOREIGN = "a side is made by the `batch` of the cell that is to be updated"

Spill = dict[int, list[Any]]


@dataclass(slots=True)
class FloatSide:
    """The finite floats of one side of a batch: their counts by group, and their totals by degree."""

    n: Ints
    sums: list[BinarySums]


@dataclass(slots=True)
class SumsSide:
    """One side of a batch by group: plain totals, not yet in the canonical form of a state."""

    m: int
    count: Ints
    ints: list[IntSums]
    floats: FloatSide | None
    decimals: dict[int, list[int]]
    strays: dict[int, list[int]]

    @classmethod
    def none(cls, m: int, degree: int) -> SumsSide:
        """Return a side without values."""
        return cls(m, np.zeros(m, np.int64), [IntSums.none(m) for _ in range(degree)], None, {}, {})


@dataclass(frozen=True, slots=True)
class Moments:
    """Totals of the numbers of one field, up to the power `degree`."""

    field: Path | None
    degree: int

    @property
    def need(self) -> Need:
        """Require numbers."""
        return Need.NUMBER

    @property
    def lanes(self) -> int:
        """Return the number of lanes: one for the count, and one total per degree."""
        return 1 + self.degree

    def batch(self, loc: Locals, m: int, column: Values) -> SumsSide:
        """Sum the column's numbers exactly by group."""
        at = loc.astype(np.intp, copy=False)
        if not at.size:
            return SumsSide.none(m, self.degree)
        kind = column.kind
        if kind is None:
            return SumsSide(m, count_of(at, m), self._ints(at, column.lane, m), None, {}, {})
        seen = np.bincount(kind, minlength=KINDS).tolist()
        if seen[LaneKind.OTHER]:
            raise StoreDamaged(_NOT_HELD)
        side = SumsSide.none(m, self.degree)
        side.count = count_of(at[kind != LaneKind.NULL] if seen[LaneKind.NULL] else at, m)
        if seen[LaneKind.INT]:
            # Lanes of NULL and BIG are 0, so only floats must be left out.
            picked = kind == LaneKind.INT if seen[LaneKind.FLOAT] else slice(None)
            side.ints = self._ints(at[picked], column.lane[picked], m)
        if seen[LaneKind.FLOAT]:
            chosen = kind == LaneKind.FLOAT if seen[LaneKind.FLOAT] < at.size else slice(None)
            self._floats(side, at[chosen], column.lane[chosen].view(np.float64))
        if seen[LaneKind.BIG]:
            decimals: list[tuple[int, Decimal]] = []
            for i in (kind == LaneKind.BIG).nonzero()[0].tolist():
                group, value = int(at[i]), column.objs[i]
                if type(value) is Decimal:
                    decimals.append((group, value))
                    continue
                for d in range(self.degree):
                    side.ints[d].add(group, value ** (d + 1))
            side.decimals = decimal_sums(decimals, self.degree)
        return side

    def moved(self, state: State, value: Any, sign: int) -> State:
        """Return the totals after one value is added (1) or removed (−1)."""
        if value is None:
            return state
        lanes, spill = state
        if type(value) is int:
            if spill is None and self.degree == 1:
                total = lanes[1] + sign * value
                if LANE_MIN <= total <= LANE_MAX:
                    return (lanes[0] + sign, total), None
            powers = (value, value * value)[: self.degree]
            sums = [lane + sign * power for lane, power in zip(lanes[1:], powers, strict=True)]
            if spill is None and min(sums) >= LANE_MIN and max(sums) <= LANE_MAX:
                return (lanes[0] + sign, *sums), None
        else:
            sums = list(lanes[1:])
        return SpillLayout(self.degree).moved(lanes[0] + sign, sums, spill, None if type(value) is int else value, sign)

    def _ints(self, at: Locs, lane: Ints, m: int) -> list[IntSums]:
        sums = [int_sums(at, lane, m)]
        if self.degree > 1:
            sums.append(square_sums(at, lane, m))
        return sums

    def _floats(self, side: SumsSide, at: Locs, values: Floats) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            odd = (~finite).nonzero()[0]
            for g, v in zip(at[odd].tolist(), values[odd].tolist()):
                side.strays.setdefault(g, [0, 0, 0])[_stray(v)] += 1
            at, values = at[finite], values[finite]
        if not values.size:
            return
        sums = [float_sums(at, values, side.m)]
        if self.degree > 1:
            sums.append(float_square_sums(at, values, side.m))
        side.floats = FloatSide(count_of(at, side.m), sums)

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        """Return the totals with one side added and the other removed."""
        assert isinstance(plus, SumsSide), _FOREIGN
        assert isinstance(minus, SumsSide), _FOREIGN
        layout = SpillLayout(self.degree)
        spill = dict(old.spill)
        lanes = np.empty_like(old.lanes)
        lanes[0] = old.lanes[0] + plus.count - minus.count
        for d in range(self.degree):
            lanes[1 + d] = layout.add_ints(spill, d, old.lanes[1 + d], plus.ints[d], minus.ints[d])
        layout.add_floats(spill, plus.floats, minus.floats)
        for sign, side in ((1, plus), (-1, minus)):
            layout.add_decimals(spill, side.decimals, sign)
            layout.add_strays(spill, side.strays, sign)
        return GroupTotals(lanes, spill)

    def merge(self, a: State, b: State) -> State:
        """Add the totals of two groups."""
        (one, left), (two, right) = a, b
        lanes, spill = SpillLayout(self.degree).merged([x + y for x, y in zip(one, two, strict=True)], left, right)
        return tuple(lanes), spill


class SpillLayout:
    """The layout of a spill of one degree. Its methods never change a stored list: a changed row is a copy."""

    __slots__ = ("big", "decimals", "degree", "floats", "strays", "zeros")

    def __init__(self, degree: int) -> None:
        self.degree = degree
        self.floats = 1 + 2 * degree
        self.big = self.floats
        self.decimals = self.big + degree
        self.strays = self.decimals + 1 + 2 * degree
        self.zeros = [0] * (self.strays + 3)

    def wide(self, row: Sequence[int] | None) -> list[int]:
        """Return a copy of the row at its full length."""
        return [*row, *self.zeros[len(row) :]] if row else self.zeros[:]

    def settle(self, spill: Spill, group: int, row: list[int]) -> None:
        """Put the row into the spill in its canonical form.

        In a difference of two states the count of floats may be 0 while their sum is not.
        """
        while len(row) > self.floats and not row[-1]:
            row.pop()
        if row[0] or len(row) > self.floats or any(row):
            spill[group] = row
        else:
            spill.pop(group, None)

    def merged(
        self, lanes: list[int], a: Sequence[int] | None, b: Sequence[int] | None
    ) -> tuple[list[int], list[int] | None]:
        """Merge the rows of two groups with these lanes, each of any size, to one state."""
        row, other = self.wide(a), self.wide(b)
        for at in (0, self.decimals, *range(self.strays, len(row))):
            row[at] += other[at]
        for d in range(self.degree):
            at, i, j = self.big + d, 1 + 2 * d, self.decimals + 1 + 2 * d
            total = lanes[1 + d] + row[at] + other[at]
            fits = LANE_MIN <= total <= LANE_MAX
            lanes[1 + d], row[at] = (total, 0) if fits else (0, total)
            row[i : i + 2] = add_binary(row[i], row[i + 1], other[i], other[i + 1])
            row[j : j + 2] = add_decimal(row[j], row[j + 1], other[j], other[j + 1])
        spill: Spill = {}
        self.settle(spill, 0, row)
        return lanes, spill.get(0)

    def moved(self, n: int, sums: list[int], spill: Sequence[int] | None, value: Any, sign: int) -> State:
        """Return the state of n values with these totals of ints, each of any size, and a float or Decimal if given."""
        row = self.wide(spill)
        for d in range(self.degree):
            total = sums[d] + row[self.big + d]
            fits = LANE_MIN <= total <= LANE_MAX
            sums[d], row[self.big + d] = (total, 0) if fits else (0, total)
        if isinstance(value, float) and math.isfinite(value):
            row[0] += sign
            x, unit = _binary(value)
            for d in range(self.degree):
                i = 1 + 2 * d
                row[i : i + 2] = add_binary(row[i], row[i + 1], sign * x ** (d + 1), unit * (d + 1))
        elif isinstance(value, float):
            row[self.strays + _stray(value)] += sign
        elif value is not None:
            if not isinstance(value, Decimal):
                raise StoreDamaged(_NOT_HELD)
            row[self.decimals] += sign
            x, unit = parts_of(value)
            for d in range(self.degree):
                i = self.decimals + 1 + 2 * d
                row[i : i + 2] = add_decimal(row[i], row[i + 1], sign * x ** (d + 1), unit * (d + 1))
        settled: Spill = {}
        self.settle(settled, 0, row)
        return (n, *sums), settled.get(0)

    def add_ints(self, spill: Spill, d: int, old: Ints, plus: IntSums, minus: IntSums) -> Ints:
        """Return the lane of the next totals of ints. Totals beyond 64 bits go to the spill."""
        at = self.big + d
        slow = {g for g, row in spill.items() if len(row) > at and row[at]}.union(plus.over, minus.over)
        for lane in (old, plus.lane, minus.lane):
            if lane.size and (int(lane.max()) >= _ROOM or int(lane.min()) <= -_ROOM):
                slow.update(((lane >= _ROOM) | (lane <= -_ROOM)).nonzero()[0].tolist())
        if not slow:
            return old + plus.lane - minus.lane
        groups = sorted(slow)
        keep = np.ones(old.size, np.int64)
        keep[groups] = 0
        new: Ints = old * keep + plus.lane * keep - minus.lane * keep
        for g in groups:
            row = self.wide(spill.get(g))
            total = int(old[g]) + row[at] + plus.of(g) - minus.of(g)
            fits = LANE_MIN <= total <= LANE_MAX
            new[g] = total if fits else 0
            row[at] = 0 if fits else total
            self.settle(spill, g, row)
        return new

    def add_floats(self, spill: Spill, plus: FloatSide | None, minus: FloatSide | None) -> None:
        """Update counts and totals of the floats. This Python loop runs once per group, not once per value."""
        sides = [side for side in (plus, minus) if side]
        if not sides:
            return
        units: list[int] = []
        deltas: list[list[int]] = []
        for d in range(self.degree):
            unit = min(side.sums[d].unit for side in sides)
            one, *other = [side.sums[d].at(unit) for side in sides]
            if other:
                one = [x - y for x, y in zip(one, other[0])]
            elif not plus:
                one = [-x for x in one]
            units.append(unit)
            deltas.append(one)
        touched = np.add.reduce([side.n for side in sides]).nonzero()[0]
        n = np.zeros_like(touched)
        if plus:
            n += plus.n[touched]
        if minus:
            n -= minus.n[touched]
        for g, count in zip(touched.tolist(), n.tolist()):
            old = spill.get(g)
            row = old[:] if old else [0] * self.floats
            row[0] += count
            i = 1
            for unit, delta in zip(units, deltas):
                row[i], row[i + 1] = add_binary(row[i], row[i + 1], delta[g], unit)
                i += 2
            self.settle(spill, g, row)

    def add_decimals(self, spill: Spill, side: dict[int, list[int]], sign: int) -> None:
        """Update counts and totals of the Decimals."""
        for g, part in side.items():
            row = self.wide(spill.get(g))
            row[self.decimals] += sign * part[0]
            for i in range(1, len(part), 2):
                at = self.decimals + i
                row[at : at + 2] = add_decimal(row[at], row[at + 1], sign * part[i], part[i + 1])
            self.settle(spill, g, row)

    def add_strays(self, spill: Spill, side: dict[int, list[int]], sign: int) -> None:
        """Update counts of NaNs and infinities."""
        for g, part in side.items():
            row = self.wide(spill.get(g))
            for i, x in enumerate(part):
                row[self.strays + i] += sign * x
            self.settle(spill, g, row)


def _binary(value: float) -> tuple[int, int]:
    """Return a finite float as mantissa and exponent of 2."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def _stray(value: float) -> int:
    """Return the index of the count for a float that is not finite."""
    return 0 if math.isnan(value) else 1 if value > 0 else 2


@dataclass(frozen=True, slots=True)
class Exact:
    """A decoded state of Moments: the number of values, their kinds, and exact totals of finite ones as ratios.

    `stray` is the sum if there are NaNs or infinities. Without floats the sum has `places` decimal places.
    """

    m: int
    floats: bool
    decimals: bool
    stray: float | None
    totals: tuple[tuple[int, int], ...]
    places: int

    @property
    def digits(self) -> bool:
        """Return True if a rounded result is a Decimal."""
        return self.decimals and not self.floats

    @classmethod
    def of(cls, state: State) -> Exact:
        """Decode a state."""
        lanes, spill = state
        degree = len(lanes) - 1
        if not spill:
            return cls(lanes[0], False, False, None, tuple((x, 1) for x in lanes[1:]), 0)
        layout = SpillLayout(degree)
        row = layout.wide(spill)
        nans, above, below = row[layout.strays :]
        stray: float | None = None
        if nans or above or below:
            stray = math.nan if nans or (above and below) else math.inf if above else -math.inf
        totals = (
            _ratio(
                lanes[1 + d] + row[layout.big + d],
                row[1 + 2 * d : 3 + 2 * d],
                row[layout.decimals + 1 + 2 * d : layout.decimals + 3 + 2 * d],
            )
            for d in range(degree)
        )
        places = max(0, -row[layout.decimals + 2])
        return cls(lanes[0], bool(row[0]), bool(row[layout.decimals]), stray, tuple(totals), places)


def _ratio(whole: int, binary: Iterable[int], decimal: Iterable[int]) -> tuple[int, int]:
    """Return whole + x·2**e + y·10**f as one ratio."""
    x, e = binary
    y, f = decimal
    numerator, denominator = (whole << -e) + x if e < 0 else whole + (x << e), 1 << max(-e, 0)
    if f < 0:
        return numerator * 10**-f + y * denominator, denominator * 10**-f
    return numerator + y * 10**f * denominator, denominator
