"""Joins as sides of joins: every operation of a store works on them as on sides that are tables."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.testing import TestEngine
from tests.join.sides.lost_entries import check_lost_entries, filled


def everything() -> ps.App:
    """Return an app with a join of a join and a table, and a function view on it."""
    app = ps.App("everything")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    lines = app.table("lines", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.c": "customer.id"})
    items = app.join("items", sale=sold, line=lines, on={"sale.order.id": "line.order"})
    items.view("sums", key="sale.customer.country", value="line.a", reduce=ps.sum())

    @items.view(reduce=ps.count())
    def words(row: Any) -> Any:
        yield row["sale"]["customer"]["country"] + row["line"].get("word", "")

    by_note = app.join("by_note", sale=sold, line=lines, on={"sale.order.note": "line.word"})
    by_note.view("notes", key="sale.order.note", reduce=ps.count())
    return app


@pytest.fixture
def engine() -> TestEngine:
    return filled(everything())


def test_a_change_below_the_inner_join_reaches_the_outer_one(engine: TestEngine) -> None:
    assert engine.view("sums") == {"no": 10, "se": 5}
    with engine.engine.batch() as batch:
        batch.put("customers", {"id": 2, "country": "dk"})
        batch.put("lines", {"id": 0, "order": 1, "a": 100})
    assert engine.view("sums") == {"no": 10, "dk": 105}
    engine.delete("orders", 1)
    assert engine.view("sums") == engine.view("words") | {"no": 10} == {"no": 10}
    assert engine.engine.check().ok


def test_why_names_the_keys_of_all_documents(engine: TestEngine) -> None:
    with engine.engine.snapshot() as snap:
        for view in ("sums", "words"):
            found = list(snap.view(view).why("se"))
            assert [one.key for one in found] == [((1, 2), 1), ((1, 2), 4)]
            sale = {"order": {"id": 1, "c": 2}, "customer": {"id": 2, "country": "se"}}
            assert found[0].document == {"sale": sale, "line": {"id": 1, "order": 1, "a": 1}}


def test_a_row_is_held_for_the_outer_join_alone(engine: TestEngine) -> None:
    engine.put("orders", {"id": 0, "c": 1, "note": "x"})
    engine.put("lines", {"id": 9, "order": 5, "word": "x"})
    assert engine.view("notes") == {"x": 1}
    engine.put("orders", {"id": 0, "c": 1, "note": {"text": "x"}})
    [entry] = engine.engine.quarantine()
    assert (entry.view, entry.key) == ("by_note", (0, 1))
    assert entry.document["order"]["note"] == {"text": "x"}
    assert "side 'sale' by 'order.note'" in entry.reason
    assert engine.view("notes") == {"x": 1}  # the row counts as it was
    assert engine.view("sums") == {"no": 10, "se": 5}
    assert engine.engine.check().ok
    assert engine.engine.status()["joins"]["by_note"]["held"] == 1
    assert engine.engine.retry().left == 1
    assert engine.engine.drop(view="by_note").dropped == 1
    assert engine.view("notes") == {}
    engine.put("orders", {"id": 0, "c": 1, "note": "x"})
    assert engine.view("notes") == {"x": 1}
    assert list(engine.engine.quarantine()) == []


def test_a_function_gets_whole_rows_of_nested_joins() -> None:
    app = everything()
    deep = app.join("deep", item=app.joins()[1], own=app.table_of("customers"), on={"item.sale.order.c": "own.id"})

    @deep.view(reduce=ps.collect(9))
    def rows(row: Any) -> Any:
        yield row["item"]["line"]["id"], [row["item"]["sale"], row["own"]]

    engine = TestEngine(app)
    engine.put("customers", {"id": 1, "country": "no"})
    engine.put("orders", {"id": 5, "c": 1})
    engine.put("lines", {"id": 7, "order": 5, "a": 2})
    customer = {"id": 1, "country": "no"}
    assert engine.view("rows") == {7: [[{"order": {"id": 5, "c": 1}, "customer": customer}, customer]]}
    assert engine.engine.check().ok


@pytest.mark.parametrize("side", ["sold:order", "items:sale", "items:line"])
@pytest.mark.parametrize("mend", ["check", "restate", "key"])
def test_lost_entries_are_put_again(engine: TestEngine, side: str, mend: str) -> None:
    check_lost_entries(engine, side, mend, "sold")
