"""User-defined invertible reducers: sound ones equal a fold of the remaining values, faulty ones keep the promises."""

from __future__ import annotations

import copy
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cache import DefinitionError, ValueKind, canonical
from penstock.mapreduce.reducers.invertible import group, reducer_from
from penstock.mapreduce.reducers.user_group import UserGroup
from penstock.views import GroupTotals
from tests.mapreduce.reducers.histories import History, at_once, empty, histories, packed_state, played, side_of

values = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from(["a", "b", 1.5, True, Decimal("2.50"), b"x", 1 << 70]),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
)


class Bag:
    """The multiset itself. It changes its arguments, and returns them."""

    def zero(self) -> Any:
        return {}

    def lift(self, value: Any) -> Any:
        lifted = {canonical(value).hex(): 1}
        spoil(value)
        return lifted

    def merge(self, a: Any, b: Any) -> Any:
        for key, n in b.items():
            a[key] = a.get(key, 0) + n
        b["spoilt"] = 1
        return {key: n for key, n in a.items() if n}

    def unmerge(self, a: Any, b: Any) -> Any:
        return self.merge(a, {key: -n for key, n in b.items()})

    def result(self, a: Any) -> Any:
        shown = tuple(sorted(a.items()))
        spoil(a)
        return shown


def spoil(value: Any) -> None:
    if isinstance(value, list):
        value.append("spoilt")
    elif isinstance(value, dict):
        value["spoilt"] = True


class Picky(Bag):
    """A reducer that refuses some values in one of its steps, until a test permits them."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.refusing = True

    def lift(self, value: Any) -> Any:
        if self.refusing and self.step == "lift" and value in ("a", 1.5):
            raise ValueError("not this one")
        return super().lift(value)

    def merge(self, a: Any, b: Any) -> Any:
        if self.refusing and self.step == "merge" and canonical("a").hex() in b:
            a["half"] = "done"
            raise KeyError("not this one")
        return super().merge(a, b)

    def result(self, a: Any) -> Any:
        if self.refusing and self.step == "result" and canonical("a").hex() in a:
            return {1, 2}
        return super().result(a)


def bag_of(some: list[Any]) -> list[list[Any]]:
    counts = Counter(canonical(v).hex() for v in some if v is not None)
    return [[key, n] for key, n in sorted(counts.items())]


def left_by_group(history: History) -> dict[int, list[Any]]:
    left: dict[int, list[Any]] = {}
    for g, v in history.left:
        left.setdefault(g, []).append(v)
    return left


@settings(max_examples=100)
@given(histories(values))
def test_a_history_leaves_the_fold_of_what_is_left(history: History) -> None:
    untouched = copy.deepcopy(history)
    reducer = group(Bag())
    cell = reducer.cells[0]
    left = left_by_group(history)
    for g, state in played(cell, history).items():
        here = left.get(g, [])
        assert packed_state(state) == packed_state(at_once(cell, here))
        if all(v is None for v in here):
            assert packed_state(state) == empty(cell)
            assert reducer.result(0, [state]) is None
        else:
            assert reducer.result(0, [state]) == bag_of(here)
    assert history == untouched


@settings(max_examples=80)
@given(histories(values), st.sampled_from(["lift", "merge", "result"]))
def test_what_was_refused_is_owed_until_it_is_taken(history: History, step: str) -> None:
    picky = Picky(step)
    cell = group(picky).cells[0]
    states = played(cell, history)
    picky.refusing = False
    left = left_by_group(history)
    for g, (lanes, spill) in states.items():
        here = [v for v in left.get(g, []) if v is not None]
        assert lanes == (len(here),)
        if spill is None:
            continue
        refused = {"lift": ("a", 1.5), "merge": ("a",), "result": ()}[step]
        assert (
            sorted((v, n) for n, v in spill[2] if n)
            == sorted((v, n) for v in refused if (n := len([x for x in here if x == v and type(x) is type(v)])))
            or step == "result"
        )
        old = GroupTotals(np.array([lanes]).T, {0: spill})
        totals = cell.update(old, side_of(cell, [], 1), side_of(cell, [], 1))
        assert totals.errors == {}
        assert packed_state(totals.state(0)) == packed_state(at_once(cell, here))


def one(cell: Any, old: GroupTotals, plus: list[Any], minus: list[Any]) -> GroupTotals:
    result: GroupTotals = cell.update(
        old, side_of(cell, [(0, v) for v in plus], 1), side_of(cell, [(0, v) for v in minus], 1)
    )
    return result


def test_a_group_that_cannot_take_a_value_stays_at_its_last_good_result() -> None:
    picky = Picky("lift")
    reducer = group(picky)
    cell = reducer.cells[0]
    good = one(cell, GroupTotals.none(1, 1), ["b"], [])
    held = one(cell, good, ["a", "c", "a"], [])
    assert str(held.errors[0]) == "not this one"
    assert reducer.result(4, [held.state(0)]) == reducer.result(1, [good.state(0)]) == bag_of(["b"])
    assert held.spill[0][2] == [[2, "a"]]
    still = one(cell, held, [], ["a"])
    assert still.spill[0][2] == [[1, "a"]]
    assert still.errors
    free = one(cell, still, [], ["a"])
    assert free.errors == {}
    assert reducer.result(2, [free.state(0)]) == bag_of(["b", "c"])
    gone = one(cell, still, [], ["a", "b", "c"])
    assert packed_state(gone.state(0)) == empty(cell)
    assert gone.errors == {}


def test_a_result_that_cannot_be_had_is_owed_too() -> None:
    picky = Picky("result")
    reducer = group(picky)
    cell = reducer.cells[0]
    held = one(cell, one(cell, GroupTotals.none(1, 1), ["b"], []), ["a"], [])
    assert isinstance(held.errors[0], ValueKind)
    assert held.spill[0][1:] == [bag_of(["b"]), [[0, None]]]
    free = one(cell, held, [], ["a"])
    assert free.spill[0][1:] == [bag_of(["b"]), []]


class Product:
    zero = 1

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return a * b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a // b


def test_a_group_without_result_shows_its_accumulator() -> None:
    assert group(Product()).over([2, 3, None]) == 6
    assert group(Product(), "x").over([{"x": 5}, {}]) == 5
    assert group(Product()).over([None]) is None


class Account(Product):
    """An amount that may neither fall below 0 nor rise above a limit."""

    zero = 0

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def merge(self, a: Any, b: Any) -> Any:
        if not 0 <= a + b <= self.limit:
            raise OverflowError(f"{a + b} is out of range")
        return a + b

    def unmerge(self, a: Any, b: Any) -> Any:
        return self.merge(a, -b)


def test_what_comes_is_taken_before_what_goes() -> None:
    cell = group(Account(100)).cells[0]
    old = one(cell, GroupTotals.none(1, 1), [5, -3], [])
    assert old.errors == {}
    assert one(cell, old, [6], [5]).state(0) == ((2,), [3, 3, []])


def test_of_equal_values_some_may_be_taken_and_some_owed() -> None:
    account = Account(5)
    cell = group(account).cells[0]
    held = one(cell, GroupTotals.none(1, 1), [2, 2, 2, 2], [])
    assert held.state(0) == ((4,), [4, None, [[2, 2]]])
    account.limit = 6
    assert one(cell, held, [], []).state(0) == ((4,), [6, None, [[1, 2]]])
    assert one(cell, held, [], [2]).state(0) == ((3,), [6, 6, []])


def test_errors_of_one_group_leave_the_others() -> None:
    cell = group(Product()).cells[0]
    totals = cell.update(GroupTotals.none(1, 2), side_of(cell, [(0, {}), (1, 4)], 2), side_of(cell, [], 2))
    assert list(totals.errors) == [0]
    assert totals.state(1) == ((1,), [4, 4, []])


def test_groups_of_one_object_share_a_cell() -> None:
    product = Product()
    assert group(product, "a").cells == group(product, "a").cells
    assert len({group(product).cells, group(product).cells}) == 1
    assert group(product).cells != group(Product()).cells


def test_a_described_group_is_read_and_not_kept_up() -> None:
    reducer = group(Product(), "x")
    again = reducer_from(reducer.describe())
    assert again.field == ("x",)
    assert again.result(2, [((2,), [6, 7, []])]) == 7
    with pytest.raises(DefinitionError, match="open the store with that app"):
        again.over([{"x": 1}])
    assert isinstance(again.cells[0], UserGroup)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("lift", "has no method lift; give it zero"),
        ("merge", "has no method merge"),
        ("unmerge", "has no method unmerge"),
        ("zero", "has no zero; give it the accumulator of no values"),
    ],
)
def test_a_group_must_be_whole(missing: str, words: str) -> None:
    parts: dict[str, Any] = {name: getattr(Product, name) for name in ("zero", "lift", "merge", "unmerge")}
    del parts[missing]
    with pytest.raises(DefinitionError) as error:
        group(type("Partial", (), parts)())
    assert words in str(error.value)
    assert "Partial" in str(error.value)


def test_zero_and_result_are_checked_at_once() -> None:
    with pytest.raises(DefinitionError, match="make it a document value"):
        group(type("Sets", (Product,), {"zero": set()})())
    with pytest.raises(DefinitionError, match="make it result"):
        group(type("Odd", (Product,), {"result": 7})())
