"""Sums and means of distinct values equal the oracle through histories, and DISTINCT over DuckDB."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.cache import DefinitionError, canonical, unpack
from penstock.mapreduce import reducer_from
from tests.mapreduce.histories.reducer_histories import document, run

DISTINCT = {
    "total": ps.sum("v", distinct=True),
    "mean": ps.mean("v", distinct=True),
    "paid": ps.sum("w", distinct=True, where="paid"),
    "plain": ps.sum("v"),
    "kinds": ps.distinct("v"),
}
EQUAL: list[Any] = [1, 1.0, Decimal(1), Decimal("2.50"), 2.5, 1 << 70, 0.1, -3, 7, 11, 1e300, None, -0.0, 0]


def several(choose: Random, ts: int) -> dict[str, Any]:
    """Return a document whose `v` is often equal to a number of another type."""
    doc = document(choose, ts)
    v = choose.choice(EQUAL)
    return {**doc, "v": v, "in": {**doc["in"], "v": v}}


@pytest.mark.parametrize("seed", range(4))
def test_distinct_sums_equal_the_oracle(seed: int) -> None:
    run(seed, DISTINCT, several, partitions=2 if seed == 3 else None)


def test_distinct_sums_mean_the_same_as_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    choose = Random(5)
    docs = [document(choose, 1) | {"id": i, "n": i % 3} for i in range(80)]
    app = ps.App("distinct")
    app.table("docs", key="id").view("by", key="n", reduce=DISTINCT)
    table = pa.table({name: [doc[name] for doc in docs] for name in ("n", "v", "w", "paid")})
    asked = """
        select n, sum(distinct v), avg(distinct v), sum(distinct w) filter (paid), sum(v), count(distinct v)
        from docs group by n order by n
    """
    with ps.open(app, None) as engine, duckdb.connect() as sql:
        engine.put_many("docs", docs)
        sql.register("docs", table)
        with engine.snapshot() as snap:
            rows = [(group, *value.values()) for group, value in snap.view("by").items()]
        assert rows == sql.execute(asked).fetchall()


def test_a_large_group_follows_its_values() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("sums", key=(), reduce={"total": ps.sum("v", distinct=True), "mean": ps.mean("v", distinct=True)})
    docs = {i: {"id": i, "v": i * 7 % 300 / 4} for i in range(900)}
    with ps.open(app, None) as engine:
        engine.put_many("orders", list(docs.values()))
        for key in range(0, 900, 5):
            docs[key] = {"id": key, "v": key % 9}
        engine.put_many("orders", [docs[key] for key in range(0, 900, 5)])
        for key in (1, 301, 601):
            engine.delete("orders", key)
            del docs[key]
        values = {doc["v"] for doc in docs.values()}
        with engine.snapshot() as snap:
            assert snap.view("sums")[()] == {"total": sum(values), "mean": sum(values) / len(values)}
        assert engine.check().ok


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"distinct= of sum\(\) is 1; write True"):
        ps.sum("v", distinct=1)  # type: ignore[arg-type]
    assert ps.sum(distinct=True).over([1, 1.0, 2, None]) == 3
    assert ps.mean(distinct=True).over([]) is None
    for reducer in DISTINCT.values():
        assert reducer_from(unpack(canonical(reducer.describe()))) == reducer
