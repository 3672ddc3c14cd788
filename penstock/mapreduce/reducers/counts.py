"""Counts by group: of values that are not null, and of numbers by bin.

The state is lanes only: a count fits 64 bits, and equal multisets have equal counts. Bins are found by exact
comparison. An int is compared with the least int at or above each edge, and a float with the least such float. This
splits ints and floats exactly as the edge does. Decimals and larger ints are compared as fractions.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import StoreDamaged
from penstock.mapreduce.columns.column import LaneKind
from penstock.mapreduce.reducers.exact_group_sums import LANE_MAX, LANE_MIN, Floats
from penstock.mapreduce.reducers.rounding import to_float
from penstock.views import GroupTotals, Ints, Locals, Need, Path, SideTotals, State, Values

Number = int | float | Decimal

_NOT_HELD = "a view, which counts a value that is no number, so that the document should be held"
_FOREIGN = "a side is made by the `batch` of the cell that is to be updated"


@dataclass(frozen=True, slots=True)
class SideCounts:
    """The counts of one side of a batch: one row per lane, one column per group."""

    lanes: Ints

    @property
    def m(self) -> int:
        """Return the number of groups."""
        return int(self.lanes.shape[1])


def _moved(old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
    assert isinstance(plus, SideCounts), _FOREIGN
    assert isinstance(minus, SideCounts), _FOREIGN
    return GroupTotals(old.lanes + plus.lanes - minus.lanes)


def _together(a: State, b: State) -> State:
    return tuple(x + y for x, y in zip(a[0], b[0], strict=True)), None


@dataclass(frozen=True, slots=True)
class Present:
    """The number of values that are not null."""

    field: Path | None

    @property
    def need(self) -> Need:
        """Require only the information null or not null."""
        return Need.PRESENCE

    @property
    def lanes(self) -> int:
        """Return 1, for the count."""
        return 1

    def batch(self, loc: Locals, m: int, column: Values) -> SideCounts:
        """Count values by group."""
        at = loc if column.kind is None else loc[column.kind != LaneKind.NULL]
        return SideCounts(np.bincount(at, minlength=m).astype(np.int64, copy=False).reshape(1, m))

    def moved(self, state: State, value: Any, sign: int) -> State:
        """Return the count after one value is added (1) or removed (−1)."""
        return state if value is None else ((state[0][0] + sign,), None)

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        """Return the counts with one side added and the other removed."""
        return _moved(old, plus, minus)

    def merge(self, a: State, b: State) -> State:
        """Add the counts of two groups."""
        return _together(a, b)


@dataclass(frozen=True, slots=True)
class Bins:
    """The numbers of values between neighbouring `edges`, which ascend. The first and last bin are open.

    A bin includes its lower edge and excludes its upper edge. NaN sorts after all numbers, so it is in the last bin.
    """

    field: Path | None
    edges: tuple[Number, ...]

    @property
    def need(self) -> Need:
        """Require numbers."""
        return Need.NUMBER

    @property
    def lanes(self) -> int:
        """Return the number of bins, each with one count."""
        return len(self.edges) + 1

    def batch(self, loc: Locals, m: int, column: Values) -> SideCounts:
        """Count values by bin and group."""
        kind, bins = column.kind, self.lanes
        if kind is None:
            places = _int_bins(self.edges, column.lane)
        else:
            if (kind == LaneKind.OTHER).any():
                raise StoreDamaged(_NOT_HELD)
            places = np.full(len(column), bins, np.intp)
            for which, find in ((LaneKind.INT, _int_bins), (LaneKind.FLOAT, _float_bins)):
                at = (kind == which).nonzero()[0]
                if at.size:
                    places[at] = find(self.edges, column.lane[at])
            cuts = [Fraction(edge) for edge in self.edges]
            for i in (kind == LaneKind.BIG).nonzero()[0].tolist():
                places[i] = bisect_right(cuts, Fraction(column.objs[i]))
            present = places < bins
            places, loc = places[present], loc[present]
        lanes = np.bincount(places * m + loc, minlength=bins * m).astype(np.int64, copy=False)
        return SideCounts(lanes.reshape(bins, m))

    def moved(self, state: State, value: Any, sign: int) -> State:
        """Return the counts after one value is added (1) or removed (−1)."""
        if value is None:
            return state
        lanes = list(state[0])
        lanes[_bin(self.edges, value)] += sign
        return tuple(lanes), None

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        """Return the counts with one side added and the other removed."""
        return _moved(old, plus, minus)

    def merge(self, a: State, b: State) -> State:
        """Add the counts of two groups."""
        return _together(a, b)


def _int_bins(edges: tuple[Number, ...], lane: Ints) -> NDArray[np.intp]:
    """Return the bin of each int. Edges below all 64-bit ints are passed by each, edges above by none."""
    cuts = [math.ceil(edge) for edge in edges]
    passed = bisect_right(cuts, LANE_MIN)
    inside = np.array([cut for cut in cuts[passed:] if cut <= LANE_MAX], np.int64)
    return passed + np.searchsorted(inside, lane, side="right")


def _float_bins(edges: tuple[Number, ...], lane: Ints) -> NDArray[np.intp]:
    """Return the bin of each float, given as its bits."""
    cuts: Floats = np.array([_float_at_or_above(edge) for edge in edges], np.float64)
    return np.searchsorted(cuts, lane.view(np.float64), side="right")


def _bin(edges: tuple[Number, ...], value: Number) -> int:
    """Return the bin of one number."""
    ints, floats, exact = _cuts(edges)
    if isinstance(value, int):
        return bisect_right(ints, value)
    if isinstance(value, float):
        return bisect_right(floats, value) if value == value else len(edges)
    if not isinstance(value, Decimal):
        raise StoreDamaged(_NOT_HELD)
    return bisect_right(exact, Fraction(value))


@lru_cache(maxsize=256)
def _cuts(edges: tuple[Number, ...]) -> tuple[list[int], list[float], list[Fraction]]:
    """Return the edges in the form in which ints, floats and fractions are compared with them."""
    return [math.ceil(e) for e in edges], [_float_at_or_above(e) for e in edges], [Fraction(e) for e in edges]


def _float_at_or_above(edge: Number) -> float:
    """Return the least float that is not below the edge."""
    exact = Fraction(edge)
    near = to_float(exact.numerator, exact.denominator)
    if near == math.inf or (near > -math.inf and Fraction(near) >= exact):
        return near
    return math.nextafter(near, math.inf)
