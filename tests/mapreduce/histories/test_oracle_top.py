"""`ps.top` in the order of other fields equals the oracle through histories, and ORDER BY over DuckDB."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.cache import DefinitionError, canonical, unpack
from penstock.mapreduce import reducer_from
from tests.mapreduce.histories.reducer_histories import document, run

ORDERED = {
    "one": ps.top(2, "t", by="v"),
    "down": ps.top(2, "t", by="-v"),
    "mixed": ps.top(3, "id", by=["-v", "w", "-t"]),
    "paid": ps.top(3, "w", by=["t", "-w"], where="paid"),
    "plain": ps.top(2, "v"),
}


@pytest.mark.parametrize("seed", range(3))
def test_ordered_values_equal_the_oracle(seed: int) -> None:
    run(seed, ORDERED, partitions=2 if seed == 2 else None)


def test_an_order_means_the_same_as_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    choose = Random(5)
    docs = [document(choose, 1) | {"id": i, "n": i % 3} for i in range(60)]
    app = ps.App("ordered")
    app.table("docs", key="id").view("by", key="n", reduce={
        "mixed": ps.top(4, "id", by=["-v", "t"]), "one": ps.top(3, "t", by="w", where="paid"),
    })  # fmt: skip
    table = pa.table({name: [doc[name] for doc in docs] for name in ("id", "n", "v", "w", "t", "paid")})
    asked = """
        select n, list(id order by v desc nulls last, t nulls first, id)[1:4],
               list(t order by w nulls first, id) filter (paid and t is not null)[1:3]
        from docs group by n order by n
    """
    with ps.open(app, None) as engine, duckdb.connect() as sql:
        engine.put_many("docs", docs)
        sql.register("docs", table)
        with engine.snapshot() as snap:
            rows = [(group, *value.values()) for group, value in snap.view("by").items()]
        assert rows == sql.execute(asked).fetchall()


def test_a_large_group_has_the_order_of_all_its_documents() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("best", key=(), reduce=ps.top(5, "id", by=["-amount", "day"]))
    docs = [{"id": i, "amount": i % 7, "day": i * 31 % 11} for i in range(900)]
    with ps.open(app, None) as engine:
        for left in (docs, [doc for doc in docs if doc["amount"] < 6 or doc["day"] > 2]):
            engine.put_many("orders", left)
            for doc in docs:
                if doc not in left:
                    engine.delete("orders", doc["id"])
            wanted = sorted(left, key=lambda doc: (-doc["amount"], doc["day"], doc["id"]))[:5]
            with engine.snapshot() as snap:
                assert snap.view("best")[()] == [doc["id"] for doc in wanted]
        assert engine.check().ok


def test_wrong_orders_are_named() -> None:
    for wrong in ([], "", 5, ["-"], ["a", 1], {"a": 1}):
        with pytest.raises(DefinitionError, match=r"by= of top\(\)"):
            ps.top(2, "f", by=wrong)  # type: ignore[arg-type]
    for reducer in ORDERED.values():
        assert reducer_from(unpack(canonical(reducer.describe()))) == reducer
