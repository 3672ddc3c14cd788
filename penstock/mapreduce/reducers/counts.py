"""Counts by group: of values that are not null, and of numbers by bin.

Both are lanes and nothing else: a count cannot leave 64 bits, and equal multisets have equal counts. A bin is found by
exact comparison: an int is compared with the least int at or above each edge and a float with the least float, which
splits the ints and the floats exactly as the edge itself does; Decimals and larger ints are compared as fractions.
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
from penstock.mapreduce.columns.column import Kind
from penstock.mapreduce.reducers.exact_sums import LANE_MAX, LANE_MIN, Floats
from penstock.mapreduce.reducers.rounding import to_float
from penstock.views import Ints, Locals, Need, Part, Path, State, Totals, Values

Number = int | float | Decimal

_NOT_HELD = "a view, which counts a value that is no number, so that the document should be held"
_FOREIGN = "a side is made by the `batch` of the cell that is to be updated"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one side of a batch: a row a lane, a column a group."""

    lanes: Ints

    @property
    def m(self) -> int:
        """How many groups."""
        return int(self.lanes.shape[1])


def _moved(old: Totals, plus: Part, minus: Part) -> Totals:
    assert isinstance(plus, Counts), _FOREIGN
    assert isinstance(minus, Counts), _FOREIGN
    return Totals(old.lanes + plus.lanes - minus.lanes)


def _together(a: State, b: State) -> State:
    return tuple(x + y for x, y in zip(a[0], b[0], strict=True)), None


@dataclass(frozen=True, slots=True)
class Present:
    """How many values are not null."""

    field: Path | None

    @property
    def need(self) -> Need:
        """Null or not."""
        return Need.PRESENCE

    @property
    def lanes(self) -> int:
        """The count."""
        return 1

    def batch(self, loc: Locals, m: int, column: Values) -> Counts:
        """Counts by group."""
        at = loc if column.kind is None else loc[column.kind != Kind.NULL]
        return Counts(np.bincount(at, minlength=m).astype(np.int64, copy=False).reshape(1, m))

    def moved(self, state: State, value: Any, sign: int) -> State:
        """The count with one value added, or with −1 taken back."""
        return state if value is None else ((state[0][0] + sign,), None)

    def update(self, old: Totals, plus: Part, minus: Part) -> Totals:
        """The counts with one side added and the other taken back."""
        return _moved(old, plus, minus)

    def merge(self, a: State, b: State) -> State:
        """The counts of both."""
        return _together(a, b)


@dataclass(frozen=True, slots=True)
class Bins:
    """How many numbers fall between each two neighbours of `edges`, which ascend; the first and last bin are open.

    A bin has its lower edge and not its upper one. NaN comes after all numbers, so it is in the last bin.
    """

    field: Path | None
    edges: tuple[Number, ...]

    @property
    def need(self) -> Need:
        """Numbers only."""
        return Need.NUMBER

    @property
    def lanes(self) -> int:
        """A count a bin."""
        return len(self.edges) + 1

    def batch(self, loc: Locals, m: int, column: Values) -> Counts:
        """Counts by bin and group."""
        kind, bins = column.kind, self.lanes
        if kind is None:
            places = _int_bins(self.edges, column.lane)
        else:
            if (kind == Kind.OTHER).any():
                raise StoreDamaged(_NOT_HELD)
            places = np.full(len(column), bins, np.intp)
            for which, find in ((Kind.INT, _int_bins), (Kind.FLOAT, _float_bins)):
                at = (kind == which).nonzero()[0]
                if at.size:
                    places[at] = find(self.edges, column.lane[at])
            cuts = [Fraction(edge) for edge in self.edges]
            for i in (kind == Kind.BIG).nonzero()[0].tolist():
                places[i] = bisect_right(cuts, Fraction(column.objs[i]))
            present = places < bins
            places, loc = places[present], loc[present]
        lanes = np.bincount(places * m + loc, minlength=bins * m).astype(np.int64, copy=False)
        return Counts(lanes.reshape(bins, m))

    def moved(self, state: State, value: Any, sign: int) -> State:
        """The counts with one value added, or with −1 taken back."""
        if value is None:
            return state
        lanes = list(state[0])
        lanes[_bin(self.edges, value)] += sign
        return tuple(lanes), None

    def update(self, old: Totals, plus: Part, minus: Part) -> Totals:
        """The counts with one side added and the other taken back."""
        return _moved(old, plus, minus)

    def merge(self, a: State, b: State) -> State:
        """The counts of both."""
        return _together(a, b)


def _int_bins(edges: tuple[Number, ...], lane: Ints) -> NDArray[np.intp]:
    """The bin of each int. Edges at or below all ints are passed by each, edges above all by none."""
    cuts = [math.ceil(edge) for edge in edges]
    passed = bisect_right(cuts, LANE_MIN)
    inside = np.array([cut for cut in cuts[passed:] if cut <= LANE_MAX], np.int64)
    return passed + np.searchsorted(inside, lane, side="right")


def _float_bins(edges: tuple[Number, ...], lane: Ints) -> NDArray[np.intp]:
    """The bin of each float, given as its bits."""
    cuts: Floats = np.array([_float_at_or_above(edge) for edge in edges], np.float64)
    return np.searchsorted(cuts, lane.view(np.float64), side="right")


def _bin(edges: tuple[Number, ...], value: Number) -> int:
    """The bin of one number."""
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
    """The edges as ints, floats and fractions are compared with them."""
    return [math.ceil(e) for e in edges], [_float_at_or_above(e) for e in edges], [Fraction(e) for e in edges]


def _float_at_or_above(edge: Number) -> float:
    """The least float that is not below the edge."""
    exact = Fraction(edge)
    near = to_float(exact.numerator, exact.denominator)
    if near == math.inf or (near > -math.inf and Fraction(near) >= exact):
        return near
    return math.nextafter(near, math.inf)
