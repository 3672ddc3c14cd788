"""The reducers without an inverse in their public form: results computed by hand, descriptions, and refusals."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import DefinitionError, ValueKind, order_key
from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, cell_fields
from penstock.mapreduce.reducers.invertible import reducer_from
from penstock.mapreduce.reducers.value_order import CODE_MAX, float_codes, float_lanes, unified, value_codes
from penstock.views import TS, Need, is_tree_cell, is_value_cell
from tests.mapreduce.reducers.histories import floats
from tests.mapreduce.reducers.tree_shapes import Item, folded, values_of
from tests.oracle.values import identity, rank

ANY: Any = 7
ALL: list[Any] = [
    ps.max(),
    ps.min("a.b"),
    ps.top(3, "a"),
    ps.bottom(1),
    ps.collect(10, "a"),
    ps.first("a"),
    ps.last("a", by="b.c"),
    ps.distinct("a"),
    ps.quantiles([0, 0.1, Decimal("0.25"), 1], "a"),
]


@pytest.mark.parametrize("reducer", ALL, ids=lambda r: r.name)
def test_a_description_is_plain_and_says_all(reducer: Any) -> None:
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(reducer.describe()))
    again = reducer_from(wire)
    assert again == reducer
    assert again.cells == reducer.cells
    assert hash(again.cells[0]) == hash(reducer.cells[0])
    assert repr(again) == repr(reducer)


@pytest.mark.parametrize("reducer", ALL, ids=lambda r: r.name)
def test_what_each_keeps(reducer: Any) -> None:
    (cell,) = reducer.cells
    assert (cell.field, cell.lanes) == (reducer.field, 0)
    by_value = reducer.name in ("distinct", "quantiles")
    assert (is_value_cell(cell), is_tree_cell(cell)) == (by_value, not by_value)
    assert cell.need is (Need.NUMBER if reducer.name == "quantiles" else Need.VALUE)


def test_what_is_read_beside_a_field() -> None:
    assert ps.first("a").cells[0].beside == (TS,)
    assert cell_fields(ps.first("a").cells[0]) == (("a",),)
    assert cell_fields(ps.last("a", by="b.c").cells[0]) == (("a",), ("b", "c"))
    assert cell_fields(ps.max("a").cells[0]) == (("a",),)
    assert cell_fields(ps.distinct().cells[0]) == (None,)


def test_a_plan_reads_what_stands_beside_a_field() -> None:
    table = ps.App("shop").table("orders", key="id", ts="at")
    newest = {"own": ps.last("name", by="order.day"), "by ts": ps.first("city"), "n": ps.count()}
    views = [
        table.view("newest", key="g", reduce=newest),
        table.view("within", key="g", value="order", reduce=ps.last("total", by="day")),
    ]
    plan = FieldPlan.of(table.key, table.ts, views)
    read = {("name",), ("order", "day"), ("city",), ("order", "total")}
    assert read <= set(plan.inputs)
    assert all(plan.inputs[path] for path in read), "values that are no numbers are kept"
    assert TS not in plan.paths
    assert FieldMapper(views[1], views[1].map).inputs.keys() >= {("total",), ("day",)}


@pytest.mark.parametrize(
    ("reducer", "values", "shown"),
    [
        (ps.max(), [1, 1.0, Decimal(1)], "Decimal('1')"),
        (ps.max(), [127, 127.0], "127.0"),
        (ps.max(), [128, 128.0], "128"),
        (ps.min(), [1, 1.0, Decimal(1)], "1"),
        (ps.bottom(4), [Decimal(1), Decimal("1.0"), 1.0, 1], "[1, Decimal('1.0'), 1.0, Decimal('1')]"),
        (ps.max(), [0.0, -0.0], "-0.0"),
        (ps.min(), [-0.0, 0.0], "0.0"),
        (ps.min(), [-0.0, 0], "0"),
        (ps.max(), [math.nan, math.inf, 1 << 70], "nan"),
        (ps.min(), [math.nan, math.inf, 1 << 70], "1180591620717411303424"),
        (ps.max(), [-(1 << 63), None, -1.5], "-1.5"),
        (ps.min(), [(1 << 63) - 1, None], "9223372036854775807"),
        (ps.max(), [True, 7, "a", b"a", [1], {"a": 1}], "{'a': 1}"),
        (ps.min(), [7, False, "a", None], "False"),
        (ps.top(2), [1, None, "x", 2.5], "['x', 2.5]"),
        (ps.top(4), [math.nan, 0.0, -0.0, -math.inf, None], "[nan, -0.0, 0.0, -inf]"),
        (ps.bottom(3), [3, 3, 1, 2], "[1, 2, 3]"),
        (ps.collect(2), [None, 5, None, 4, 3], "[5, 4]"),
        (ps.first(), [None, 5, 4], "5"),
        (ps.last(), [5, 4, None], "4"),
        (ps.first("v", by="at"), [{"v": 1, "at": 5}, {"v": 2}, {"at": -1}], "2"),
        (ps.last("v", by="at"), [{"v": 1, "at": 1.0}, {"v": 2, "at": 1}, {"v": 3}], "2"),
        (ps.first("v", by="at"), [{"v": 1, "at": Decimal("1.0")}, {"v": 2, "at": 1}], "1"),
        (ps.last("v", by="at"), [{"v": 1, "at": -0.0}, {"v": 2, "at": 0.0}], "2"),
        (ps.first("v", by="at"), [{"v": 1, "at": -0.0}, {"v": 2, "at": 0.0}], "1"),
        (ps.distinct(), [0, -0.0, False, "", b"", [0.0], [0], {"a": 1}, {"a": Decimal("1.0")}], "6"),
        (ps.distinct(), [0.5, Decimal("0.50"), 0.1, Decimal("0.1"), math.nan, -math.nan], "4"),
        (ps.quantiles([0.1, 0.5, 0.95, 1]), list(range(20, 0, -1)), "[2, 10, 19, 20]"),
        (ps.quantiles([0.5, 0.5]), [1, None, 2], "[1, 1]"),
        (ps.quantiles([0.5, 0]), [1 << 53, (1 << 53) + 1, float(1 << 53)], "[9007199254740992, 9007199254740992.0]"),
        (ps.quantiles([1]), [math.nan, 10**400, math.inf], "[nan]"),
    ],
)
def test_by_hand(reducer: Any, values: list[Any], shown: str) -> None:
    assert repr(reducer.over(values)) == shown


def test_over_nulls_only() -> None:
    for nulls in ([], [None, None]):
        assert [r.over(nulls) for r in (ps.top(2), ps.bottom(2), ps.collect(2))] == [[], [], []]
        assert [r.over(nulls) for r in (ps.max(), ps.min(), ps.first(), ps.last(), ps.quantiles([1]))] == [None] * 5
        assert ps.distinct().over(nulls) == 0


def test_quantiles_take_numbers() -> None:
    with pytest.raises(ValueKind, match="quantiles takes int, float and Decimal"):
        ps.quantiles([0.5], "a").over([{"a": 1}, {"a": "x"}])


def test_shares_are_what_is_written() -> None:
    assert ps.quantiles([0.1, 0.95, Decimal("0.30"), 1]).shares == (
        Fraction(1, 10),
        Fraction(19, 20),
        Fraction(3, 10),
        Fraction(1),
    )
    assert ps.quantiles([np.float64(0.1)]).shares == (Fraction(1, 10),)
    assert ps.quantiles(q / 4 for q in range(5)).over([10, 20, 30, 40]) == [10, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ps.max(""), "the field of max() is ''"),
        (lambda: ps.min(ANY), "the field of min() is 7"),
        (lambda: ps.top(0), "top() is told to keep 0 values; give a number of 1 or more"),
        (lambda: ps.top(True), "top() is told to keep True values"),
        (lambda: ps.bottom(ANY / 2), "bottom() is told to keep 3.5 values"),
        (lambda: ps.collect(-1), "collect() is told to keep -1 values"),
        (lambda: ps.first(by="a."), "by= of first() is 'a.'"),
        (lambda: ps.last("a", by=ANY), "by= of last() is 7"),
        (lambda: ps.quantiles([]), "quantiles() has no shares; give at least one"),
        (lambda: ps.quantiles(ANY), "the shares of quantiles() are 7; give a list"),
        (lambda: ps.quantiles("0.5"), "the shares of quantiles() are '0.5'"),
        (lambda: ps.quantiles([1.5]), "a share of quantiles() is 1.5; give numbers from 0 to 1"),
        (lambda: ps.quantiles([-0.1]), "a share of quantiles() is -0.1"),
        (lambda: ps.quantiles([True]), "a share of quantiles() is True"),
        (lambda: ps.quantiles([math.nan]), "a share of quantiles() is nan"),
        (lambda: ps.quantiles([Decimal("inf")]), "a share of quantiles() is Decimal('Infinity')"),
        (lambda: ps.quantiles(["0.5", ANY]), "a share of quantiles() is '0.5'"),
    ],
)
def test_definitions_that_cannot_be_meant(make: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        make()
    assert words in str(error.value)


# The order of values


@given(st.lists(floats, min_size=1, max_size=20))
def test_codes_of_floats_are_in_their_order(values: list[float]) -> None:
    lane = np.array(values, np.float64).view(np.int64)
    codes = float_codes(lane)
    for one, a in zip(values, codes.tolist(), strict=True):
        for two, b in zip(values, codes.tolist(), strict=True):
            assert (a < b) == (order_key(one) < order_key(two))
    again = float_lanes(codes).view(np.float64).tolist()
    assert [identity(v) for v in again] == [identity(v) for v in values]


def test_codes_of_odd_floats() -> None:
    odd = np.array([-1, 0x7FF0000000000001, -0x0007FFFFFFFFFFFF], np.int64)  # NaNs: quiet, signalling, negative
    assert float_codes(odd).tolist() == value_codes(odd).tolist() == [CODE_MAX] * 3
    assert float_lanes(float_codes(odd)).tolist() == [0x7FF8000000000000] * 3
    zeros = np.array([0.0, -0.0]).view(np.int64)
    assert len(set(value_codes(zeros).tolist())) == 1
    assert len(set(float_codes(zeros).tolist())) == 2


def test_a_nan_is_kept_in_one_form() -> None:
    lane = np.array([-1, 0x7FF0000000000001], np.int64)
    for reducer in (ps.max(), ps.min()):
        cell = reducer.cells[0]
        (partial,) = folded(cell, [[Item(v, None, i, 0, 0) for i, v in enumerate(lane.view(np.float64).tolist())]])
        assert partial["v"] != partial["v"]

    class One:
        starts = np.array([0, 1])

        def column(self, field: Any) -> Column:
            return Column(lane, np.full(2, LaneKind.FLOAT, np.uint8))

    best: Any = ps.max().cells[0].fold(One())
    assert best.lane.tolist() == [0x7FF8000000000000] * 2


@given(values_of.flatmap(lambda values: st.lists(values, max_size=8)))
def test_values_that_are_equal_as_groups_are_have_one_form(values: list[Any]) -> None:
    for one in values:
        assert rank(unified(one)) == rank(one)
        for two in values:
            assert (identity(unified(one)) == identity(unified(two))) == (rank(one) == rank(two))
