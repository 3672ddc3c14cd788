"""A function yields the same over a block as document by document, with any number of items, and errors anywhere.

An oracle in plain Python sorts the contributions of each document; bugs planted in the sorting must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import canonical, encode_key, order_key
from penstock.mapreduce import FunctionMapper
from penstock.mapreduce.columns.group_codes import Groups
from tests.harness.planting import Bug

ITEMS = st.one_of(
    st.sampled_from(["a", "b", 1, None]), st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2.5, "x"]))
)
# The items that a function yields for a document, and the number of items before it raises, if it does.
DOCS = st.lists(
    st.one_of(
        ITEMS.map(lambda item: ([item], None)),  # the usual case
        st.tuples(st.lists(ITEMS, max_size=4), st.sampled_from([None, None, None, 0, 1, 2, 3])),
    ),
    max_size=30,
)
Doc = tuple[list[Any], int | None]


def generator(doc: Doc) -> Iterator[Any]:
    items, fails = doc
    for i, item in enumerate(items):
        if i == fails:
            raise ValueError(f"at {i}")
        yield item
    if fails is not None:
        raise KeyError(len(items))


def listing(doc: Doc) -> list[Any] | None:
    if doc[1] is not None:
        raise StopIteration(doc[1])
    return list(doc[0]) or None


def lazy(doc: Doc) -> Iterator[Any]:
    return iter(list(generator(doc)))


@pytest.mark.parametrize("function", [generator, listing, lazy])
@given(docs=DOCS)
def test_a_block_is_its_documents(function: Callable[[Doc], Any], docs: list[Doc]) -> None:
    mapper, groups = FunctionMapper("view", function, ()), Groups()
    whole, held = mapper.run(docs, groups)
    assert whole.documents == len(docs)
    for i, doc in enumerate(docs):
        own, hold = mapper.run([doc], groups)
        assert whole.pairs(i, groups) == own.pairs(0, groups)
        assert (i in held) == bool(hold)
        if hold:
            assert held[i].reason == hold[0].reason


@pytest.mark.parametrize("function", [lambda: None, generator])
def test_one_that_takes_something_else_holds_every_document(function: Callable[..., Any]) -> None:
    docs: list[Any] = [7, 8, 9]
    emissions, held = FunctionMapper("view", function, ()).run(docs, Groups())
    assert sorted(held) == [0, 1, 2]
    assert all("TypeError" in hold.reason for hold in held.values())
    assert emissions.code.size == 0


def test_a_function_is_run_once_for_a_document() -> None:
    runs: list[int] = []

    def view(doc: int) -> Iterator[Any]:
        runs.append(doc)
        yield from ("a",) * (doc % 3)
        if doc % 5 == 0:
            raise ValueError

    FunctionMapper("view", view, ()).run(list(range(1_200)), Groups())
    assert runs == list(range(1_200))


PARTS = ["a", "é", "", "x" * 500, 0, 1, 1.0, True, -0.0, 0.5, float("nan"), None, b"a", 2**70, ("a", 1), ("a", True)]
GROUPS = st.sampled_from(PARTS) | st.lists(st.sampled_from(PARTS), max_size=2).map(tuple)
PLAIN_GROUPS = st.tuples(st.sampled_from("ab"), st.integers(0, 3)) | st.sampled_from(["a", "é", 7, ()])
VALUES = [
    st.integers(-2, 2),
    st.none() | st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1, 2.5, float("nan"), float("inf")]),
    st.sampled_from(["b", "a", True, False, 1, 1.0, None, Decimal("1.0"), Decimal("1.00"), 2**64, [1], {"a": 1}]),
]
MANY = st.sampled_from(VALUES).flatmap(
    lambda values: st.lists(st.lists(st.tuples(GROUPS | PLAIN_GROUPS, values), max_size=12), max_size=8)
)


def rows_of(docs: list[list[tuple[Any, Any]]]) -> list[list[tuple[bytes, bytes]]]:
    """Return the emissions of a function that yields these pairs, each value by its canonical bytes."""
    groups = Groups()
    for known in "cba":  # of an earlier batch
        groups.code(known)
    emissions, held = FunctionMapper("view", lambda doc: doc, ()).run(docs, groups)
    assert not held
    return [[(group, canonical(value)) for group, value in row] for row in emissions.pairs_of_each(groups)]


def expected(docs: list[list[tuple[Any, Any]]]) -> list[list[tuple[bytes, bytes]]]:
    ordered = [sorted(((encode_key(g), v) for g, v in doc), key=lambda p: (p[0], order_key(p[1]))) for doc in docs]
    return [[(group, canonical(value)) for group, value in row] for row in ordered]


@given(MANY)
def test_the_contributions_of_each_document_are_sorted(docs: list[list[tuple[Any, Any]]]) -> None:
    assert rows_of(docs) == expected(docs)


@given(st.lists(st.lists(PLAIN_GROUPS | st.tuples(PLAIN_GROUPS, st.integers(0, 2)), max_size=12), max_size=8))
def test_groups_without_values_stand_among_pairs(docs: list[list[Any]]) -> None:
    plain = [[item for item in doc if type(item) is not tuple or len(item) == 2] for doc in docs]
    pairs = [[item if type(item) is tuple else (item, None) for item in doc] for doc in plain]
    groups = Groups()
    emissions, held = FunctionMapper("view", lambda doc: doc, ()).run(plain, groups)
    assert not held
    found = [[(group, canonical(value)) for group, value in row] for row in emissions.pairs_of_each(groups)]
    assert found == expected(pairs)


@given(st.lists(st.lists(GROUPS | PLAIN_GROUPS, min_size=2, max_size=12), min_size=5, max_size=8))
def test_codes_do_not_follow_the_order_of_a_set(docs: list[list[Any]]) -> None:
    def codes(shown: list[list[Any]]) -> list[bytes]:
        groups = Groups()
        FunctionMapper("view", lambda doc: [(group, 1) for group in doc], ()).run(shown, groups)
        return [groups.whole(code) for code in range(groups.size)]

    assert codes(docs) == codes([doc[::-1] for doc in docs])


FIXED: list[list[tuple[Any, Any]]] = [
    [("b", -2), ("a", 1), ("b", 1), ("c", None), ("b", None)],
    [(("a", 1), 1), (("a", True), 2), (("a", 1), -1), (("B", 0), 3)],
    [("b", 0), (("a", 1), 0), (("a", 1.0), -3)],
]
MIXED: list[list[tuple[Any, Any]]] = [[("a", "x"), ("a", 2), ("b", 1), ("a", 1.5)], [("b", "y")] * 5 + [("b", None)]]
BUGS = [
    Bug(
        "groups stand in the order in which they came",
        "mapreduce.maps.emissions:sorted_emissions",
        "| rank[local]",
        "| local",
    ),
    Bug(
        "values of one group stand as they came",
        "mapreduce.maps.emissions:sorted_emissions",
        "if equal.any():",
        "if False:",
    ),
    Bug(
        "the last of some values of one group stands apart",
        "mapreduce.maps.emissions:sorted_emissions",
        "np.append(equal, False) | np.append(False, equal)",
        "np.append(equal, False)",
    ),
    Bug("a null sorts as the int 0", "mapreduce.maps.emissions:_by_value", "values.kinds(), place", "place"),
    Bug(
        "values of one group sort in all groups together",
        "mapreduce.maps.emissions:_by_value",
        "zip(place.tolist(), map(order_key, values.values()), strict=True)",
        "zip(map(order_key, values.values()), place.tolist())",
    ),
    Bug(
        "true is 1 within a tuple",
        "mapreduce.columns.group_codes:_all_plain",
        "| set(map(type, chain.from_iterable(tuples)))",
        "",
    ),
]


def test_fixed_documents_are_sorted() -> None:
    assert rows_of(FIXED) == expected(FIXED)
    assert rows_of(MIXED) == expected(MIXED)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert rows_of(FIXED) != expected(FIXED) or rows_of(MIXED) != expected(MIXED)
