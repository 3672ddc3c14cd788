"""A function yields the same over a block as document by document, with any number of items, and errors anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.mapreduce import FunctionMapper
from penstock.mapreduce.columns.group_codes import Groups

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
