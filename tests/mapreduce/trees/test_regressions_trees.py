"""Former faults of reduce trees, each as it appeared to users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as ps
from penstock.mapreduce import small_trees
from tests.mapreduce.trees.tree_histories import faults_of, nodes_of

MANY = 40  # more than a row holds


def documents(n: int, **fields: Any) -> list[dict[str, Any]]:
    """Return this number of documents of one group."""
    return [{"id": i, "g": "A", **fields} for i in range(n)]


def test_a_document_whose_contributions_stay_changes_no_tree() -> None:
    """The fault: the batch was searched for the group of such a document, which was not there."""
    app = ps.App("same")
    table = app.table("t", key="id")
    table.view("few", key="own", reduce={"n": ps.count(), "max": ps.max("v")})
    table.view("many", key="g", value="v", reduce=ps.max())
    with ps.open(app, None) as engine:
        engine.put_many("t", [doc | {"own": doc["id"], "v": doc["id"]} for doc in documents(MANY)])
        engine.put("t", {"id": 3, "g": "A", "own": 3, "v": 3, "other": 1})
        engine.put_many("t", [{"id": i, "g": "A", "own": i, "v": 2 * i - 2, "other": 2} for i in (1, 2)])
        with engine.snapshot() as snap:
            assert snap.view("many")["A"] == MANY - 1
            assert snap.view("few").get_many([1, 2, 3]) == [{"n": 1, "max": value} for value in (0, 2, 3)]
        assert not faults_of(engine)


def test_a_row_of_an_index_says_that_its_document_is_held() -> None:
    """The fault: held groups were named by their own keys, which no row of an index has."""

    def halves(doc: dict[str, Any]) -> Iterator[Any]:
        for value in doc["vs"]:
            yield "A", value

    app = ps.App("index")
    app.table("t", key="id").view("halves", reduce=None)(halves)
    with ps.open(app, None) as engine:
        engine.put_many("t", [{"id": i, "vs": [1, 2]} for i in (1, 2)])
        assert engine.put("t", {"id": 2}).held == 1
        with engine.snapshot() as snap:
            rows = {row.key: row.held for row in snap.view("halves").items()}
    assert rows == {("A", 1, 0): False, ("A", 1, 1): False, ("A", 2, 0): True, ("A", 2, 1): True}


def test_values_that_all_become_null_while_their_group_gets_nodes() -> None:
    """The fault: nothing was added to its trees of values, so the row continued to show former values."""
    app = ps.App("nulls")
    answers = {"n": ps.distinct("v"), "q": ps.quantiles([0.5], "v")}
    app.table("t", key="id").view("spread", key="g", reduce=answers)
    with ps.open(app, None) as engine:
        engine.put_many("t", documents(3, v=7))
        engine.put_many("t", documents(MANY, v=None))
        with engine.snapshot() as snap:
            assert snap.view("spread")["A"] == {"n": 0, "q": None}
        assert not faults_of(engine)


def test_a_tree_of_values_that_emptied_leaves_no_trace() -> None:
    """The fault: the row stored a count of 0 distinct values, but a row that never had values stores none."""
    rows = []
    for first in (5, None):
        app = ps.App("trace")
        app.table("t", key="id").view("both", key="g", reduce={"v": ps.distinct("v"), "w": ps.distinct("w")})
        with ps.open(app, None) as engine:
            engine.put_many("t", documents(MANY, v=1, w=first))
            engine.put_many("t", documents(MANY, v=1, w=None))
            assert not faults_of(engine)
            rows.append(nodes_of(engine))
    assert rows[0] == rows[1]


def test_a_group_of_any_size_gets_nodes_and_loses_them() -> None:
    """Pass each size around the capacity, one source at a time, up and down."""
    app = ps.App("edge")
    app.table("t", key="id").view("all", key="g", value="v", reduce={"q": ps.quantiles([0, 1]), "top": ps.top(2)})
    with small_trees(capacity=2, most_items=3), ps.open(app, None) as engine:
        seen = []
        for i in range(9):
            engine.put("t", {"id": i, "g": "A", "v": i})
            seen.append(len(nodes_of(engine)["all, nodes"]))
            assert not faults_of(engine)
        for i in range(9):
            engine.delete("t", i)
            assert not faults_of(engine)
            with engine.snapshot() as snap:
                left = {"q": [i + 1, 8], "top": [8, 7][: 8 - i]} if i < 8 else None
                assert snap.view("all").get("A") == left
        assert seen[:2] == [0, 0]
        assert min(seen[2:]) > 0
        assert nodes_of(engine) == {"all": {}, "all, nodes": {}}
