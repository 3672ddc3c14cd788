"""Joins of three sides and more: every operation of a store works on them as on joins of two."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.cli.drawing.join_order import order_facts
from penstock.testing import TestEngine
from tests.harness.planting import Bug
from tests.join.sides.lost_entries import check_lost_entries, filled


def everything(**options: Any) -> ps.App:
    """Return an app with a join of three tables."""
    app = ps.App("everything")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    lines = app.table("lines", key="id")
    on = {"order.c": "customer.id", "line.order": "order.id"}
    items = app.join("items", line=lines, order=orders, customer=customers, on=on, **options)
    items.view("sums", key="customer.country", value="line.a", reduce=ps.sum())
    items.view("rows", key="customer.country", value="line.a", reduce=None)

    @items.view(reduce=ps.count())
    def words(row: Any) -> Any:
        yield row["customer"]["country"] + row["line"].get("word", "")

    return app


@pytest.fixture
def engine() -> TestEngine:
    return filled(everything())


def test_a_transaction_over_all_tables_runs_each_step_once(engine: TestEngine) -> None:
    assert engine.view("sums") == {"no": 10, "se": 5}
    with engine.engine.batch() as batch:
        batch.put("customers", {"id": 2, "country": "dk"})
        batch.put("orders", {"id": 0, "c": 2})
        batch.put("lines", {"id": 0, "order": 1, "a": 100})
    assert engine.view("sums") == {"no": 7, "dk": 108}
    assert engine.engine.check().ok


def test_why_names_the_documents_in_the_order_of_the_sides(engine: TestEngine) -> None:
    with engine.engine.snapshot() as snap:
        for view in ("sums", "words"):
            found = list(snap.view(view).why("se"))
            assert [one.key for one in found] == [(1, 1, 2), (4, 1, 2)]
            customer, line = {"id": 2, "country": "se"}, {"id": 1, "order": 1, "a": 1}
            assert found[0].document == {"line": line, "order": {"id": 1, "c": 2}, "customer": customer}
        assert [row.key[1] for row in snap.view("rows").items()][:1] == [(0, 0, 1, 1, 0)]


@pytest.mark.parametrize("more", [0, 40])  # a small batch, and one in columns
def test_a_hold_names_one_document_for_every_condition(more: int) -> None:
    app = everything()
    orders, lines = app.table_of("orders"), app.table_of("lines")
    on = [("order.c", "line.a"), ("order.word", "other.word")]
    app.join("late", order=orders, line=lines, other=lines, on=on).view("n", key="other.id", reduce=ps.count())
    engine = TestEngine(app)
    engine.put("lines", {"id": 1, "a": 1, "word": "x"})
    engine.put("orders", {"id": 5, "c": 1, "word": "x"})
    assert engine.view("n") == {1: 1}
    engine.put("orders", {"id": 5, "c": 1, "word": {"x": 1}}, *({"id": 100 + i} for i in range(more)))
    [entry] = engine.engine.quarantine()
    assert (entry.view, entry.key) == ("late", 5)
    assert "join 'late' matches side 'order' by 'word'" in entry.reason
    assert engine.view("n") == {1: 1}
    assert engine.engine.check().held == {"late": 1}
    assert engine.engine.drop(view="late").dropped == 1
    assert engine.view("n") == {}
    engine.put("orders", {"id": 5, "c": 1, "word": "x"})
    assert engine.view("n") == {1: 1}
    assert engine.engine.check().ok


@pytest.mark.parametrize(
    ("place", "more"), [("small_documents:FewFields.bad", 0), ("maps.field_map:FieldMapper.bad", 40)]
)
def test_a_planted_check_of_one_condition_alone_is_found(
    place: str, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, none = ("for i in self._checked:", "for i in ():") if not more else ("in self.keys:", "in self.keys[:1]:")
    Bug("a document is checked for one condition alone", f"mapreduce.{place}", loop, none).plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_hold_names_one_document_for_every_condition(more)


def test_a_value_above_the_limit_of_a_prefix_has_no_rows() -> None:
    app = ps.App("shop")
    orders, lines = app.table("orders", key="id"), app.table("lines", key="id")
    on = [("one.c", "two.c"), ("two.id", "line.order")]
    app.join("all", one=orders, two=orders, line=lines, on=on, limit=4).view("n", key="one.c", reduce=ps.count())
    engine = TestEngine(app)
    engine.put("orders", *({"id": key, "c": 1} for key in range(3)))
    engine.put("lines", {"id": 1, "order": 1})
    assert engine.view("n") == {}
    [entry] = engine.engine.quarantine(view="all")
    assert (entry.view, entry.key) == ("all", 1)
    assert "3 documents of side 'one' and 3 of 'two'" in entry.reason
    assert engine.engine.status()["joins"]["all:one+two"]["above_limit"] == 1
    engine.delete("orders", 2)
    assert engine.view("n") == {1: 2}
    assert engine.engine.check().ok


@pytest.mark.parametrize("side", ["items:order+customer:order", "items:(order+customer)", "items:line"])
@pytest.mark.parametrize("mend", ["check", "restate", "key"])
def test_lost_entries_are_put_again(engine: TestEngine, side: str, mend: str) -> None:
    check_lost_entries(engine, side, mend, "items")


def test_explain_names_the_entries_of_prefixes_and_a_better_order() -> None:
    app = ps.App("shop")
    tables = {name: app.table(name, key="id") for name in ("line", "order", "customer")}
    on = {"line.order": "order.id", "order.c": "customer.id"}
    join = app.join("all", on=on, **tables)
    engine = TestEngine(app)
    engine.put("customer", {"id": 1})
    engine.put("order", *({"id": key, "c": 1} for key in range(3)))
    engine.put("line", *({"id": key, "order": key % 3} for key in range(9)))
    with engine.engine.snapshot() as snap:
        facts = dict(order_facts(snap, join))
    assert facts["prefix"] == "line with order: 9 entries"
    assert facts["better order"].startswith("order, then customer, then line: ")
