"""Two groups merged give the same bytes as one group with the values of both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import DefinitionError
from penstock.mapreduce.reducers.counts import Bins, Present
from penstock.mapreduce.reducers.invertible import Functions
from penstock.mapreduce.reducers.sums import Moments
from penstock.mapreduce.reducers.user_group import UserGroup
from penstock.views import Cell
from tests.mapreduce.reducers.histories import (
    all_ints,
    at_once,
    columns_of,
    decimals,
    empty,
    floats,
    nulls,
    packed_state,
)


class Longest:
    """A user's reducer: the number of values, and the length of their texts."""

    def zero(self) -> dict[str, int]:
        return {"n": 0, "long": 0}

    def lift(self, value: Any) -> dict[str, int]:
        return {"n": 1, "long": len(str(value))}

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {key: a[key] + b[key] for key in ("long", "n")}

    def unmerge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {key: a[key] - b[key] for key in a}

    def result(self, total: dict[str, int]) -> int:
        return total["long"] // total["n"]


CELLS: list[Cell] = [
    Moments(None, 1),
    Moments(None, 2),
    Present(None),
    Bins(None, (-1, 0, 2.5, 1 << 64)),
    UserGroup(None, Functions(Longest())),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: type(cell).__name__)
@given(data=st.data())
def test_two_groups_together(cell: Cell, data: st.DataObject):
    one, two = (data.draw(st.lists(data.draw(columns_of), max_size=8)) for _ in range(2))
    together = cell.merge(at_once(cell, one), at_once(cell, two))
    assert packed_state(together) == packed_state(at_once(cell, [*one, *two]))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: type(cell).__name__)
def test_with_nothing(cell: Cell):
    some, none = at_once(cell, [3, None]), at_once(cell, [])
    for together in (cell.merge(some, none), cell.merge(none, some)):
        assert packed_state(together) == packed_state(some)
    assert packed_state(cell.merge(none, none)) == empty(cell)


@given(values=st.lists(st.one_of(all_ints, floats, decimals, nulls), min_size=3, max_size=12), at=st.data())
def test_in_any_nesting(values: list[Any], at: st.DataObject):
    cell = Moments(None, 2)
    i, j = sorted(at.draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    a, b, c = (at_once(cell, part) for part in (values[:i], values[i:j], values[j:]))
    left, right = cell.merge(cell.merge(a, b), c), cell.merge(a, cell.merge(b, c))
    assert packed_state(left) == packed_state(right)


def test_sums_that_leave_64_bits_and_come_back():
    cell, most = Moments(None, 1), (1 << 63) - 1
    past = cell.merge(at_once(cell, [most]), at_once(cell, [1]))
    assert packed_state(past) == packed_state(at_once(cell, [most, 1]))
    assert packed_state(cell.merge(past, at_once(cell, [-1]))) == packed_state(at_once(cell, [most, 1, -1]))


class Grudge(Longest):
    """A user's reducer that refuses texts."""

    def lift(self, value: Any) -> dict[str, int]:
        if isinstance(value, str):
            raise TypeError("no text")
        return super().lift(value)


def test_what_one_owes_both_owe():
    cell = UserGroup(None, Functions(Grudge()))
    _, spill = cell.merge(at_once(cell, [10, "a"]), at_once(cell, [1000]))
    assert spill == [{"long": 6, "n": 2}, 3, [[1, "a"]]]


def test_without_the_functions():
    known, unknown = UserGroup(None, Functions(Longest())), UserGroup(None, None)
    with pytest.raises(DefinitionError, match="that app"):
        unknown.merge(at_once(known, [1]), at_once(known, [2]))
