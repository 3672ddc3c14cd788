"""A backfill and the engine, one record after the other, give equal stores: every row, every node, the digest.

Histories cover all tables and views of two apps: every merge with and without ts, deletions, late records and ties.
They also cover tuple keys, long and short groups, nulls, every reducer, and views on views. The tests need pyspark and
Java (`conftest.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import canonical
from penstock.spark import backfill
from tests.harness.worlds import RICH, World
from tests.mapreduce.trees.tree_histories import KEYS, document
from tests.mapreduce.trees.tree_worlds import TREES
from tests.oracle.tables import BROKER
from tests.spark.both import agreed, in_small_parts, one_by_one, same, topic

NAMES: list[Any] = ["Sue", "Joe", "Bob", "é", "日本", "x" * 450, "x" * 450 + "b"]
AMOUNTS: list[Any] = [0, 1, -7, 0.1, 0.2, 1e300, -1e300, 5e-324, 1 << 62, -(1 << 63), 1 << 64, None]
FIELDS: dict[str, list[Any]] = {
    "amount": AMOUNTS,
    "paid": [True, True, False, None],
    "tags": [["red"], ["a", "a", 1], []],
}


def rich_record(choose: Random, n: int) -> ps.Record:
    """Return a record of one of the tables of `RICH`; at most one in four is a deletion."""
    table = choose.choice(RICH.tables)
    doc: dict[str, Any] = {"id": choose.choice([*range(12), "a", "é", True, 2.5, 1 << 70])}
    doc["org"] = {"name": choose.choice(["x", "y"])}
    doc["name"] = choose.choice(NAMES)
    for name, values in {
        "amount": AMOUNTS,
        "paid": [True, True, False, None],
        "tags": [["red"], ["a", "a", 1], []],
    }.items():
        if choose.random() < 0.7:
            doc[name] = choose.choice(values)
    if table.ts and table.ts != BROKER:
        doc[table.ts] = n + choose.choice([0, 0, 0, -1, -5])
    ts = n + choose.choice([0, -3]) if table.ts == BROKER else None
    key = doc["id"] if isinstance(table.key, str) else (doc["id"], doc["org"]["name"])
    gone = choose.random() < 0.2
    return ps.Record(table.name, key, None if gone else doc, ts=ts, offset=n)


def tree_record(choose: Random, n: int) -> ps.Record:
    """Return a record of one of the tables of `TREES`. Most are in one group, so it has a tree of several levels."""
    table = choose.choice(TREES.tables)
    doc = document(table.name, choose, n + choose.choice([0, 0, -2]), wrong=False)
    doc["id"] = choose.choice([*KEYS, *range(20, 140)])
    gone = choose.random() < 0.1
    return ps.Record(table.name, doc["id"], None if gone else json.loads(json.dumps(doc)), offset=n)


def both(spark: Any, app: ps.App, records: list[ps.Record]) -> None:
    tables = dict.fromkeys(record.table for record in records)
    with TemporaryDirectory() as folder, one_by_one(app, records) as engine:
        given = {name: topic(spark, [r for r in records if r.table == name]) for name in tables}
        done = backfill(app, Path(folder) / "store", spark=spark, tables=given)
        assert done.rejected == 0
        same(app, engine, Path(folder) / "store")


@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_every_merge_and_accumulator(spark: Any, seed: int) -> None:
    choose = Random(seed)
    both(spark, RICH.app(), [rich_record(choose, n) for n in range(1, 200)])


@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_every_tree(spark: Any, seed: int) -> None:
    choose = Random(seed)
    both(spark, TREES.app(), [tree_record(choose, n) for n in range(1, 500)])


@settings(max_examples=12, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32), size=st.sampled_from([1, 40, 160]), world=st.sampled_from([RICH, TREES]))
def test_every_history_whose_tasks_run_in_the_test(seed: int, size: int, world: World) -> None:
    choose, make = Random(seed), rich_record if world is RICH else tree_record
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        in_small_parts(patch)
        agreed(patch, Path(folder), world.app(), [make(choose, n) for n in range(1, size + 1)])


UNORDERED = "id int, ts int, name string, amount double, org struct<name: string>"


@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_records_without_order_are_those_in_the_order_of_their_bytes(spark: Any, seed: int) -> None:
    choose = Random(seed)
    app = RICH.app()
    tables = ("users", "orders", "profiles", "plain")
    docs = {
        name: [
            {
                "id": choose.randrange(9),
                "ts": choose.randrange(4),
                "name": choose.choice(["Sue", "Joe", "é"]),
                "amount": choose.choice([1.0, 0.5, None]),
                "org": {"name": choose.choice(["x", "y"])},
            }
            for _ in range(80)
        ]
        for name in tables
    }
    with TemporaryDirectory() as folder, ps.open(app, None) as engine:
        for name, rows in docs.items():
            for row in sorted(rows, key=canonical):
                engine.put(name, row)
        frames = {name: spark.createDataFrame(rows, UNORDERED) for name, rows in docs.items()}
        done = backfill(app, Path(folder) / "store", spark=spark, tables=frames)
        assert done.ties
        same(app, engine, Path(folder) / "store")
