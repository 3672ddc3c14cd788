"""The public reducers: the values they read, their descriptions and reconstruction, and their refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from penstock.cache import DefinitionError, ValueKind
from penstock.mapreduce.reducers.invertible import count, histogram, mean, reducer_from, stddev, sum, variance
from penstock.views import Need

ANY: Any = 7
ALL: list[Any] = [
    count(),
    count("paid"),
    sum(),
    sum("a.b"),
    mean("a"),
    variance("a", ddof=0),
    stddev(),
    histogram([0, 0.1, Decimal("0.25"), 1 << 70], "a"),
]


@pytest.mark.parametrize("reducer", ALL, ids=lambda r: r.name)
def test_a_description_is_plain_and_says_all(reducer: Any) -> None:
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(reducer.describe()))
    again = reducer_from(wire)
    assert again == reducer
    assert again.cells == reducer.cells
    assert repr(again) == repr(reducer)


def test_what_each_needs_to_know() -> None:
    assert count().cells == ()
    assert [r.cells[0].need for r in (count("a"), sum(), variance(), histogram([1]))] == [
        Need.PRESENCE,
        Need.NUMBER,
        Need.NUMBER,
        Need.NUMBER,
    ]
    assert [r.cells[0].lanes for r in (count("a"), sum(), variance(), histogram([1, 2]))] == [1, 2, 3, 3]
    assert sum("a.b").field == sum("a.b").cells[0].field == ("a", "b")


def test_over_nulls_only() -> None:
    nulls = [None, None]
    assert count().over(nulls) == 2
    assert [r.over([{"a": None}]) for r in (count("a"), sum("a"), mean("a"), variance("a"), stddev("a"))] == [
        0,
        None,
        None,
        None,
        None,
    ]
    assert histogram([1], "a").over([{}]) == [0, 0]


def test_over_names_a_value_of_the_wrong_kind() -> None:
    with pytest.raises(ValueKind, match="sum takes int, float and Decimal"):
        sum("a").over([{"a": 1}, {"a": True}])
    assert count("a").over([{"a": True}, {"a": "x"}]) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sum(""), "the field of sum() is ''"),
        (lambda: mean(ANY), "the field of mean() is 7"),
        (lambda: count("a..b"), "the field of count() is 'a..b'"),
        (lambda: variance(ddof=-1), "ddof of variance() is -1; give 1 for a sample or 0"),
        (lambda: stddev(ddof=True), "ddof of stddev() is True"),
        (lambda: reducer_from({"reducer": "median", "field": None}), "unknown reducer 'median'; open this store"),
    ],
)
def test_definitions_that_cannot_be_meant(make: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        make()
    assert words in str(error.value)
