"""Sets of a few contributions: membership, and the rest of both sides, agree with the results in columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import open_on
from penstock.mapreduce import TreeReduce, contribution_sets, small_trees
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Items, SourceKeys
from penstock.mapreduce.maps.emissions import Contributions, ContributionSources
from penstock.mapreduce.nodes.node_format import Cut
from tests.harness.planting import Bug
from tests.mapreduce.reducers.tree_shapes import few, texts, values_of

_GROUPS = 3
keys = st.one_of(few, texts, st.tuples(few, texts))
documents = st.dictionaries(keys, st.tuples(st.sets(st.integers(0, _GROUPS - 1)), values_of.flatmap(lambda of: of)))
side = st.dictionaries(st.tuples(st.integers(0, 2), keys, st.integers(0, 1)), st.one_of(few, texts, st.floats()))


def _app() -> ps.App:
    app = ps.App("shop")
    table = app.table("table", key="id")

    @table.view("view", reduce=ps.max())
    def _(doc: Any) -> Iterator[Any]:
        for group in doc["groups"]:
            yield from ((group, doc["value"]) for _ in range(1 + group))

    return app


def _told(own: Contributions) -> Any:
    """Return contributions as plain data, with floats by their bits."""
    assert own.sources is not None, "they are of a view that keeps them"
    keys, rank = own.sources.keys, own.sources.rank
    text = None if keys.text is None else keys.text[own.sources.index]
    columns = tuple(own.inputs.values())
    items = Items(own.code, np.zeros(own.n, np.uint64), keys.lane[own.sources.index], text, rank, columns)
    return own.code.tolist(), list(own.inputs), items.sources(), Cut(items, inner=False).parts(0, own.n)[2]


def _of_sources(docs: dict[Any, Any], asked: list[tuple[int, Any]]) -> None:
    engine, core = open_on(_app(), MemoryStore(), seed=7)
    with engine:
        for key, (groups, value) in docs.items():
            engine.put("table", {"id": key, "groups": sorted(groups), "value": value})
        node = core.views["view"]
        reduce = node.reduce
        assert isinstance(reduce, TreeReduce), "it keeps contributions"
        codes = [node.groups.code(group) for group in range(_GROUPS)]
        own = SourceKeys.of([key for _, key in asked])
        at = np.array([codes[group] for group, _ in asked], np.int64)
        named = Items(at, own.hashes(), own.lane, own.text, None, ())
        named = named.take(np.lexsort((named.at, named.node)))
        with core.store.read() as reader:
            found = [_told(_found(reduce, few, reader, node.groups, named)) for few in (1 << 10, 0)]
    assert found[0] == found[1]


def _found(reduce: TreeReduce, few: int, *asked: Any) -> Contributions:
    with patch.object(reduce, "_few", few):
        return reduce.of_sources(*asked)


@given(documents, st.data())
def test_what_is_there(docs: dict[Any, Any], data: st.DataObject) -> None:
    known = st.sampled_from(sorted(docs, key=repr)) if docs else keys
    asked = data.draw(st.sets(st.tuples(st.integers(0, _GROUPS - 1), st.one_of(known, keys)), min_size=1))
    with small_trees(data.draw(st.sampled_from([2, 64]))):
        _of_sources(docs, sorted(asked, key=repr))


def _side(own: dict[tuple[int, Any, int], Any]) -> Contributions:
    rank = np.array([rank for _, _, rank in own], np.int64)
    whose = ContributionSources(SourceKeys.of([key for _, key, _ in own]), np.arange(len(own)), rank)
    code = np.array([code for code, _, _ in own], np.int32)
    return Contributions(code, {("v",): Column.of(list(own.values()))}, whose)


def _both(came: dict[Any, Any], went: dict[Any, Any], few: int) -> Any:
    with patch.object(contribution_sets, "_FEW", few):
        return [_told(own) for own in contribution_sets._without_equal(_side(came), _side(went))]


def _agree(came: dict[Any, Any], went: dict[Any, Any]) -> None:
    assert _both(came, went, 1 << 10) == _both(came, went, -1)


@given(side, side, st.data())
def test_what_stays(came: dict[Any, Any], went: dict[Any, Any], data: st.DataObject) -> None:
    both = data.draw(st.sets(st.sampled_from(sorted(came, key=repr)))) if came else set()
    _agree(came, {**went, **{name: came[name] for name in both}})


BUGS = [
    Bug(
        "kinds are not told apart",
        "mapreduce.contribution_sets:_distinct_values",
        "(lane, kind, canonical",
        "(lane, 1, canonical",
    ),
    Bug("texts are all one", "mapreduce.contribution_sets:_distinct_values", "canonical(objects.get(i, True))", "b''"),
    Bug("groups are all one", "mapreduce.contribution_sets:_rows", "yield (code, source)", "yield (0, source)"),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_sees(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    here = (0, 1, 0)
    cases = [({here: 0}, {here: 0.0}), ({here: "a"}, {here: "b"}), ({here: 1}, {(1, 1, 0): 1})]
    assert not all(_both(*case, 1 << 10) == _both(*case, -1) for case in cases)


def test_it_sees_another_one_s_contribution(monkeypatch: pytest.MonkeyPatch) -> None:
    Bug("texts are all one", "mapreduce.columns.items:_names", "items.text.tolist()", "repeat(None)").plant(monkeypatch)
    with pytest.raises(AssertionError):
        _of_sources({"a": ({0}, 1), "b": ({0}, 2)}, [(0, "a")])
