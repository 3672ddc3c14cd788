"""Test the oracle's reducers without an inverse, and its rows and ts for them, against values computed by hand."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.model import Model
from tests.oracle.ordered import (
    Bottom,
    Collect,
    Distinct,
    First,
    Function,
    Last,
    Max,
    Min,
    Monoid,
    Quantiles,
    Top,
)
from tests.oracle.reducers import Count, Given
from tests.oracle.tables import BROKER, Table
from tests.oracle.values import Refused, identity, packed, place, rank
from tests.oracle.views import View, recompute

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=40), inner, max_size=20)),
    max_leaves=30,
)


@given(JSON)
def test_bytes_are_messagepack(value: Any) -> None:
    assert identity(msgpack.unpackb(packed(value))) == identity(value)


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_heads_are_as_short_as_can_be(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * size, {f"{i:05}": None for i in range(size)}):
        assert packed(value) == msgpack.packb(value)


@pytest.mark.parametrize("value", [0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1])
def test_ints_are_as_short_as_can_be(value: int) -> None:
    for number in (value, -value - 1):
        if number >= -(1 << 63):
            assert packed(number) == msgpack.packb(number)
    assert packed(1 << 64) == msgpack.packb(msgpack.ExtType(1, str(1 << 64).encode()))
    assert packed(Decimal("1.50")) == msgpack.packb(msgpack.ExtType(2, b"1.50"))


def test_equal_values_stand_in_the_order_of_their_bytes() -> None:
    ones = [Decimal("1"), Decimal("1.0"), 1.0, 1]
    assert [repr(one) for one in sorted(ones, key=place)] == ["1", "Decimal('1.0')", "1.0", "Decimal('1')"]
    assert place(128.0) < place(128)
    assert place(0.0) < place(-0.0)


def given_of(*values: Any, by: Any = None) -> list[Given]:
    return [Given("g", value, key, rank(key), 0, Fraction(key)) for key, value in enumerate(values)]


MIXED = [None, 3, "x", 2.5, 3.0, None, True]


@pytest.mark.parametrize(
    ("reducer", "values", "wanted"),
    [
        (Max(), MIXED, "x"),
        (Min(), MIXED, True),
        (Top(n=3), MIXED, ["x", 3.0, 3]),
        (Bottom(n=3), MIXED, [True, 2.5, 3]),
        (Collect(n=2), MIXED, [3, "x"]),
        (First(), MIXED, 3),
        (Last(), MIXED, True),
        (First("v", "b"), [{"v": 1, "b": 2}, {"v": 2}, {"v": 3, "b": None}, {"b": -1}], 2),
        (Last("v", "b"), [{"v": 1, "b": 2}, {"v": 2, "b": 2.0}, {"v": 3}], 2),
        (Distinct(), MIXED, 4),
        (Quantiles(qs=(0, 0.5, 0.75, 1)), [4, None, 1, 3, 2], [1, 2, 3, 4]),
        (Quantiles(qs=(0.1,)), list(range(10)), [0]),
        (Function(None, lambda values, rereduce: [len(values), rereduce]), MIXED, [7, False]),
        (Function(None, lambda keys, values, rereduce: keys[1], True), MIXED, ["g", 1]),
    ],
)
def test_results(reducer: Any, values: list[Any], wanted: Any) -> None:
    assert identity(reducer.fold(given_of(*values))) == identity(wanted)


def test_over_nulls() -> None:
    nothing = given_of(None, None)
    assert [r.fold(nothing) for r in (Top(), Bottom(), Collect())] == [[], [], []]
    assert [r.fold(nothing) for r in (Max(), Min(), First(), Last(), Quantiles(), Monoid())] == [None] * 6
    assert Distinct().fold(nothing) == 0


STAMPED = Table("stamped", "id", ts="at")
HEARD = Table("heard", "id", ts=BROKER)
PLAIN = Table("plain", "id")


def shown(model: Model, view: str) -> dict[Any, Any]:
    return {row.group: row.result for row in model.rows[view].values()}


def test_the_last_by_ts_is_that_of_the_version_that_won() -> None:
    m = Model([STAMPED, HEARD], [View("a", "stamped", Last("v"), key="g"), View("b", "heard", Last("v"), key="g")])
    m.put("stamped", {"id": 1, "g": "x", "v": "one", "at": 5})
    m.put("stamped", {"id": 2, "g": "x", "v": "two", "at": 3})
    assert shown(m, "a") == {"x": "one"}
    m.put("stamped", {"id": 2, "g": "x", "v": "two", "at": 6})
    assert shown(m, "a") == {"x": "two"}
    m.put("heard", {"id": 1, "g": "x", "v": "one"}, ts=5)
    m.put("heard", {"id": 2, "g": "x", "v": "two"}, ts=3)
    assert shown(m, "b") == {"x": "one"}
    m.put("heard", {"id": 2, "g": "x", "v": "two"}, ts=6)
    assert shown(m, "b") == {"x": "two"}, "the document is the same, its ts is another"
    rows, _ = recompute(m.views["b"], m.living("heard"), stamps=m.tables["heard"].stamps())
    assert [row.result for row in rows.values()] == ["two"]


def test_a_held_document_keeps_the_ts_it_was_told_with() -> None:
    m = Model([STAMPED], [View("a", "stamped", {"last": Last("v"), "q": Quantiles("v")}, key="g")])
    m.put("stamped", {"id": 1, "g": "x", "v": 1, "at": 5})
    m.put("stamped", {"id": 2, "g": "x", "v": 2, "at": 3})
    m.put("stamped", {"id": 2, "g": "x", "v": "much", "at": 6})
    assert shown(m, "a") == {"x": {"last": 1, "q": [1]}}


def test_ranks_tell_the_values_of_one_document_apart() -> None:
    view = View("v", "plain", Collect(n=3), fn=lambda doc: [("g", v) for v in doc["vs"]] + [("h", None)])
    m = Model([PLAIN], [view])
    m.put("plain", {"id": 1, "vs": [3, 1.0, 1]})
    m.put("plain", {"id": 0, "vs": [9]})
    assert shown(m, "v") == {"g": [9, 1, 1.0], "h": []}
    assert identity(shown(m, "v")["g"]) == identity([9, 1, 1.0])


def test_an_index_has_a_row_for_each_contribution() -> None:
    own = View("own", "plain", None, fn=lambda doc: [("g", v) for v in doc["vs"]])
    m = Model([PLAIN], [View("v", "plain", None, key="g", value="vs"), View("k", "plain", None, key="g"), own])
    m.put("plain", {"id": "b", "g": "x", "vs": [2, 1]})
    m.put("plain", {"id": "a", "vs": []})
    assert shown(m, "v") == {(None, "a", 0): [], ("x", "b", 0): [2, 1]}
    assert list(shown(m, "v")) == [(None, "a", 0), ("x", "b", 0)]
    assert shown(m, "k") == {(None, "a", 0): None, ("x", "b", 0): None}
    assert shown(m, "own") == {("g", "b", 0): 1, ("g", "b", 1): 2}


def test_going_by_ts_needs_one() -> None:
    for reduce in (Last("v"), {"n": Count(), "first": First("v")}):
        with pytest.raises(Refused):
            Model([PLAIN], [View("v", "plain", reduce, key="g")])
    chained = View("w", "v", Last("value"), key="key")
    with pytest.raises(Refused):
        Model([STAMPED], [View("v", "stamped", Count(), key="g"), chained])
    assert Model([PLAIN], [View("v", "plain", Last("v", "at"), key="g")]).rows == {"v": {}}
