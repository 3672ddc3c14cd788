"""Seeded histories of one table under some reducers, beside the oracle of the testing package.

Each history has inserts, updates, deletes, late records, and batches of one and of many records. Trees have tiny nodes.
The reducers are in a field view, in one that keeps contributions, in one over a nested value, and in a function view.
After each step every row equals the oracle's. At the end `check` finds nothing, and a store that takes the documents at
once has the same rows. Any reducer that depends on values alone has its result over the values that `why` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import penstock as ps
from penstock.mapreduce import small_trees
from penstock.recovery import identity
from penstock.testing.expected.expected_views import Oracle

Doc = dict[str, Any]
Reducers = Mapping[str, Any]
Made = Callable[[Random, int], Doc]
GROUPS = ["A", "A", "A", "B", None]
VIEWS = ["fields", "kept", "nested", "told"]
NUMBERS = [0, 1, 1, 2, 3, -7, 2.5, None]


def document(choose: Random, ts: int) -> Doc:
    """Return a document. Its fields are `v` and `w` (numbers), `t` (text), `paid` (a bool), each at times null."""
    doc = {
        "v": choose.choice(NUMBERS),
        "w": choose.choice(NUMBERS),
        "t": choose.choice(["x", "y", "z", None]),
        "paid": choose.choice([True, True, False, None]),
    }
    return {"id": choose.randrange(14), "g": choose.choice(GROUPS), "ts": ts, **doc, "in": dict(doc)}


NOT_B = ps.field("key") != "B"


def app_of(reducers: Reducers) -> ps.App:
    """Return an app with views that have these reducers."""
    app = ps.App("reduced")
    docs = app.table("docs", key="id", ts="ts")
    fields = docs.view("fields", key="g", reduce=reducers)
    if "only" not in {reducer.name for reducer in reducers.values()}:  # held rows show what they were
        some = {"n": ps.count(where=ps.field("key") != None), "rows": ps.collect(2, "value", where=NOT_B)}  # noqa: E711
        fields.view("chained", key=(), reduce=some)
    docs.view("kept", key="g", reduce=reducers, sources=True)
    docs.view("nested", key="g", value="in", reduce=reducers)

    @docs.view("told", reduce=reducers)
    def told(doc: Any) -> Iterator[Any]:
        yield doc["g"], doc["in"]
        if doc["v"] == 1:
            yield doc["g"], {**doc["in"], "v": 2}
            yield "A", {"paid": True}

    return app


def history(seed: int, made: Made = document) -> Iterator[list[ps.Record]]:
    """Yield batches of one and of many records."""
    choose, now = Random(seed), 0
    for _ in range(12):
        records: list[ps.Record] = []
        for _ in range(choose.choice([1, 1, 2, 3, 24])):
            now += 1
            doc = made(choose, now + choose.choice([0, 0, 0, -3, -9]))
            gone = choose.random() < 0.2
            records.append(ps.Record("docs", doc["id"], None if gone else doc, doc["ts"]))
        yield records


def run(seed: int, reducers: Reducers, made: Made = document, partitions: int | None = None) -> None:
    """Run one history. Raise AssertionError if a row is wrong."""
    app = app_of(reducers)
    oracle = Oracle(app)
    with small_trees(2 + seed % 3), ps.open(app, None, partitions=partitions) as engine:
        for records in history(seed, made):
            with engine.batch() as batch:
                for record in records:
                    if record.doc is None:
                        batch.delete("docs", record.key, ts=record.ts)
                    else:
                        batch.put("docs", record.doc)
            oracle.take(records)
            engine.settle()
            compare(engine, oracle)
        explained(engine, reducers)
        report = engine.check()
        assert report.ok, str(report)
        with ps.open(app_of(reducers), None) as fresh:
            fresh.put_many("docs", [doc for _, doc in oracle.tables["docs"].living()])
            with engine.snapshot() as own, fresh.snapshot() as other:
                for view in map(own.view, VIEWS):
                    held = {identity(row.key) for row in view.items() if row.held}  # their values depend on history
                    assert shown(other.view(view.name), held) == shown(view, held), view.name


def explained(engine: Any, reducers: Reducers) -> None:
    """Compare rows with the results over the values that `why` lists."""
    with engine.snapshot() as snap:
        for view in map(snap.view, VIEWS):
            for row in view.items():
                values = [] if row.held else [one.value for one in view.why(row.key)]
                for field, reducer in {} if row.held else reducers.items():
                    if reducer.name not in (
                        "first",
                        "last",
                        "collect",
                        "argmax",
                        "argmin",
                    ) and not reducer.describe().get("order"):
                        assert identity(reducer.over(values)) == identity(row.value[field]), (view, row, field, values)


def shown(view: Any, held: set[Any]) -> list[Any]:
    """Return the rows of a view in a form to compare, without those of the held groups."""
    return [(identity(group), identity(value)) for group, value in view.items() if identity(group) not in held]


def compare(engine: Any, oracle: Oracle) -> None:
    """Compare each row of each view with the oracle's."""
    with engine.snapshot() as snap:
        for view in oracle.app.views():
            expected = oracle.view(view.name)
            assert not expected.held, expected.held
            refused = {identity(row.group) for row in expected.rows.values() if row.refused}
            wanted = [(identity(g), identity(r)) for g, r in expected.sorted() if identity(g) not in refused]
            rows = list(snap.view(view.name).items())
            good = [(identity(group), identity(value)) for group, value in rows if identity(group) not in refused]
            assert good == wanted, view.name
            assert {identity(row.key) for row in rows if row.held} == refused, view.name
