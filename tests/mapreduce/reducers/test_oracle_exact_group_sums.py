"""Compare sums with exact decimal arithmetic, and with math.fsum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers import exact_group_sums
from penstock.mapreduce.reducers.invertible import count, mean, sum, variance
from penstock.mapreduce.reducers.sums import Moments
from penstock.views import GroupTotals
from tests.mapreduce.reducers.histories import (
    EDGES,
    Event,
    History,
    at_once,
    columns_of,
    empty,
    finite,
    floats,
    histories,
    ints,
    packed,
    packed_state,
    played,
    seeds,
)

WIDE = Context(prec=20_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])


def exact_decimal(values: Sequence[Any]) -> Decimal:
    total = Decimal(0)
    for v in values:
        total = WIDE.add(total, Decimal(v))
    return total


def oracle_sum(values: Sequence[Any]) -> Any:
    """Return the sum of these values, without code of the engine."""
    here = [v for v in values if v is not None]
    if not here:
        return None
    some = [v for v in here if isinstance(v, float)]
    strays = {v for v in some if math.isinf(v)}
    if any(math.isnan(v) for v in some) or len(strays) == 2:
        return math.nan
    if strays:
        return strays.pop()
    if not some:
        total = exact_decimal(here)
        return total if any(isinstance(v, Decimal) for v in here) else int(total)
    try:
        if len(some) == len(here):
            return math.fsum(some)
    except OverflowError:
        pass
    return float(exact_decimal(here))


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


@settings(max_examples=150)
@given(columns_of.flatmap(histories))
def test_a_history_leaves_the_totals_of_what_is_left(history: History) -> None:
    cell = Moments(None, 1)
    states = played(cell, history)
    left: dict[int, list[Any]] = {g: [] for g in states}
    for g, v in history.left:
        left[g].append(v)
    for g, state in states.items():
        assert packed_state(state) == packed_state(at_once(cell, left[g]))
        assert same(sum().result(0, [state]), oracle_sum(left[g]))
        if all(v is None for v in left[g]):
            assert packed_state(state) == empty(cell)
    counter = count("f").cells[0]
    for g, state in played(counter, history).items():
        assert state == ((len([v for v in left[g] if v is not None]),), None)


@settings(max_examples=60)
@given(columns_of.flatmap(histories), seeds)
def test_taking_everything_back_leaves_nothing(history: History, random: Random) -> None:
    back = [Event(g, v, -1) for g, v in history.left]
    random.shuffle(back)
    for cell in (Moments(None, 1), Moments(None, 2)):
        for state in played(cell, History([*history.batches, back[::2], back[1::2]])).values():
            assert packed_state(state) == empty(cell)


@settings(max_examples=60)
@given(st.lists(finite, min_size=25, max_size=120), st.sampled_from([1, 2, 7]))
def test_columns_of_floats_sum_as_fractions_do(values: list[float], m: int) -> None:
    loc, column = np.arange(len(values)) % m, np.array(values)
    for sums, power in ((exact_group_sums.float_sums, 1), (exact_group_sums.float_square_sums, 2)):
        got = sums(loc, column, m)
        for g in range(m):
            want = Fraction(0)
            for v in values[g::m]:
                want += Fraction(v) ** power
            assert got.total[g] * Fraction(2) ** got.unit == want


@settings(max_examples=25)
@given(st.integers(0, 1 << 32), st.sampled_from([100, 5_000]))
def test_floats_of_any_bits_sum_as_fractions_do(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 64, n, np.uint64, endpoint=False).view(np.float64)
    values = values[np.isfinite(values)]
    loc = rng.integers(0, 3, values.size)
    for sums, power in ((exact_group_sums.float_sums, 1), (exact_group_sums.float_square_sums, 2)):
        got = sums(loc, values, 3)
        unit = -1100 * power
        for g in range(3):
            want = 0
            for v in values[loc == g].tolist():
                p, q = v.as_integer_ratio()
                want += (p**power << -unit) // q**power
            assert got.total[g] * Fraction(2) ** (got.unit - unit) == want


@settings(max_examples=80)
@given(st.lists(ints, min_size=1, max_size=60), st.sampled_from([1, 3]))
def test_columns_of_ints_never_wrap(values: list[int], m: int) -> None:
    loc, lane = np.arange(len(values)) % m, np.array(values, np.int64)
    for sums, power in ((exact_group_sums.int_sums, 1), (exact_group_sums.square_sums, 2)):
        got = sums(loc, lane, m)
        assert [got.of(g) for g in range(m)] == [_python_sum(values[g::m], power) for g in range(m)]


def _python_sum(values: Sequence[int], power: int) -> int:
    total = 0
    for v in values:
        total += v**power
    return total


@pytest.mark.parametrize("value", EDGES)
def test_many_equal_edges(value: int) -> None:
    lane = np.full(1000, value, np.int64)
    loc = np.zeros(1000, np.int64)
    assert exact_group_sums.int_sums(loc, lane, 1).of(0) == 1000 * value
    assert exact_group_sums.square_sums(loc, lane, 1).of(0) == 1000 * value * value


def test_a_total_leaves_its_lane_and_comes_back() -> None:
    cell, top = Moments(None, 1), (1 << 63) - 1
    assert at_once(cell, [top]) == ((1, top), None)
    assert at_once(cell, [top, 1]) == ((2, 0), [0, 0, 0, top + 1])
    assert at_once(cell, [top, 1, -2]) == ((3, top - 1), None)
    assert at_once(cell, [-top, -2]) == ((2, 0), [0, 0, 0, -top - 2])


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("value", EDGES)
def test_a_total_leaves_its_lane_over_many_batches(degree: int, value: int) -> None:
    cell = Moments(None, degree)
    some = [Event(0, v, 1) for v in (value, value, value, 5, value)]
    back = [Event(0, v, -1) for v in (value, value, value)]
    for left, state in (
        ([value, value, value, 5, value], played(cell, History([[e] for e in some]))[0]),
        ([5, value], played(cell, History([[e] for e in (*some, *back)]))[0]),
        ([value, value, value, 5], played(cell, History([some[:4], [some[4], *back[:1]]]))[0]),
    ):
        assert packed_state(state) == packed_state(at_once(cell, left))
        assert state[0][1] + (state[1][1 + 2 * degree] if state[1] else 0) == _python_sum(left, 1)


def test_spills_are_of_this_form() -> None:
    cell = Moments(None, 1)
    assert at_once(cell, [0.5, 2, None]) == ((2, 2), [1, 1, -1])
    assert at_once(cell, [0.5, -0.5]) == ((2, 0), [2, 0, 0])
    assert at_once(cell, [Decimal("3.30"), 7]) == ((2, 7), [0, 0, 0, 0, 1, 33, -1])
    assert at_once(cell, [math.inf, math.nan]) == ((2, 0), [0, 0, 0, 0, 0, 0, 0, 1, 1])
    assert at_once(Moments(None, 2), [0.5]) == ((1, 0, 0), [1, 1, -1, 1, -2])


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], "None"),
        ([None], "None"),
        ([1, 2], "3"),
        ([1, 2.0], "3.0"),
        ([-0.0], "0.0"),
        ([0.1] * 10, "1.0"),
        ([1e308, 1e308], "inf"),
        ([1e308, 1e308, -1e308], "1e+308"),
        ([-(10**400), 0.5], "-inf"),
        ([math.inf, 1], "inf"),
        ([math.inf, -math.inf], "nan"),
        ([math.nan, Decimal(1)], "nan"),
        ([Decimal("3.30")], "Decimal('3.3')"),
        ([Decimal("1E+2")], "Decimal('100')"),
        ([Decimal("0.5"), Decimal("-0.50")], "Decimal('0')"),
        ([Decimal("-9E+6144"), Decimal("-1E+6144")], "-inf"),
        ([Decimal("-9E+6144"), Decimal("1E+6143"), Decimal("9E+6144"), Decimal("-1E+6143")], "Decimal('0')"),
        ([Decimal("0.1"), 3], "Decimal('3.1')"),
        ([Decimal("0.1"), 0.5], "0.6"),
        ([10**30, -1], "999999999999999999999999999999"),
    ],
)
def test_a_sum_is_shown_as(values: list[Any], shown: str) -> None:
    assert repr(sum().over(values)) == shown


def test_a_million_updates_do_not_drift() -> None:
    rng = np.random.default_rng(3)
    n, m, size = 500_000, 100, 25_000
    values = np.round(rng.normal(0, 1000, n), 2)
    values[::7] *= 1e12
    loc = rng.integers(0, m, n).astype(np.int32)
    kind = np.full(n, 2, np.uint8)
    kept = rng.random(n) < 0.01
    cell = Moments(None, 1)

    def side(at: Any) -> Any:
        return cell.batch(loc[at], m, Column(values[at].view(np.int64), kind[at]))

    none, totals = side(np.arange(0)), GroupTotals.none(2, m)
    for a in range(0, n, size):
        totals = cell.update(totals, side(np.arange(a, a + size)), none)
    goes = rng.permutation(np.flatnonzero(~kept))
    for a in range(0, goes.size, size):
        totals = cell.update(totals, none, side(goes[a : a + size]))
    assert packed(totals, m) == packed(cell.update(GroupTotals.none(2, m), side(np.flatnonzero(kept)), none), m)
    for g in range(m):
        left = values[kept & (loc == g)].tolist()
        assert sum().result(0, [totals.state(g)]) == math.fsum(left)
    totals = cell.update(totals, none, side(np.flatnonzero(kept)))
    assert packed(totals, m) == packed(GroupTotals.none(2, m), m)


@settings(max_examples=40)
@given(st.lists(floats, max_size=60))
def test_order_and_path_do_not_matter(values: list[float]) -> None:
    """Batches of few and of many values take different code paths to the same totals."""
    cell = Moments(None, 2)
    one_by_one = GroupTotals.none(3, 1)

    def make(some: list[float]) -> Any:
        return cell.batch(np.zeros(len(some), np.int32), 1, Column.of(some))

    for v in reversed(values):
        one_by_one = cell.update(one_by_one, make([v]), make([]))
    assert packed_state(one_by_one.state(0)) == packed_state(at_once(cell, values))


def test_cells_of_equal_reducers_are_equal() -> None:
    assert len({sum("a").cells, mean("a").cells}) == 1
    assert sum("a").cells != variance("a").cells
    assert sum("a").cells != sum("b").cells
