import math
import pickle
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import DefinitionError
from penstock.views.document_paths import parse_path, reach
from penstock.views.field_expressions import And, Compare, IsTrue, Not, Or, Where, as_where, field, where_from
from tests.views.stand_ins import named

A = field("a")


def holds(where: Where, **document: object) -> bool:
    return where.evaluate(lambda path: reach(document, path))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda f, v: f == v,
    "!=": lambda f, v: f != v,
    "<": lambda f, v: f < v,
    "<=": lambda f, v: f <= v,
    ">": lambda f, v: f > v,
    ">=": lambda f, v: f >= v,
}

IS_NULL, NOT_NULL = (COMPARISONS[op](A, None) for op in ("==", "!="))


@pytest.mark.parametrize(
    ("found", "value", "order"),
    [
        (1, 2, -1),
        (2, 2.0, 0),
        (2**53 + 1, float(2**53), 1),
        (10**400, 1e308, 1),
        (-math.inf, -(10**400), -1),
        (Decimal("0.1"), 0.1, -1),
        (0.5, Decimal("0.50"), 0),
        (Decimal("1E+6144"), 10**400, 1),
        (-0.0, 0, 0),
        (math.inf, Decimal("1E+6144"), 1),
        (math.nan, math.nan, 0),
        (math.nan, math.inf, 1),
        (math.nan, Decimal(3), 1),
        (Decimal(3), math.nan, -1),
        ("a", "b", -1),
        ("é", "z", 1),
        ("\uffff", "\U00010000", -1),
        (b"\x00", b"", 1),
        (False, True, -1),
    ],
)
def test_one_family_compares_by_value(found: object, value: object, order: int) -> None:
    expected = {"==": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}
    assert {op: holds(compare(A, value), a=found) for op, compare in COMPARISONS.items()} == expected


SOME: list[object] = [True, 1, "1", b"1", [1], {"x": 1}, (1,)]


@pytest.mark.parametrize("found", SOME, ids=named)
@pytest.mark.parametrize("value", [True, 1, Decimal(1), "1", b"1"], ids=named)
def test_two_families_are_unequal_and_nothing_else(found: object, value: object) -> None:
    kinds = {bool: 0, int: 1, Decimal: 1, str: 2, bytes: 3}
    if kinds.get(type(found)) == kinds[type(value)]:
        return
    assert [op for op, compare in COMPARISONS.items() if holds(compare(A, value), a=found)] == ["!="]


@pytest.mark.parametrize("compare", COMPARISONS.values(), ids=COMPARISONS)
def test_null_compares_as_false_with_a_value(compare: Callable[[Any, Any], Any]) -> None:
    assert not holds(compare(A, 1), a=None)
    assert not holds(compare(A, 1))
    assert holds(~compare(A, 1), a=None)


def test_none_tests_for_null() -> None:
    for value in (0, "", False, [], b"", float("nan")):
        assert holds(NOT_NULL, a=value)
        assert not holds(IS_NULL, a=value)
    for doc in ({}, {"a": None}):
        assert holds(IS_NULL, **doc)
        assert not holds(NOT_NULL, **doc)
        assert holds(~NOT_NULL, **doc)


@pytest.mark.parametrize("name", ["<", "<=", ">", ">="])
def test_none_has_no_order(name: str) -> None:
    with pytest.raises(DefinitionError, match="compare with None by == or !="):
        COMPARISONS[name](A, None)


def test_a_stored_condition_keeps_its_meaning() -> None:
    stored = where_from({"is": "!=", "path": ["a"], "value": None})
    assert not holds(stored, a=1)
    assert stored.describe() != NOT_NULL.describe()


def test_a_bare_field_is_exactly_true() -> None:
    for where in (as_where("a"), as_where(A), as_where(A & A), as_where(~~A), as_where(A == True)):  # noqa: E712
        assert holds(where, a=True)
        assert not any(holds(where, a=value) for value in (False, None, 1, 1.0, "true", [True]))


def test_and_or_not() -> None:
    both, either, neither = (A > 0) & (field("b") == "x"), (A > 0) | (field("b") == "x"), ~((A > 0) | field("b"))
    cases = [(a, b) for a in (1, -1, None) for b in ("x", "y", True)]
    assert [holds(both, a=a, b=b) for a, b in cases] == [a == 1 and b == "x" for a, b in cases]
    assert [holds(either, a=a, b=b) for a, b in cases] == [a == 1 or b == "x" for a, b in cases]
    assert [holds(neither, a=a, b=b) for a, b in cases] == [not (a == 1 or b is True) for a, b in cases]


def test_a_value_may_stand_first() -> None:
    assert (A > 3) == (A > 3)
    assert (A == 3) == (A == 3)


def test_nested_paths() -> None:
    where = field("address.city") == "Oslo"
    assert holds(where, address={"city": "Oslo"})
    assert not holds(where, address="Oslo")
    assert not holds(where, address=[{"city": "Oslo"}])
    assert not holds(where, **{"address.city": "Oslo"})


def test_a_date_is_compared_as_its_stored_text() -> None:
    assert holds(field("day") >= date(2024, 2, 1), day="2024-02-01")
    assert (field("day") >= date(2024, 2, 1)) == (field("day") >= "2024-02-01")


def test_paths_come_in_order_and_once() -> None:
    where = ((field("b.c") > 1) | field("a")) & ~((field("b.c") < 0) & field("d"))
    assert where.paths() == (("b", "c"), ("a",), ("d",))


def test_a_field_is_read_no_more_than_needed() -> None:
    seen: list[tuple[str, ...]] = []

    def get(path: tuple[str, ...]) -> object:
        seen.append(path)
        return True

    assert (A | field("b")).evaluate(get)
    assert not (~A & field("b")).evaluate(get)
    assert seen == [("a",), ("a",)]


@pytest.mark.parametrize(
    "use",
    [
        lambda: (A > 0) and (A < 9),
        lambda: A and (A < 9),
        lambda: (A > 0) or (A < 9),
        lambda: not A,
        lambda: 0 < A < 9,
        lambda: A in (1, 2),
        lambda: bool(A == 1),
        lambda: 1 if A > 0 else 2,
    ],
)
def test_a_truth_value_is_refused(use: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError, match=r"use &, \|, ~"):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda: A > 0 & A,  # & binds first: 0 & A
        lambda: "x" | A,
        lambda: (A > 0) & True,
        lambda: A | "paid",
    ],
)
def test_something_else_beside_a_sign_is_refused(use: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError, match="put each comparison in parentheses"):
        use()


@pytest.mark.parametrize("value", [[1], (1,), {"a": 1}, {1}, 1j, object()], ids=named)
def test_a_value_of_no_family_is_refused(value: object) -> None:
    with pytest.raises(DefinitionError, match="can't be compared"):
        value == A  # noqa: B015


def test_a_second_field_is_refused() -> None:
    with pytest.raises(DefinitionError, match="function view"):
        field("b") == A  # noqa: B015
    with pytest.raises(DefinitionError, match="function view"):
        (field("b") > 1) < A  # noqa: B015


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 7, None, ("a",), "\ud800"], ids=named)
def test_a_bad_path_is_refused(path: Any) -> None:
    with pytest.raises(DefinitionError, match=r"ps\.field\(\) is .*write|ps\.field\(\) is .*dots"):
        field(path)


@pytest.mark.parametrize("where", [True, 1, lambda doc: True, ["a"], {"a": 1}], ids=named)
def test_an_invalid_condition_is_refused(where: object) -> None:
    with pytest.raises(DefinitionError, match="where= is"):
        as_where(where)


def test_a_description_of_another_version_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the version of penstock that wrote it"):
        where_from({"is": "matches", "path": ["a"], "value": "x"})


def test_a_tree_is_immutable() -> None:
    for where, name in ((A > 0, "path"), (A & A, "left"), (A | A, "right"), (~A, "inner"), (as_where(A), "path")):
        with pytest.raises(AttributeError):
            setattr(where, name, None)
    with pytest.raises(AttributeError):
        A.path = ("b",)  # type: ignore[misc]


def test_the_forms_of_a_tree() -> None:
    where = ~((A > 0) & field("b")) | field("c")
    assert isinstance(where, Or)
    assert isinstance(where.left, Not)
    assert isinstance(where.left.inner, And)
    assert isinstance(where.left.inner.left, Compare)
    assert where.right == IsTrue(("c",))
    assert where.describe() == {
        "is": "or",
        "left": {
            "is": "not",
            "inner": {
                "is": "and",
                "left": {"is": ">", "path": ["a"], "value": 0},
                "right": {"is": "true", "path": ["b"]},
            },
        },
        "right": {"is": "true", "path": ["c"]},
    }


def test_true_is_not_one() -> None:
    assert (A == 1) != (A == True)  # noqa: E712
    assert (A == 1) == (A == 1.0)


numbers = (
    st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.decimals(allow_nan=False, allow_infinity=False)
)
literals = st.booleans() | numbers | st.text() | st.binary()
paths = st.sampled_from(["a", "b", "c.d"])
comparisons = st.builds(
    lambda path, op, value: COMPARISONS[op](field(path), value), paths, st.sampled_from(list(COMPARISONS)), literals
) | st.builds(lambda path, op: COMPARISONS[op](field(path), None), paths, st.sampled_from(["==", "!="]))
wheres: st.SearchStrategy[Any] = st.recursive(
    comparisons | paths.map(lambda p: as_where(p)),
    lambda inner: (
        st.builds(lambda x, y: x & y, inner, inner)
        | st.builds(lambda x, y: x | y, inner, inner)
        | inner.map(lambda x: ~x)
    ),
    max_leaves=6,
)


@given(wheres)
def test_a_description_makes_the_same_condition(where: Where) -> None:
    plain = msgpack.unpackb(msgpack.packb(where.describe()))
    again = where_from(plain)
    assert repr(again) == repr(where)
    assert again.describe().keys() == where.describe().keys()
    assert again.paths() == where.paths()
    assert repr(pickle.loads(pickle.dumps(where))) == repr(where)


@given(numbers, numbers)
def test_numbers_compare_exactly(found: Any, value: Any) -> None:
    def rank(number: Any) -> tuple[int, Fraction]:
        if number != number:
            return (2, Fraction(0))
        if isinstance(number, float) and math.isinf(number):
            return (1 if number > 0 else -1, Fraction(0))
        return (0, Fraction(number))

    for op, compare in COMPARISONS.items():
        assert holds(compare(A, value), a=found) is compare(rank(found), rank(value)), op


def test_a_literal_int_of_any_size_survives() -> None:
    for value in (2**63, -(2**63) - 1, 10**5000):
        assert where_from((value == A).describe()) == (value == A)


def test_paths() -> None:
    assert parse_path("a.b.c", "key=") == ("a", "b", "c")
    assert reach({"a": {"b": 0}}, ("a", "b")) == 0
    assert reach({"a": None}, ("a", "b")) is None
    assert reach(7, ("a",)) is None
