"""Compare distinct and quantiles with the oracle, and check their entries in the order of values."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import DefinitionError, unpack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.distinct_quantiles import DistinctCell, QuantilesCell
from penstock.views import is_value_cell
from tests.mapreduce.reducers.tree_shapes import numbers_of, values_of
from tests.oracle import ordered
from tests.oracle.values import identity, place, rank

columns = values_of.flatmap(lambda values: st.lists(values, max_size=20))
numbers = numbers_of.flatmap(lambda values: st.lists(values, max_size=20))
shares = st.lists(
    st.one_of(st.sampled_from([0, 1, 0.5, 0.1, 0.3, 0.99]), st.floats(0, 1), st.fractions(0, 1)), min_size=1, max_size=4
)
DISTINCT, QUANTILES = DistinctCell(None), QuantilesCell(None, (Fraction(1, 2),))


@given(columns)
def test_values_share_an_entry_where_they_are_equal_as_groups_are(values: list[Any]) -> None:
    found = DISTINCT.entries(Column.of(values))
    assert [entry is None for entry in found] == [value is None for value in values]
    for one, a in zip(values, found, strict=True):
        for two, b in zip(values, found, strict=True):
            assert (a == b) == (rank(one) == rank(two)), (one, two)
            assert a is None or b is None or (a[0] == b[0]) == (a[1] == b[1])


@given(numbers)
def test_numbers_stand_in_the_order_of_values(values: list[Any]) -> None:
    found = QUANTILES.entries(Column.of(values, keep=False))
    assert [entry is None for entry in found] == [value is None for value in values]
    entries = [entry for entry in found if entry is not None]
    assert all(0 <= code < 1 << 64 for code, _ in entries)
    entries.sort(key=lambda entry: (entry[0], QUANTILES.sort_key(entry[1])))
    wanted = sorted((value for value in values if value is not None), key=place)
    assert [identity(unpack(data)) for _, data in entries] == [identity(value) for value in wanted]
    for (_, one), (_, two) in pairwise(entries):
        assert one == two or QUANTILES.sort_key(one) < QUANTILES.sort_key(two)


@settings(max_examples=100)
@given(columns)
def test_a_count_of_different_values(values: list[Any]) -> None:
    assert ps.distinct().over(values) == ordered.Distinct().result(values)


@settings(max_examples=100)
@given(numbers, shares)
def test_quantiles(values: list[Any], qs: list[Any]) -> None:
    assert identity(ps.quantiles(qs).over(values)) == identity(ordered.Quantiles(None, tuple(qs)).result(values))


@given(st.integers(1, 10_000), shares)
def test_places_are_within_the_values(total: int, qs: list[Any]) -> None:
    cell = ps.quantiles(qs).cells[0]
    assert is_value_cell(cell)
    for q, asked in zip(qs, cell.asked(total), strict=True):
        share = Fraction(str(q))
        assert 0 <= asked < total
        assert Fraction(asked + 1, total) >= share
        assert asked == 0 or Fraction(asked, total) < share


def test_of_no_values() -> None:
    for cell in (DISTINCT, QUANTILES):
        assert cell.asked(0) == []
        assert cell.answer(0, 0, []) is None
    assert ps.distinct().over([None]) == 0
    assert ps.quantiles([0.5]).over([None, None]) is None


@pytest.mark.parametrize("reducer", [ps.distinct("a"), ps.quantiles([0.5], "a")], ids=lambda r: r.name)
def test_several_groups_together_are_refused_by_name(reducer: Any) -> None:
    cell = reducer.cells[0]
    with pytest.raises(DefinitionError, match=rf"{reducer.name}\(\) of several groups together.*define a view"):
        cell.merge(((), [1]), ((), [2]))
