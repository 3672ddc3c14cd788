"""The joins of a document: its side, its condition value, and its matches."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core import DocumentJoin


def shop() -> ps.App:
    app = ps.App("shop")
    lines = app.table("lines", key="no")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    waiting = orders.where(ps.field("status") == "open")
    sold = app.join("sold", order=orders, customer=customers, on={"order.customer": "customer.id"})
    sold.view("by_country", key="customer.country", reduce=ps.count())
    sold.view("by_tier", key="customer.tier", reduce=ps.count())
    near = [("order.city", "customer.city"), ("order.zip", "customer.zip")]
    app.join("near", order=waiting, customer=customers, how="left", on=near, limit=3)
    app.join("pairs", one=orders, other=orders, on={"one.next": "other.id"})
    on = {"order.customer": "customer.id", "line.order": "order.id"}
    app.join("all", line=lines, order=orders, customer=customers, on=on)
    return app


def two_sides() -> ps.App:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.city": "customer.city"})
    sold.view("by_country", key="customer.country", reduce=ps.count())
    return app


def joins_of(engine: ps.Engine, table: str, key: Any) -> dict[tuple[str, str], DocumentJoin]:
    engine.settle()
    with engine.snapshot() as snap:
        found = snap.document_joins(table, key, snap.table(table)[key])
    return {(own.join, own.side): own for own in found}


def test_a_document_is_shown_with_its_sides_and_matches() -> None:
    with ps.open(shop(), None) as engine:
        engine.put("customers", {"id": 7, "city": "Oslo", "zip": 1})
        for i in range(3):
            engine.put("orders", {"id": i, "customer": 7, "city": "Oslo", "zip": 1, "status": "open", "next": 0})
        engine.put("lines", {"no": 1, "order": 2})
        customer = joins_of(engine, "customers", 7)
        assert customer["sold", "customer"] == DocumentJoin(
            "sold",
            "inner",
            "customer",
            "order.customer = customer.id",
            7,
            "order",
            3,
            ("by_country", "by_tier"),
        )
        near = customer["near", "customer"]
        assert (near.how, near.on) == ("left", "order.city = customer.city and order.zip = customer.zip")
        assert (near.value, near.matches, near.views) == (("Oslo", 1), 3, ())
        assert (customer["all", "customer"].other, customer["all", "customer"].matches) == ("order", 3)
        order = joins_of(engine, "orders", 0)
        assert (order["pairs", "one"].matches, order["pairs", "other"].matches) == (1, 3)
        line = joins_of(engine, "lines", 1)["all", "line"]
        assert (line.on, line.other, line.matches) == ("order.id = line.order", "(order+customer)", 1)


def test_a_document_without_a_match_says_why() -> None:
    with ps.open(shop(), None) as engine:
        engine.put("customers", {"id": 7, "city": "Oslo", "zip": 1})
        engine.put("orders", {"id": 1, "city": "Oslo", "status": "open"})
        engine.put("orders", {"id": 2, "city": "Oslo", "zip": 1, "status": "sent"})
        engine.put("orders", {"id": 3, "customer": {"no": 1}, "city": "Oslo", "zip": 1, "status": "open"})
        null = joins_of(engine, "orders", 1)
        assert (null["near", "order"].value, null["near", "order"].matches) == (("Oslo", None), 0)
        assert (null["sold", "order"].value, null["sold", "order"].matches) == (None, 0)
        assert joins_of(engine, "orders", 2)["near", "order"].filtered
        held = joins_of(engine, "orders", 3)["sold", "order"]
        assert held.held is not None
        assert "customer" in held.held
        assert (held.value, held.matches) == (None, 0)
        engine.put("customers", {"id": 8, "city": "Oslo", "zip": 1})
        for i in range(4, 6):
            engine.put("orders", {"id": i, "city": "Oslo", "zip": 1, "status": "open"})
        above = joins_of(engine, "orders", 4)["near", "order"]
        assert above.held == "its condition value has more than 3 rows, the limit of the join"
        assert above.matches == 2


@pytest.mark.parametrize("partitions", [1, 3])
def test_matches_are_counted_where_the_condition_value_is(tmp_path: Path, partitions: int) -> None:
    with ps.open(two_sides(), tmp_path / "s", partitions=partitions) as engine:
        engine.put_many("orders", [{"id": i, "city": f"c{i % 3}"} for i in range(12)])
        engine.put_many("customers", [{"id": i, "city": f"c{i % 2}"} for i in range(6)])
        for i in range(6):
            own = joins_of(engine, "customers", i)["sold", "customer"]
            assert (own.value, own.matches) == (f"c{i % 2}", 4)
