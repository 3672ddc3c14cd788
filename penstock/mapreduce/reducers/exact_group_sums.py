"""Exact sums of columns by group.

A sum over a column must not wrap or round, for any values in any order. So each column is cut into pieces whose sums
fit fast types exactly. The pieces are added as Python ints only if 64 bits are too few. Invariants:

- float64 adds only multiples of one unit, and fewer than 2**53 of them by magnitude;
- int64 adds only values whose sum stays below 2**63 even if all rows are in one group;
- a total of floats is an int in units of a power of two, so addition and removal are exact in any order;
- floats are split at 2**±400 before they are sliced or squared. Each part is scaled to a range where results neither
  overflow nor become denormal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.reducers.rounding import EXACT, parts_of
from penstock.views import Ints

Floats = NDArray[np.float64]
Locs = NDArray[np.intp]

LANE_MIN, LANE_MAX = -(1 << 63), (1 << 63) - 1
_DOUBLE = 1 << 53
_SAFE = 1 << 61
_MASK = (1 << 32) - 1
_FEW = 24
_FAR = 400
_SHIFT = 600
_SPLIT = 134217729.0
_POWERS = tuple(10 ** (1 << i) for i in range(10))


@dataclass(slots=True)
class IntSums:
    """Totals of ints by group: a lane plus the excess that does not fit the lane."""

    lane: Ints
    over: dict[int, int]

    @classmethod
    def none(cls, m: int) -> IntSums:
        """Return m totals of 0."""
        return cls(np.zeros(m, np.int64), {})

    def of(self, group: int) -> int:
        """Return the total of a group."""
        return int(self.lane[group]) + self.over.get(group, 0)

    def add(self, group: int, x: int) -> None:
        """Add one int of any size."""
        self.over[group] = self.over.get(group, 0) + x


def peak(values: Ints) -> int:
    """Return the greatest magnitude in a column. It is a Python int, since -(2**63) has no int64 negation."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def int_sums(loc: Locs, values: Ints, m: int) -> IntSums:
    """Sum `values` by their group `loc`, a number below m."""
    n, top = values.size, peak(values)
    if top * n < _DOUBLE:
        return IntSums(np.bincount(loc, values, m).astype(np.int64), {})
    if top * n < LANE_MAX:
        out = np.zeros(m, np.int64)
        np.add.at(out, loc, values)
        return IntSums(out, {})
    low, high = np.zeros(m, np.int64), np.zeros(m, np.int64)
    np.add.at(low, loc, values & _MASK)
    np.add.at(high, loc, values >> 32)
    high += low >> 32
    low &= _MASK
    wide = (high >= 1 << 31) | (high < -(1 << 31))
    over = {g: (int(high[g]) << 32) + int(low[g]) for g in wide.nonzero()[0].tolist()}
    return IntSums(np.where(wide, 0, (np.where(wide, 0, high) << 32) + low), over)


def square_sums(loc: Locs, values: Ints, m: int) -> IntSums:
    """Sum the squares of `values` by their group."""
    if peak(values) < 1 << 31:
        return int_sums(loc, values * values, m)
    # v = h·2^32 + l with both halves within ±2^31, so each of the three products stays within 2^62.
    carry = (values >> 31) & 1
    low = (values & _MASK) - (carry << 32)
    high = (values >> 32) + carry
    parts = [int_sums(loc, p, m) for p in (low * low, low * high, high * high)]
    out = IntSums.none(m)
    for g in range(m):
        x = parts[0].of(g) + (parts[1].of(g) << 33) + (parts[2].of(g) << 64)
        if LANE_MIN <= x <= LANE_MAX:
            out.lane[g] = x
        else:
            out.over[g] = x
    return out


@dataclass(slots=True)
class BinarySums:
    """Totals of finite floats by group, in units of 2**unit."""

    unit: int
    total: list[int]

    def at(self, unit: int) -> list[int]:
        """Return the totals in the finer unit 2**unit."""
        shift = self.unit - unit
        return [x << shift for x in self.total] if shift else self.total


def float_sums(loc: Locs, values: Floats, m: int) -> BinarySums:
    """Sum finite `values` by their group."""
    if values.size <= _FEW:
        return _few(loc, values, m, 1)
    return _meet([s for v, at, e in _ranges(loc, values) for s in _sliced(at, v, m, -e)], m)


def float_square_sums(loc: Locs, values: Floats, m: int) -> BinarySums:
    """Sum the squares of finite `values` by their group."""
    if values.size <= _FEW:
        return _few(loc, values, m, 2)
    slices: list[tuple[int, list[int]]] = []
    for v, at, e in _ranges(loc, values):
        # Dekker's product: square + error is v·v exactly.
        c = v * _SPLIT
        high = c - (c - v)
        low = v - high
        square = v * v
        error = ((high * high - square) + 2.0 * (high * low)) + low * low
        slices.extend(_sliced(at, square, m, -2 * e))
        slices.extend(_sliced(at, error, m, -2 * e))
    return _meet(slices, m)


def _few(loc: Locs, values: Floats, m: int, degree: int) -> BinarySums:
    """Sum a few floats, for which columns cost more than they save."""
    items = []
    for g, v in zip(loc.tolist(), values.tolist()):
        numerator, denominator = v.as_integer_ratio()
        items.append((g, numerator**degree, (1 - denominator.bit_length()) * degree))
    unit = min((e for _, _, e in items), default=0)
    total = [0] * m
    for g, x, e in items:
        total[g] += x << (e - unit)
    return BinarySums(unit, total)


def _ranges(loc: Locs, values: Floats) -> Iterator[tuple[Floats, Locs, int]]:
    """Yield at most three parts (scaled, groups, e) of the values. 2**e scales a part to the middle range."""
    size = np.abs(values)
    small, great = (size < 2.0**-_FAR) & (size > 0), size >= 2.0**_FAR
    if not small.any() and not great.any():
        yield values, loc, 0
        return
    for mask, e in ((~small & ~great, 0), (small, _SHIFT), (great, -_SHIFT)):
        at = mask.nonzero()[0]
        if at.size:
            yield np.ldexp(values[at], e), loc[at], e


def _sliced(loc: Locs, values: Floats, m: int, shift: int) -> Iterator[tuple[int, list[int]]]:
    """Yield totals by group as (unit, totals): first of the leading bits of all values, then of the next bits."""
    room = values.size.bit_length()
    while top := max(float(values.max()), -float(values.min())):
        e = math.frexp(top)[1] + room
        anchor = math.ldexp(1.5, e)
        head = (values + anchor) - anchor
        total = np.ldexp(np.bincount(loc, head, m), 52 - e).astype(np.int64)
        yield e - 52 + shift, total.tolist()
        values = values - head
        left = values.nonzero()[0]
        if not left.size:
            return
        if 2 * left.size < values.size:
            values, loc = values[left], loc[left]


def _meet(slices: list[tuple[int, list[int]]], m: int) -> BinarySums:
    """Add slices of any units to one total per group."""
    if not slices:
        return BinarySums(0, [0] * m)
    slices.sort(key=lambda s: -s[0])
    unit, total = slices[0]
    for finer, part in slices[1:]:
        shift = unit - finer
        total = [(x << shift) + y for x, y in zip(total, part)]
        unit = finer
    return BinarySums(unit, total)


def add_binary(x: int, e: int, y: int, f: int) -> tuple[int, int]:
    """Return x·2**e + y·2**f as (odd mantissa, exponent), or (0, 0) for zero."""
    if e >= f:
        x = (x << (e - f)) + y
        e = f
    else:
        x += y << (f - e)
    if x & 1:
        return x, e
    if not x:
        return 0, 0
    zeros = (x & -x).bit_length() - 1
    return x >> zeros, e + zeros


def add_decimal(x: int, e: int, y: int, f: int) -> tuple[int, int]:
    """Return x·10**e + y·10**f as (mantissa without trailing zero, exponent), or (0, 0) for zero."""
    if e >= f:
        x = x * 10 ** (e - f) + y
        e = f
    else:
        x += y * 10 ** (f - e)
    if not x:
        return 0, 0
    if x % 10:
        return x, e
    for i in range(len(_POWERS) - 1, -1, -1):
        while not x % _POWERS[i]:
            x //= _POWERS[i]
            e += 1 << i
    return x, e


def decimal_sums(values: Iterable[tuple[int, Decimal]], degree: int) -> dict[int, list[int]]:
    """Return by group the count of its Decimals, and for each power up to `degree` a mantissa and an exponent.

    Decimals are added as such, exactly. Only the totals are split into ints, which costs more than an addition.
    """
    by_group: dict[int, list[Decimal]] = {}
    for group, value in values:
        by_group.setdefault(group, []).append(value)
    rows: dict[int, list[int]] = {}
    with localcontext(EXACT):
        for group, own in by_group.items():
            rows[group] = [len(own)]
            for power in range(1, degree + 1):
                total = sum((value * value for value in own) if power > 1 else own, Decimal(0))
                rows[group] += add_decimal(0, 0, *parts_of(total))
    return rows


def count_of(loc: Locs, m: int) -> Ints:
    """Count the rows of each group."""
    return np.bincount(loc, minlength=m).astype(np.int64, copy=False)
