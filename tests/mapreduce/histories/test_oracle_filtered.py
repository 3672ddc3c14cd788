"""Reducers with a condition of their own equal the oracle through histories, and SQL's FILTER over DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.cache import DefinitionError, canonical, unpack
from penstock.mapreduce import reducer_from
from tests.mapreduce.histories.reducer_histories import document, run


class Longest:
    """A user's monoid and invertible reducer: the sum of the lengths of texts."""

    zero = 0

    def lift(self, value: object) -> int:
        return len(str(value))

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


PAID = ps.field("paid") == True  # noqa: E712
SUMS = {
    "all": ps.count(),
    "n": ps.count(where=PAID),
    "some": ps.count("v", where=PAID),
    "total": ps.sum("v", where="paid"),
    "due": ps.sum("v", where=~PAID),
    "plain": ps.sum("v"),
    "mean": ps.mean("w", where=ps.field("v") > 0),
    "var": ps.variance("v", where=ps.field("t") == "x"),
    "dev": ps.stddev("v", where=(ps.field("t") == "x") | (ps.field("w") < 0)),
    "bins": ps.histogram([0, 2], "v", where=ps.field("t") != None),  # noqa: E711
    "own": ps.group(Longest(), "t", where=PAID),
}
TREES = {
    "least": ps.min("v", where=PAID),
    "most": ps.max("v", where=ps.field("w") >= 1),
    "top": ps.top(2, "v", where=PAID),
    "bottom": ps.bottom(2, "v", where=PAID),
    "some": ps.collect(3, "t", where=PAID),
    "first": ps.first("t", where=PAID),
    "last": ps.last("t", by="v", where=PAID),
    "kinds": ps.distinct("v", where=PAID),
    "middle": ps.quantiles([0.5], "v", where=PAID),
    "own": ps.monoid(Longest(), "t", where=PAID),
    "n": ps.count(where=PAID),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("reducers", [SUMS, TREES], ids=["sums", "trees"])
def test_reducers_under_conditions_equal_the_oracle(seed: int, reducers: dict[str, Any]) -> None:
    run(seed, reducers, partitions=2 * seed or None)


def test_conditions_mean_the_same_as_filter_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    docs = [document(Random(seed), seed) | {"id": seed, "n": seed % 5} for seed in range(60)]
    app = ps.App("filtered")
    reducers = {
        "n": ps.count(where="paid"),
        "some": ps.count("v", where=ps.field("paid") == None),  # noqa: E711
        "total": ps.sum("v", where=ps.field("w") > 0),
        "mean": ps.mean("v", where=ps.field("t") == "x"),
        "most": ps.max("v", where=(ps.field("t") == "x") | (ps.field("n") >= 3)),
        "none": ps.sum("v", where=ps.field("n") > 100),
    }
    app.table("docs", key="id").view("by", key="n", reduce=reducers)
    table = pa.table({name: [doc[name] for doc in docs] for name in ("n", "v", "w", "t", "paid")})
    asked = """
        select n, count(*) filter (paid), count(v) filter (paid is null), sum(v) filter (w > 0),
               avg(v) filter (t = 'x'), max(v) filter (t = 'x' or n >= 3), sum(v) filter (n > 100)
        from docs group by n order by n
    """
    with ps.open(app, None) as engine, duckdb.connect() as sql:
        engine.put_many("docs", docs)
        sql.register("docs", table)
        with engine.snapshot() as snap:
            rows = [(group, *value.values()) for group, value in snap.view("by").items()]
        assert rows == sql.execute(asked).fetchall()


def test_a_group_exists_although_its_condition_keeps_nothing() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    reducers = {"n": ps.count(where="paid"), "total": ps.sum("amount", where="paid"), "all": ps.count()}
    orders.view("sums", key="user", reduce=reducers)
    with ps.open(app, None) as engine:
        engine.put("orders", {"id": 1, "user": "Sue", "amount": 5, "paid": False})
        with engine.snapshot() as snap:
            assert dict(snap.view("sums")["Sue"]) == {"n": 0, "total": None, "all": 1}
        engine.delete("orders", 1)
        with engine.snapshot() as snap:
            assert snap.view("sums").get("Sue") is None


def test_only_a_value_that_the_condition_keeps_holds_its_document() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("sums", key="user", reduce=ps.sum("amount", where="paid"))
    orders.view("kept", key="user", reduce=ps.sum("amount", where="paid"), sources=True)

    @orders.view(reduce=ps.sum("amount", where="paid"))
    def told(doc: Any) -> Iterator[Any]:
        yield doc["user"], doc

    with ps.open(app, None) as engine:
        wrong = {"id": 1, "user": "Sue", "amount": "much", "paid": False}
        assert engine.put("orders", wrong).held == 0
        many = [{**wrong, "id": i, "paid": i == 7} for i in range(2, 30)]
        assert engine.put_many("orders", many).held == 1
        assert engine.put("orders", {**wrong, "id": 1, "paid": True}).held == 1
        with engine.snapshot() as snap:
            for view in "sums", "kept":
                assert sorted(hold["key"] for hold in snap.holds(view)) == [1, 7]
                reason = f"view '{view}' reads 'amount' as a number and finds 'much' (str); put the document again"
                assert reason in snap.holds(view)[0]["reason"]
            assert "where a reducer reads 'amount' as a number" in snap.holds("told")[0]["reason"]


def test_a_reducer_of_the_value_itself_takes_no_condition_on_its_fields() -> None:
    orders = ps.App("shop").table("orders", key="id")
    with pytest.raises(DefinitionError, match=r"view 'sums' has a reducer with where=.*leave value= out"):
        orders.view("sums", key="user", value="amount", reduce={"n": ps.count(where="paid"), "total": ps.sum()})
    with pytest.raises(DefinitionError, match=r"view 'told' .* yield \(group, a map of these fields\)"):
        orders.view("told", reduce=ps.sum(where="paid"))(lambda doc: [(1, 2)])
    with pytest.raises(DefinitionError, match="where= is 5"):
        ps.sum("amount", where=5)  # type: ignore[arg-type]


def test_a_condition_is_part_of_the_stored_definition() -> None:
    for reducer in {**SUMS, **TREES}.values():
        if reducer.name not in ("group", "monoid"):
            assert reducer_from(unpack(canonical(reducer.describe()))) == reducer
    odd = ps.sum("v", where=(ps.field("t") == b"x") | (ps.field("v") > Decimal("0.5")))
    assert reducer_from(unpack(canonical(odd.describe()))) == odd
    assert odd.over([{"v": 1, "t": None}, {"v": 2, "t": b"x"}, {"v": 0, "t": "x"}]) == 3


def test_a_changed_condition_builds_the_view_anew(tmp_path: Path) -> None:
    def shop(reducer: Any) -> ps.App:
        app = ps.App("shop")
        app.table("orders", key="id").view("sums", key="user", reduce=reducer)
        return app

    with ps.open(shop(ps.sum("amount")), tmp_path / "shop") as engine:
        engine.put_many("orders", [{"id": i, "user": "Sue", "amount": i, "paid": i > 1} for i in range(1, 4)])
    changed = shop(ps.sum("amount", where="paid"))
    with pytest.raises(ps.DefinitionChanged, match=r"were sum\(amount\) and are sum\(amount, where paid\)"):
        ps.open(changed, tmp_path / "shop", migrate="refuse")
    with ps.open(changed, tmp_path / "shop") as engine:
        engine.migrate()
        with engine.snapshot() as snap:
            assert dict(snap.view("sums").items()) == {"Sue": 5}


def test_a_held_document_shows_the_values_that_still_count() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    reducers = {"paid": ps.sum("amount", where="paid"), "any": ps.any("paid"), "n": ps.count(where="paid")}
    orders.view("sums", key="user", reduce=reducers)
    orders.view("kept", key="user", reduce=reducers, sources=True)
    with ps.open(app, None) as engine:
        engine.put("orders", {"id": 1, "user": "Sue", "amount": 5, "paid": True})
        engine.put("orders", {"id": 1, "user": "Sue", "amount": "x", "paid": True})
        with engine.snapshot() as snap:
            [sums], [kept] = snap.view("sums").why("Sue"), snap.view("kept").why("Sue")
            assert (sums.value, sums.held) == ({"amount where paid": 5, "paid": True, "1 where paid": 1}, True)
            assert (kept.value, kept.held) == ({"amount": 5, "paid": True}, True)
            facts = snap.stored("orders", 1)
            assert facts is not None
            states = {state.view: state.pairs for state in facts.told}
            assert states == {"sums": (("Sue", sums.value),), "kept": (("Sue", kept.value),)}
