"""Compare mean, variance and stddev with fractions: each result must be the nearest possible one."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.cache import normalise
from penstock.mapreduce.reducers.invertible import mean, stddev, variance
from penstock.mapreduce.reducers.rounding import plain, root_decimal, root_float, to_decimal, to_float
from penstock.mapreduce.reducers.sums import Moments
from tests.mapreduce.reducers.histories import (
    History,
    all_ints,
    at_once,
    columns_of,
    histories,
    money,
    packed_state,
    played,
)

TOP = Fraction(1.7976931348623157e308)
OUT, IN = Fraction(10) ** 6145 * (1 - Fraction(1, 10**28)), Fraction(10) ** -6144
BEYOND = TOP + Fraction(math.ulp(1.7976931348623157e308)) / 2


def nearest_float(got: float, power: int, exact: Fraction) -> bool:
    """Return whether `got` is the float nearest to the `power`-th root of `exact`, ties to even."""
    sign = 1 if exact >= 0 else -1
    exact, got = abs(exact), got * sign
    if math.isinf(got):
        return got > 0 and exact >= BEYOND**power
    below = Fraction(0) if got == 0 else (Fraction(got) + Fraction(math.nextafter(got, 0))) / 2
    above = BEYOND if Fraction(got) == TOP else (Fraction(got) + Fraction(math.nextafter(got, math.inf))) / 2
    even = struct.pack(">d", got)[-1] % 2 == 0
    low, high = below**power, above**power
    return (
        got >= 0
        and (low < exact or (low == exact and (even or got == 0)))
        and (exact < high or (exact == high and even))
    )


def nearest_decimal(got: Decimal | float, power: int, exact: Fraction) -> bool:
    """Return whether `got` has at most 28 digits and is the nearest such number to the `power`-th root of `exact`."""
    if not isinstance(got, Decimal):
        return abs(exact) >= OUT**power and got == (math.inf if exact > 0 else -math.inf)
    assert str(got) == str(plain(got))
    assert normalise(got) == got
    if got == 0:
        return abs(exact) < IN**power
    size = abs(exact)
    half = Fraction(10) ** (got.adjusted() - 27) / 2
    near = abs(Fraction(got))
    within: bool = (near - half) ** power <= size <= (near + half) ** power
    return within and (got > 0) == (exact > 0)


def right(got: Any, power: int, exact: Fraction, values: Sequence[Any]) -> bool:
    if any(isinstance(v, Decimal) for v in values) and not any(isinstance(v, float) for v in values):
        return nearest_decimal(got, power, exact)
    return isinstance(got, float) and nearest_float(got, power, exact)


def check(values: Sequence[Any], ddof: int, state: Any) -> None:
    here = [v for v in values if v is not None]
    m = len(here)
    first = (state[0][:2], None) if state[1] is None else at_once(Moments(None, 1), values)
    results = [
        mean().result(0, [first]),
        variance(None, ddof).result(0, [state]),
        stddev(None, ddof).result(0, [state]),
    ]
    strays = [v for v in here if isinstance(v, float) and not math.isfinite(v)]
    if not m:
        assert results == [None] * 3
        return
    if strays:
        total = math.nan if len({str(v) for v in strays}) > 1 else strays[0]
        assert str(results[0]) == str(total)
        assert [str(r) for r in results[1:]] == ["None" if m <= ddof else "nan"] * 2
        return
    exact = [Fraction(v) for v in here]
    middle = Fraction(0)
    for v in exact:
        middle += v / m
    assert right(results[0], 1, middle, here)
    if m <= ddof:
        assert results[1:] == [None, None]
        return
    spread = Fraction(0)
    for v in exact:
        spread += (v - middle) ** 2
    spread /= m - ddof
    assert right(results[1], 1, spread, here)
    assert right(results[2], 2, spread, here)


@settings(max_examples=150)
@given(columns_of.flatmap(histories), st.sampled_from([0, 1, 2]))
def test_a_history_leaves_the_moments_of_what_is_left(history: History, ddof: int) -> None:
    cell = Moments(None, 2)
    left: dict[int, list[Any]] = {}
    for g, v in history.left:
        left.setdefault(g, []).append(v)
    for g, state in played(cell, history).items():
        assert packed_state(state) == packed_state(at_once(cell, left.get(g, [])))
        check(left.get(g, []), ddof, state)


@settings(max_examples=60)
@given(st.lists(st.one_of(money, all_ints), min_size=30, max_size=80))
def test_long_columns(values: list[Any]) -> None:
    check(values, 1, at_once(Moments(None, 2), values))


@given(st.integers(0, 1 << 1200), st.integers(1, 1 << 1200), st.integers(-2200, 2200))
def test_roots_and_ratios_are_the_nearest(numerator: int, denominator: int, scale: int) -> None:
    numerator, denominator = numerator << max(scale, 0), denominator << max(-scale, 0)
    exact = Fraction(numerator, denominator)
    assert nearest_float(to_float(numerator, denominator), 1, exact)
    assert nearest_float(to_float(-numerator, denominator), 1, -exact)
    assert nearest_float(root_float(numerator, denominator), 2, exact)
    assert nearest_decimal(to_decimal(numerator, denominator), 1, exact)
    assert nearest_decimal(root_decimal(numerator, denominator), 2, exact)


@given(st.floats(1e-150, 1e150), st.sampled_from([-1, 0, 1]))
def test_roots_beside_a_tie(value: float, side: int) -> None:
    """Take values just below, at and just above the middle of two floats."""
    middle = (Fraction(value) + Fraction(math.nextafter(value, math.inf))) / 2
    exact = middle**2 + side * Fraction(1, 10**600)
    assume(exact > 0)
    assert nearest_float(root_float(exact.numerator, exact.denominator), 2, exact)


@given(st.integers(10**27, 10**28 - 1), st.integers(-40, 40), st.sampled_from([-1, 0, 1]))
def test_decimal_roots_beside_a_tie(digits: int, exponent: int, side: int) -> None:
    """Take values just below, at and just above the middle of two Decimals of 28 digits."""
    exact = (Fraction(2 * digits + 1, 2) * Fraction(10) ** exponent) ** 2 + side * Fraction(1, 10**600)
    want = digits + (side > 0 or (side == 0 and digits % 2))
    assert root_decimal(exact.numerator, exact.denominator) == Decimal(want).scaleb(exponent)


@pytest.mark.parametrize(
    ("reducer", "values", "shown"),
    [
        (mean(), [1, 2], "1.5"),
        (mean(), [Decimal("1.00"), Decimal("2.00")], "Decimal('1.5')"),
        (mean(), [Decimal(1), Decimal(1), 2], "Decimal('1.333333333333333333333333333')"),
        (mean(), [Decimal(200), 400], "Decimal('300')"),
        (mean(), [Decimal(1), 2.0], "1.5"),
        (variance(), [Decimal("-1E+6000"), 0], "inf"),
        (variance(), [Decimal("1E-6000"), 0], "Decimal('0')"),
        (stddev(), [Decimal("1E-6000"), Decimal("-1E-6000")], "Decimal('1.414213562373095048801688724E-6000')"),
        (mean(), [math.inf, 1], "inf"),
        (mean(), [1e308] * 3, "1e+308"),
        (mean(), [None], "None"),
        (variance(), [5], "None"),
        (variance(), [5, None], "None"),
        (variance(ddof=0), [5], "0.0"),
        (variance(), [1, 2], "0.5"),
        (variance(), [Decimal(1), 2], "Decimal('0.5')"),
        (variance(), [math.inf, 1], "nan"),
        (variance(), [1e200, -1e200], "inf"),
        (variance(), [(1 << 63) - 1, -(1 << 63)], "1.7014118346046923e+38"),
        (variance(ddof=2), [1, 2], "None"),
        (stddev(), [1e200, -1e200], "1.414213562373095e+200"),
        (stddev(), [Decimal(1), Decimal(3)], "Decimal('1.414213562373095048801688724')"),
        (stddev(ddof=0), [Decimal("0.1"), Decimal("0.3")], "Decimal('0.1')"),
        (stddev(), [5e-324, 0.0], "5e-324"),
    ],
)
def test_a_moment_is_shown_as(reducer: Any, values: list[Any], shown: str) -> None:
    assert repr(reducer.over(values)) == shown
