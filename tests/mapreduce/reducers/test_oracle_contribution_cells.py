"""Cells without an inverse: a tree of any shape gives the result of a single node, and of the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import penstock as ps
from penstock.cache import canonical
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.views import ReduceFunction
from tests.mapreduce.reducers.histories import seeds
from tests.mapreduce.reducers.tree_shapes import Item, contributions, packed_spill, partial_of, state_of
from tests.oracle import ordered
from tests.oracle.values import identity


class Bag:
    """All values, sorted by their bytes. It changes its arguments, and returns them."""

    def zero(self) -> list[Any]:
        return []

    def lift(self, value: Any) -> list[Any]:
        lifted = [canonical(value)]
        if isinstance(value, dict | list):
            value.clear()
        return lifted

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        a.extend(b)
        b.append(b"spoilt")
        return sorted(a)

    def result(self, a: list[Any]) -> dict[str, Any]:
        shown = {"n": len(a), "all": b"".join(a)}
        a.clear()
        return shown


class Longest:
    """The longest text. Its results differ from its accumulators."""

    zero = ""

    def lift(self, value: Any) -> str:
        return canonical(value).hex()

    def merge(self, a: str, b: str) -> str:
        return max(a, b, key=lambda text: (len(text), text))


def rows(values: list[Any], rereduce: bool) -> Any:
    """Return the number of rows, in the style of CouchDB."""
    return sum(values) if rereduce else len(values)


def pairs(keys: list[Any] | None, values: list[Any], rereduce: bool) -> Any:
    """Return all its input, sorted."""
    told = [pair for value in values for pair in value] if rereduce else []
    for key, value in zip(keys or (), values, strict=False):
        told.append([key, canonical(value)])
        if isinstance(value, dict | list):
            value.clear()
    values.clear()
    return sorted(told, key=canonical)


REDUCERS: list[tuple[Any, Any]] = [
    (ps.max("v"), ordered.Max("v")),
    (ps.min("v"), ordered.Min("v")),
    (ps.top(3, "v"), ordered.Top("v", 3)),
    (ps.top(100, "v"), ordered.Top("v", 100)),
    (ps.bottom(1, "v"), ordered.Bottom("v", 1)),
    (ps.bottom(4, "v"), ordered.Bottom("v", 4)),
    (ps.collect(3, "v"), ordered.Collect("v", 3)),
    (ps.collect(100, "v"), ordered.Collect("v", 100)),
    (ps.first("v"), ordered.First("v")),
    (ps.last("v"), ordered.Last("v")),
    (ps.first("v", by="by"), ordered.First("v", "by")),
    (ps.last("v", by="by"), ordered.Last("v", "by")),
    (ps.monoid(Bag(), "v"), ordered.Monoid("v", Bag())),
    (ps.monoid(Longest(), "v"), ordered.Monoid("v", Longest())),
    (resolved([ReduceFunction(rows, False)])[0], ordered.Function(None, rows)),
    (resolved([ReduceFunction(pairs, True)])[0], ordered.Function(None, pairs, True)),
]
every = pytest.mark.parametrize(("reducer", "spec"), REDUCERS, ids=lambda r: getattr(r, "name", None) or "")


@every
@settings(max_examples=80)
@given(items=contributions(), random=seeds)
def test_a_tree_of_any_shape(reducer: Any, spec: Any, items: list[Item], random: Random) -> None:
    cell = reducer.cells[0]
    state = state_of(cell, items, random)
    assert packed_spill(state) == packed_spill(state_of(cell, items))
    assert cell.failed(partial_of(cell, items, random)) is None
    if items:
        assert identity(reducer.result(len(items), [state])) == identity(spec.fold([item.given() for item in items]))
    else:
        assert state == ((), None)


@every
@given(items=contributions(), random=seeds)
def test_of_partials_that_were_stored(reducer: Any, spec: Any, items: list[Item], random: Random) -> None:
    partial = partial_of(reducer.cells[0], items, random, stored=True)
    assert canonical(partial) == canonical(partial_of(reducer.cells[0], items))


@every
@given(one=contributions(), two=contributions())
def test_two_groups_together(reducer: Any, spec: Any, one: list[Item], two: list[Item]) -> None:
    """The sources of the two groups differ here, as in one group."""
    cell = reducer.cells[0]
    others = [Item(item.value, item.by, (item.key, "two"), item.number, item.ts) for item in two]
    together = cell.merge(state_of(cell, one), state_of(cell, others))
    assert packed_spill(together) == packed_spill(state_of(cell, [*one, *others]))


CHOOSING = [ps.first("v"), ps.last("v"), ps.first("v", by="by"), ps.last("v", by="by"), ps.collect(5, "v")]


@pytest.mark.parametrize("reducer", CHOOSING, ids=lambda r: r.name)
@given(items=contributions(), random=seeds)
def test_one_source_in_two_groups(reducer: Any, items: list[Item], random: Random) -> None:
    """The order of the two groups makes no difference."""
    cell = reducer.cells[0]
    halves: tuple[list[Item], list[Item]] = ([], [])
    for item in items:
        own = halves[random.randrange(2)]
        own.append(Item(item.value, item.by, 1, len(own), item.ts))
    one, two = (state_of(cell, half) for half in halves)
    results = [reducer.result(len(items), [cell.merge(*states)]) for states in ((one, two), (two, one))]
    assert identity(results[0]) == identity(results[1])
