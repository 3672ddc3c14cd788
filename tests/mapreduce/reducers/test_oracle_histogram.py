"""Compare bins with a comparison of each value and each edge as fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cache import DefinitionError
from penstock.mapreduce.reducers.invertible import Histogram, histogram
from tests.mapreduce.reducers.histories import (
    EDGES,
    FAR,
    History,
    all_ints,
    at_once,
    columns_of,
    decimals,
    empty,
    finite,
    histories,
    packed_state,
    played,
)

edges_of = st.lists(
    st.one_of(st.integers(-1000, 1000), st.sampled_from([*EDGES, *FAR]), all_ints, finite, decimals, st.just(10**400)),
    min_size=1,
    max_size=6,
    unique_by=Fraction,
).map(lambda edges: sorted(edges, key=Fraction))


def oracle(edges: Sequence[Any], values: Sequence[Any]) -> list[int]:
    bins = [0] * (len(edges) + 1)
    for v in values:
        if v is None:
            continue
        if isinstance(v, float) and not math.isfinite(v):
            bins[0 if v == -math.inf else -1] += 1
        else:
            bins[len([edge for edge in edges if Fraction(edge) <= Fraction(v)])] += 1
    return bins


@settings(max_examples=120)
@given(edges_of, columns_of.flatmap(histories))
def test_a_history_leaves_the_counts_of_what_is_left(edges: list[Any], history: History) -> None:
    reducer = histogram(edges)
    cell = reducer.cells[0]
    left: dict[int, list[Any]] = {}
    for g, v in history.left:
        left.setdefault(g, []).append(v)
    for g, state in played(cell, history).items():
        assert reducer.result(0, [state]) == oracle(edges, left.get(g, []))
        assert packed_state(state) == packed_state(at_once(cell, left.get(g, [])))
        if g not in left:
            assert packed_state(state) == empty(cell)


@settings(max_examples=100)
@given(edges_of)
def test_the_edges_themselves_and_their_neighbours(edges: list[Any]) -> None:
    values: list[Any] = [*edges]
    for edge in edges:
        near = float(Fraction(edge)) if abs(edge) < 10**308 else math.copysign(math.inf, edge > 0 or -1)
        values += [
            math.ceil(edge),
            math.floor(edge),
            near,
            math.nextafter(near, math.inf),
            math.nextafter(near, -math.inf),
        ]
    for v in values:
        assert histogram(edges).over([v]) == oracle(edges, [v])
    assert histogram(edges).over(values) == oracle(edges, values)


def test_nan_is_beyond_all_and_null_nowhere() -> None:
    assert histogram([0]).over([math.nan, math.inf, -math.inf, None]) == [1, 2]
    assert histogram([0, 1]).over([]) == [0, 0, 0]


@given(edges_of)
def test_edges_survive_their_description(edges: list[Any]) -> None:
    reducer = histogram(edges, "a.b")
    again = Histogram(("a", "b"), tuple(edges))
    assert reducer == again
    assert hash(reducer.cells[0]) == hash(again.cells[0])


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([], "has no edges; give at least one"),
        ([2, 1], "must ascend, but 1 follows 2; sort them"),
        ([1, 1.0], "must ascend"),
        ([Decimal("0.1"), 0.1, Decimal("0.1000000000000000055511151231257827021181583404541015625")], "must ascend"),
        ([True], "an edge of a histogram is True"),
        (["1"], "an edge of a histogram is '1'"),
        ([object], "give finite ints, floats or Decimals"),
        ([math.inf], "the outer bins are open anyway"),
        ("12", "give a list of numbers"),
        (7, "give a list of numbers"),
    ],
)
def test_edges_that_cannot_be_meant(edges: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        histogram(edges)
    assert words in str(error.value)
