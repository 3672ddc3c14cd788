"""A delta added to totals gives the same bytes as the totals of the same contributions."""

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import pack
from penstock.mapreduce import Column, count, histogram, mean, stddev, sum
from penstock.mapreduce.fold.group_deltas import Delta, added
from penstock.views import GroupTotals

REDUCERS = (count("f"), sum("f"), mean("f"), stddev("f"), histogram([0, 10], "f"))
CELLS = [cell for reducer in REDUCERS for cell in reducer.cells]
NUMBERS = st.one_of(
    st.integers(-20, 20),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 62]),
    st.floats(),
    st.decimals(-1000, 1000, places=2),
    st.just(Decimal("1E+3")),
    st.none(),
)
SIDE = st.lists(st.tuples(st.integers(0, 2), NUMBERS), max_size=8)


def _totals(cell, old, plus, minus):
    def part(side):
        return cell.batch(np.array([g for g, _ in side], np.int64), 3, Column.of([v for _, v in side]))

    return cell.update(old, part(plus), part(minus))


def _said(totals):
    return totals.lanes.tolist(), {g: pack(row) for g, row in totals.spill.items()}


@given(before=SIDE, plus=SIDE, gone=st.data())
def test_added_is_what_the_contributions_make(before, plus, gone) -> None:
    minus = gone.draw(st.lists(st.sampled_from(before), unique_by=id, max_size=len(before))) if before else []
    codes = np.arange(3)
    for cell in CELLS:
        old = _totals(cell, GroupTotals.none(cell.lanes, 3), before, [])
        delta = _totals(cell, GroupTotals.none(cell.lanes, 3), plus, minus)
        sent = Delta.of_data(codes, Delta(codes, np.zeros(3, np.int64), [delta]).data()).totals[0]
        assert _said(added(cell, old, sent, codes)) == _said(_totals(cell, old, plus, minus))


@given(before=SIDE, one=SIDE, other=SIDE)
def test_the_order_of_deltas_means_nothing(before, one, other) -> None:
    codes = np.arange(3)
    for cell in CELLS:
        old = _totals(cell, GroupTotals.none(cell.lanes, 3), before, [])
        first, second = (_totals(cell, GroupTotals.none(cell.lanes, 3), side, []) for side in (one, other))
        ways = [added(cell, added(cell, old, a, codes), b, codes) for a, b in ((first, second), (second, first))]
        assert _said(ways[0]) == _said(ways[1])
