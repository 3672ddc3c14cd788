"""Reducers with one value of a group equal the oracle through histories, and SQL over DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.cache import DefinitionError, PenstockError, canonical, unpack
from penstock.mapreduce import reducer_from
from tests.mapreduce.histories.reducer_histories import document, run

PAID = ps.field("paid")
TRUTHS = {"all": ps.all("paid"), "any": ps.any("paid"), "some": ps.any("paid", where=ps.field("v") > 0)}
CHOICES = {
    "far": ps.argmax("t", by="v"),
    "near": ps.argmin("t", by="v"),
    "most": ps.argmax("w", by="t", where=PAID),
    "which": ps.argmax("id", by="w"),
    "truth": ps.all("paid", where=ps.field("v") > 0),
}
ONLY = {"kind": ps.only("kind"), "n": ps.count()}
NULLS = {
    "some": ps.collect(3, "t", nulls=True),
    "paid": ps.collect(3, "t", nulls=True, where=PAID),
    "first": ps.first("t", nulls=True),
    "last": ps.last("t", by="v", nulls=True),
    "late": ps.last("w", by="t", nulls=True, where=PAID),
}


def rarely(choose: Random, ts: int) -> dict[str, Any]:
    """Return a document with a `kind` that seldom differs from the others of its group, and 1 is 1.0."""
    doc = document(choose, ts)
    kind = choose.choice([1, 1, 1.0, Decimal(1), None, None, None, *([2] if choose.random() < 0.3 else [])])
    return {**doc, "kind": kind, "in": {**doc["in"], "kind": kind}}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("reducers", [TRUTHS, CHOICES, NULLS], ids=["truths", "choices", "nulls"])
def test_single_values_equal_the_oracle(seed: int, reducers: dict[str, Any]) -> None:
    run(seed, reducers, partitions=2 * seed or None)


@pytest.mark.parametrize("seed", range(4))
def test_a_group_with_different_values_is_held_until_one_is_left(seed: int) -> None:
    run(seed, ONLY, rarely, partitions=2 if seed == 3 else None)


def test_single_values_mean_the_same_as_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    choose = Random(3)
    docs = [document(choose, 1) | {"id": i, "n": i % 6} for i in range(60)]
    for i, doc in enumerate(docs):
        doc["since"] = None if i % 7 == 0 else (i * 37) % 61
    reducers = {
        "all": ps.all("paid"),
        "any": ps.any("paid"),
        "some": ps.any("paid", where=ps.field("v") > 1),
        "far": ps.argmax("t", by="since"),
        "near": ps.argmin("w", by="since", where=ps.field("v") > 0),
        "list": ps.collect(100, "t", nulls=True),
    }
    app = ps.App("single")
    app.table("docs", key="id").view("by", key="n", reduce=reducers)
    table = pa.table({name: [doc[name] for doc in docs] for name in ("id", "n", "v", "w", "t", "paid", "since")})
    asked = """
        select n, bool_and(paid), bool_or(paid), bool_or(paid) filter (v > 1), arg_max(t, since),
               arg_min(w, since) filter (v > 0), list(t order by id)
        from docs group by n order by n
    """
    with ps.open(app, None) as engine, duckdb.connect() as sql:
        engine.put_many("docs", docs)
        sql.register("docs", table)
        with engine.snapshot() as snap:
            rows = [(group, *value.values()) for group, value in snap.view("by").items()]
        assert rows == sql.execute(asked).fetchall()


def test_ties_go_to_the_least_key() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("best", key=(), reduce={"max": ps.argmax("id", by="at"), "min": ps.argmin("id", by="at")})
    with ps.open(app, None) as engine:
        engine.put_many("orders", [{"id": i, "at": 1.0 if i % 2 else 1} for i in (7, 3, 5, *range(10, 60))])
        with engine.snapshot() as snap:
            assert snap.view("best")[()] == {"max": 3, "min": 3}
        engine.delete("orders", 3)
        with engine.snapshot() as snap:
            assert snap.view("best")[()] == {"max": 5, "min": 5}


@pytest.mark.parametrize("sources", [False, True])
def test_a_value_that_is_no_bool_holds_its_document(sources: bool) -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("paid", key="user", reduce=ps.all("paid"), sources=sources)

    @orders.view(reduce=ps.any())
    def told(doc: Any) -> Iterator[Any]:
        yield doc["user"], doc["paid"]

    with ps.open(app, None) as engine:
        assert engine.put("orders", {"id": 1, "user": "Sue", "paid": 1}).held == 1
        many = [{"id": i, "user": "Sue", "paid": [True, False, None, "yes", 0.5][i % 5]} for i in range(2, 40)]
        assert engine.put_many("orders", many).held == 16
        with engine.snapshot() as snap:
            reason = "view 'paid' reads 'paid' as a bool and finds 1 (int); put the document again with true, false"
            assert reason in next(hold for hold in snap.holds("paid") if hold["key"] == 1)["reason"]
            own = next(hold for hold in snap.holds("told") if hold["key"] == 1)
            assert "view 'told' yielded 1 (int) where a reducer reads its value as a bool; yield True" in own["reason"]
            assert len(snap.holds("paid")) == len(snap.holds("told")) == 17
            assert (snap.view("paid")["Sue"], snap.view("told")["Sue"]) == (False, True)
        assert engine.check().ok


def test_a_held_group_keeps_its_last_value_and_says_why() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("country", key="user", reduce=ps.only("address.country"))
    with ps.open(app, None) as engine:
        engine.put("orders", {"id": 1, "user": "Sue", "address": {"country": "NO"}})
        engine.put("orders", {"id": 2, "user": "Sue", "address": {"country": "SE"}})
        with engine.snapshot() as snap:
            row = snap.view("country").row("Sue")
            assert (row.value, row.held) == ("NO", True)
        [entry] = engine.quarantine()
        assert "only() reads 'address.country' and finds 'NO' (str) and 'SE' (str)" in entry.reason
        engine.delete("orders", 1)
        with engine.snapshot() as snap:
            row = snap.view("country").row("Sue")
            assert (row.value, row.held) == ("SE", False)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(DefinitionError, match=r"by= of argmax\(\)"):
        ps.argmax("f", by=None)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match=r"nulls= of collect\(\) is 1; write True"):
        ps.collect(1, nulls=1)  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="takes true and false"):
        ps.all("paid").over([{"paid": 1}])
    with pytest.raises(PenstockError, match=r"only\(\) reads its values and finds 1"):
        ps.only().over([1, 2])
    for reducer in {**TRUTHS, **CHOICES, **ONLY, **NULLS}.values():
        assert reducer_from(unpack(canonical(reducer.describe()))) == reducer
