"""Compare columns of ts with Python's own comparison of ints and floats, which is exact."""

import itertools
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.versions.version_stamps import NUMBER, TEXT, Stamps, pair_of, stamps_of

Number = int | float
EDGES = [
    *(
        sign * (edge + off)
        for edge in (0, 1 << 53, 1 << 62, 1 << 63, 1 << 64)
        for off in range(-3, 4)
        for sign in (1, -1)
    ),
    *(0.0, -0.0, 0.5, -0.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e308, -1e308, 5e-324, 1 << 900, -(1 << 900)),
    *((1 << 70) + 1, (1 << 70) - 1, 1 << 70, 2.0**70),
]
INTS = st.sampled_from([x for x in EDGES if type(x) is int]) | st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = st.sampled_from(EDGES) | st.integers(-(1 << 66), 1 << 66) | st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = (
    st.lists(NUMBERS, min_size=1, max_size=12)
    | st.lists(INTS, min_size=1, max_size=12)
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12)
)


def _column(values: list[Number]) -> Stamps:
    column, kind, bad = stamps_of(values, None, set())
    assert (kind, bad) == (NUMBER, {})
    assert len(column) == len(values)
    return column


def _number(column: Stamps, i: int) -> Fraction:
    hi = 0.0 if column.hi is None else float(column.hi[i])
    return Fraction(hi) + int(column.lo[i])


@given(COLUMNS, st.data())
def test_comparisons_are_exact(values: list[Number], data: st.DataObject) -> None:
    others = data.draw(st.lists(NUMBERS | st.sampled_from(values), min_size=len(values), max_size=len(values)))
    a, b = _column(values), _column(others)
    assert a.less(b).tolist() == [x < y for x, y in zip(values, others, strict=True)]
    assert a.same(b).tolist() == [x == y for x, y in zip(values, others, strict=True)]
    assert a.paired().less(b).tolist() == a.less(b.paired()).tolist() == a.less(b).tolist()


@given(COLUMNS)
def test_a_column_holds_its_numbers(values: list[Number]) -> None:
    for column in (_column(values), _column(values).paired()):
        assert [_number(column, i) for i in range(len(values))] == [Fraction(x) for x in values]


@given(COLUMNS)
def test_ranks_are_those_of_sorting(values: list[Number]) -> None:
    column = _column(values)
    distinct = sorted({Fraction(x) for x in values})
    assert column.ranks().tolist() == [distinct.index(Fraction(x)) for x in values]
    assert column.ascends() is all(x <= y for x, y in itertools.pairwise(values))


@given(COLUMNS, COLUMNS, st.data())
def test_parts_join_and_are_taken(first: list[Number], second: list[Number], data: st.DataObject) -> None:
    joined, values = Stamps.join([_column(first), _column(second)]), first + second
    at = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    taken = joined.take(np.array(at, np.int64))
    assert [_number(taken, j) for j in range(len(at))] == [Fraction(values[i]) for i in at]


def test_ints_of_64_bits_are_one_lane() -> None:
    assert _column([-(1 << 63), 0, (1 << 63) - 1]).hi is None
    assert stamps_of(np.array([1, 2]), None, set())[0].hi is None
    assert _column([1, 1 << 63]).hi is not None
    assert _column([1, 0.5]).hi is not None


def test_no_columns_and_no_rows() -> None:
    empty, kind, bad = stamps_of([], None, set())
    assert (len(empty), kind, bad) == (0, None, {})
    assert empty.ranks().tolist() == []
    assert empty.ascends()


def _instant(text: str) -> int:
    column, kind, bad = stamps_of([text], None, set())
    assert (kind, bad) == (TEXT, {})
    return int(_number(column, 0))


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-1439, 1439))
def test_texts_are_instants(at: datetime, minutes: int) -> None:
    offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    since = at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds - minutes * 60) * 1_000_000 + since.microseconds
    assert _instant(at.isoformat() + offset) == micros * 1_000


def test_texts_of_one_instant_are_equal_and_others_ordered() -> None:
    texts = ["2024-01-01T00:00:00Z", "2024-01-01t01:00:00.000+01:00", "2023-12-31 23:59:59.999999999z"]
    column, _, bad = stamps_of(texts, TEXT, set())
    assert not bad
    assert column.ranks().tolist() == [1, 1, 0]
    far = stamps_of(["9999-12-31T23:59:59.999999998Z", "9999-12-31T23:59:59.999999999Z"], TEXT, set())[0]
    assert far.hi is not None
    assert far.ranks().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it has no ts"),
        (True, "no int, finite float or RFC 3339 text"),
        (float("nan"), "no int, finite float"),
        (float("inf"), "no int, finite float"),
        ([1], "no int, finite float"),
        ("yesterday", "not RFC 3339"),
        ("2024-01-01T00:00:00", "with its offset"),
        ((1 << 200) + (1 << 140), "beyond what can be ordered"),
        (-(1 << 2000), "beyond what can be ordered"),
    ],
)
def test_what_is_no_ts_is_told_and_leaves_the_rest(value: object, why: str) -> None:
    column, kind, bad = stamps_of([3, value, 4], None, set())
    assert kind == NUMBER
    assert list(bad) == [1]
    assert why in bad[1] or "the ts of this table are numbers" in bad[1]
    assert [_number(column, i) for i in (0, 2)] == [3, 4]
    alone = stamps_of([value], None, set())
    assert alone[1] is None
    assert why in alone[2][0]


def test_the_first_that_can_be_taken_decides_the_kind() -> None:
    text = "2024-01-01T00:00:00Z"
    assert list(stamps_of(["never", 1, text, 2], None, set())[2]) == [0, 2]
    assert list(stamps_of([1, text, 2], None, {0})[2]) == [2]
    assert list(stamps_of([1.0, 2.0], TEXT, set())[2]) == [0, 1]
    assert list(stamps_of(np.array([1, 2]), TEXT, {0})[2]) == [1]
    assert stamps_of([None], NUMBER, {0})[1:] == (NUMBER, {})
    assert stamps_of(np.array([1]), None, {0})[1] is None


@given(NUMBERS)
def test_a_pair_is_the_nearest_float_and_the_rest(number: Number) -> None:
    hi, lo = pair_of(number)
    assert Fraction(hi) + lo == Fraction(number)
    assert hi == float(number)
