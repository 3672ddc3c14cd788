"""A user's functions in a tree: their arguments, and the groups on which they fail."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.cache import DefinitionError, PenstockError
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.mapreduce.reducers.invertible import reducer_from
from penstock.views import ReduceFunction, TreeCell, is_tree_cell
from tests.mapreduce.reducers.tree_shapes import GROUP, Item, Nodes, folded, joined


def items(*values: Any) -> list[Item]:
    return [Item(value, None, key, 0, 0) for key, value in enumerate(values)]


def cell_of(function: Any, keys: bool = False) -> TreeCell:
    cell = resolved([ReduceFunction(function, keys)])[0].cells[0]
    assert is_tree_cell(cell)
    return cell


class Sum:
    zero = 0

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b


class Picky(Sum):
    """A user's monoid that adds ints up to 100, and has a result for even sums."""

    def lift(self, value: Any) -> Any:
        if isinstance(value, str):
            raise TypeError("no text")
        return value

    def merge(self, a: Any, b: Any) -> Any:
        if a + b > 100:
            raise OverflowError("above 100")
        return a + b

    def result(self, a: Any) -> Any:
        if a % 2:
            raise ValueError(f"{a} is odd")
        return {1, 2} if a == 66 else a


def test_a_function_is_given_keys_and_values_and_then_its_results() -> None:
    calls: list[Any] = []

    def spy(keys: Any, values: Any, rereduce: bool) -> Any:
        calls.append((keys, values, rereduce))
        return [len(calls)]

    cell = cell_of(spy, keys=True)
    leaves = folded(cell, [items("a", None), [Item({"b": 1}, None, ("x", 2), 3, 0)]])
    (root,) = joined(cell, [leaves])
    whole = [{"v": "a", "by": None}, {"v": None, "by": None}]
    assert calls == [
        ([[GROUP, 0], [GROUP, 1]], whole, False),
        ([[GROUP, ("x", 2)]], [{"v": {"b": 1}, "by": None}], False),
        (None, [[1], [2]], True),
    ]
    assert cell.state(root) == [[[3]]]


def test_a_function_without_keys() -> None:
    cell = cell_of(lambda values, rereduce: [rereduce, len(values)])
    leaves = folded(cell, [items(1, 2), items(3)])
    assert leaves == [[[False, 2]], [[False, 1]]]
    assert joined(cell, [leaves, leaves[:1]]) == [[[True, 2]], leaves[0]], "one child's partial is its parent's"


def test_what_a_function_is_given_is_its_own() -> None:
    def spoil(values: Any, rereduce: bool) -> Any:
        kept = [list(value.get("x", ())) for value in values]
        for value in values:
            value.clear()
        values.clear()
        return {"x": [x for xs in kept for x in xs]}

    cell = resolved([ReduceFunction(spoil, False)])[0].cells[0]
    assert is_tree_cell(cell)
    shared = {"x": [1]}
    column = Column.of([shared, shared, shared])

    class Leaf(Nodes):
        def column(self, field: Any) -> Column:
            return column

    partials = cell.fold(Leaf([items(1, 2), items(3)])).values()
    assert partials == [[{"x": [1, 1]}], [{"x": [1]}]]
    assert joined(cell, [partials]) == [[{"x": [1, 1, 1]}]]
    assert cell.merge(((), [partials[0]]), ((), [partials[1]])) == ((), [[{"x": [1, 1, 1]}]])
    assert shared == {"x": [1]}
    assert partials == [[{"x": [1, 1]}], [{"x": [1]}]]


def test_null_may_be_what_functions_make() -> None:
    cell = cell_of(lambda values, rereduce: None)
    (root,) = joined(cell, [folded(cell, [items(1), items(2)])])
    assert root == [None]
    assert (
        resolved([ReduceFunction(lambda values, rereduce: None, False)])[0].result(2, [((), cell.state(root))]) is None
    )


def test_a_node_that_fails_says_why_and_so_do_all_above() -> None:
    cell = ps.monoid(Picky(), "v").cells[0]
    good, lift, merge, late = folded(cell, [items(2, 4), items(2, "x"), items(60, 60), items(50)])
    assert [cell.failed(p) for p in (good, late, None)] == [None] * 3
    assert cell.failed(lift) == "TypeError: no text"
    assert cell.failed(merge) == "OverflowError: above 100"
    above = joined(cell, [[good, lift], [good, good], [late, late, good], [merge, lift, late]])
    assert [cell.failed(p) for p in above] == [
        "TypeError: no text",
        None,
        "OverflowError: above 100",
        "OverflowError: above 100",
    ]
    assert cell.state(above[1]) == [[12], 12]


def test_a_result_that_fails_is_raised() -> None:
    cell = ps.monoid(Picky(), "v").cells[0]
    with pytest.raises(ValueError, match="7 is odd"):
        cell.state([7])
    with pytest.raises(ps.ValueKind):
        cell.state([66])
    with pytest.raises(PenstockError, match="monoid: TypeError: no text"):
        ps.monoid(Picky()).over(["x"])


def test_what_no_document_can_hold_fails() -> None:
    cell = cell_of(lambda values, rereduce: {1, 2})
    (partial,) = folded(cell, [items(1)])
    assert "ValueKind" in str(cell.failed(partial))
    cell = ps.monoid(type("Sets", (Sum,), {"lift": lambda self, value: {value}})(), "v").cells[0]
    (partial,) = folded(cell, [items(1)])
    assert "ValueKind" in str(cell.failed(partial))


def test_of_two_groups_one_that_failed_is_what_both_are() -> None:
    cell = ps.monoid(Picky(), "v").cells[0]
    wrong = ((), [{"error": "TypeError: no text"}, None])
    good = ((), cell.state([4]))
    assert cell.merge(wrong, good) == cell.merge(good, wrong) == wrong
    assert cell.merge(good, good) == ((), [[8], 8])
    assert cell.merge(good, ((), None)) == cell.merge(((), None), good) == good
    with pytest.raises(OverflowError, match="above 100"):
        cell.merge(((), [[60], 60]), ((), [[60], 60]))


def test_what_has_no_functions_can_be_read_and_not_kept_up() -> None:
    rows = resolved([ReduceFunction(lambda values, rereduce: len(values), False)])[0]
    for reducer, spill, shown in ((ps.monoid(Sum(), "v"), [[3], 4], 4), (rows, [[5]], 5)):
        again = reducer_from(reducer.describe())
        assert again.result(1, [((), spill)]) == shown
        assert again.result(1, [((), None)]) is None
        cell = again.cells[0]
        assert is_tree_cell(cell)
        with pytest.raises(DefinitionError, match="open the store with that app"):
            folded(cell, [items(1)])
        with pytest.raises(DefinitionError, match="open the store with that app"):
            joined(cell, [[[1], [2]]])


def test_cells_of_one_object_are_one() -> None:
    one, two = Sum(), Sum()
    assert ps.monoid(one, "a").cells == ps.monoid(one, "a").cells
    assert len({ps.monoid(one).cells, ps.monoid(one).cells, ps.monoid(two).cells, ps.monoid(one, "a").cells}) == 3

    def count(values: Any, rereduce: bool) -> int:
        return len(values)

    def other(values: Any, rereduce: bool) -> int:
        return len(values)

    assert len({cell_of(count), cell_of(count), cell_of(other)}) == 2


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("lift", "the monoid Partial has no method lift; give it zero, lift(value), merge(a, b)"),
        ("merge", "the monoid Partial has no method merge"),
        ("zero", "the monoid Partial has no zero; give it the accumulator of no values"),
    ],
)
def test_a_monoid_must_be_whole(missing: str, words: str) -> None:
    parts: dict[str, Any] = {name: getattr(Sum, name) for name in ("zero", "lift", "merge")}
    del parts[missing]
    with pytest.raises(DefinitionError) as error:
        ps.monoid(type("Partial", (), parts)())
    assert words in str(error.value)
