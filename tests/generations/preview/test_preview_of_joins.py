"""Previews of joins: the first side is sampled, and the documents that match are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.generations import preview, preview_sample
from penstock.generations.preview_sample import Samples
from penstock.views import Kind, Preview

ORDERS = [
    {"id": i, "customer": i % 10, "city": f"c{i % 7}", "product": f"p{i % 3}", "pieces": 1 + i % 5} for i in range(60)
]
CUSTOMERS = [{"id": i, "city": f"c{i}", "country": ("NO", "SE")[i % 2]} for i in range(9)]
PRODUCTS = [{"id": f"p{i}", "category": ("tea", "pot")[i % 2]} for i in range(3)]
BY_ID = {"order.customer": "customer.id"}
BY_CITY = {"order.city": "customer.city"}
ALL = {"order.customer": "customer.id", "order.product": "product.id"}


def tables() -> tuple[ps.App, Any, Any, Any]:
    app = ps.App("shop")
    return app, app.table("orders", key="id"), app.table("customers", key="id"), app.table("products", key="id")


def empty() -> ps.App:
    return tables()[0]


def pieces(on: dict[str, str] = BY_ID, customers_first: bool = False, **how: Any) -> ps.App:
    app, orders, customers, _ = tables()
    sides = {"order": orders, "customer": customers}
    own = dict(reversed(sides.items())) if customers_first else sides
    sold = app.join("sold", on=on, **own, **how)
    sold.view("pieces", key="customer.id", value="order.pieces", reduce=ps.sum())
    return app


def filled(app: ps.App, path: Any = None, **options: Any) -> ps.Engine:
    engine = ps.open(app, path, **options)
    for name, documents in (("orders", ORDERS), ("customers", CUSTOMERS), ("products", PRODUCTS)):
        engine.put_many(name, documents)
    engine.settle()
    return engine


@pytest.fixture
def few() -> Iterator[None]:
    """Limit the sample of a table to a few documents, and show all rows."""
    with mock.patch.multiple(preview_sample, _SAMPLE=5, _PLACES=5), mock.patch.object(preview, "_ROWS", 1_000):
        yield


def new_rows(found: Preview, view: str) -> dict[Any, Any]:
    return {one.group: one.new for one in found.sample if one.view == view and one.new is not ps.ABSENT}


def test_of_few_documents_rows_are_those_that_come(tmp_path: Path) -> None:
    with filled(pieces(), tmp_path / "s") as engine:
        found = engine.preview(pieces(how="left"))
    assert [(change.view, change.kind) for change in found.changes] == [
        ("sold", Kind.CHANGED),
        ("pieces", Kind.FOLLOWS),
    ]
    assert found.changes[0].why == "its how was 'inner' and is 'left'"
    assert (found.all, found.sampled, found.rows, found.groups) == (True, 69, 60, 9)
    assert [(one.group, one.old, one.new) for one in found.sample] == [
        (None, ps.ABSENT, sum(order["pieces"] for order in ORDERS if order["customer"] == 9))
    ]
    with ps.open(pieces(how="left"), tmp_path / "s") as engine:
        engine.migrate()
        with engine.snapshot() as snap:
            assert snap.view("pieces")[None] == found.sample[0].new


def test_documents_are_looked_up_by_key(few: None) -> None:
    app, orders, customers, _ = tables()
    sold = app.join("sold", order=orders, customer=customers, on=BY_ID)
    sold.view("by_country", key="customer.country", value="order.pieces", reduce=ps.sum())
    sold.view("single", key="order.id", value="customer.id", reduce=ps.max())
    with filled(empty()) as engine:
        found = engine.preview(app)
    assert not found.all
    rows = new_rows(found, "single")
    assert rows
    assert all(ORDERS[order]["customer"] == customer for order, customer in rows.items())
    assert sum(new_rows(found, "by_country").values()) == sum(ORDERS[order]["pieces"] for order in rows)


@pytest.mark.parametrize("on", [BY_ID, BY_CITY])
def test_documents_are_looked_up_in_all_partitions(few: None, tmp_path: Path, on: dict[str, str]) -> None:
    app = pieces(on)
    with filled(app, tmp_path / "s", partitions=2) as engine, engine.snapshot() as snap:
        samples = Samples(snap)
        samples.add(app.joins()[0])
    (one, other), *_ = ([path.split(".")[1] for path in pair] for pair in on.items())
    orders, customers = (samples.tables[name].documents.values() for name in ("orders", "customers"))
    assert len(orders) >= 2
    wanted = {order[one] for order in orders} & {customer[other] for customer in CUSTOMERS}
    assert {customer[other] for customer in customers} == wanted, "each match is found, and no other document"


def test_documents_are_looked_up_in_a_side_index(few: None) -> None:
    with filled(pieces(BY_CITY)) as engine:
        found = engine.preview(pieces(BY_CITY, customers_first=True, how="left"))
    customers = new_rows(found, "pieces")
    for customer, total in customers.items():
        own = [order["pieces"] for order in ORDERS if order["city"] == f"c{customer}"]
        assert total == (sum(own) if own else None), "all orders of a sampled customer are found"
    assert found.sampled > 10


def test_without_an_index_both_sides_are_sampled(few: None) -> None:
    with filled(empty()) as engine:
        found = engine.preview(pieces(BY_CITY))
    assert found.sampled <= 10
    assert not found.all


def test_three_sides_are_looked_up_one_after_the_other(few: None) -> None:
    app, orders, customers, products = tables()
    sides = {"order": orders, "customer": customers, "product": products}
    app.join("traded", on=ALL, **sides).view("single", key="order.id", value="product.category", reduce=ps.min())
    with ps.open(app, None) as engine:
        assert engine.preview(app) == Preview(())
    with filled(empty()) as engine:
        rows = new_rows(engine.preview(app), "single")
    assert rows
    assert all(rows[order] == PRODUCTS[order % 3]["category"] for order in rows)


def test_views_and_joins_as_sides(few: None) -> None:
    def app() -> ps.App:
        own, orders, customers, products = tables()
        totals = orders.view("totals", key="customer", value="pieces", reduce=ps.sum())
        named = own.join("named", total=totals, customer=customers, on={"total.key": "customer.id"})
        named.view("by_country", key="customer.country", value="total.value", reduce=ps.sum())
        sold = own.join("sold", order=orders, customer=customers, on=BY_ID)
        full = own.join("full", sale=sold, product=products, on={"sale.order.product": "product.id"})
        full.view("single", key="sale.order.id", value="product.category", reduce=ps.min())
        return own

    with filled(empty()) as engine:
        found = engine.preview(app())
        assert {change.view for change in found.changes} == {
            "totals",
            "named",
            "by_country",
            "sold",
            "full",
            "single",
        }
    rows = new_rows(found, "single")
    assert len(rows) >= 4
    assert all(rows[order] == PRODUCTS[order % 3]["category"] for order in rows)


def test_a_dropped_join_and_a_join_without_views() -> None:
    with filled(pieces()) as engine:
        found = engine.preview(empty())
        assert [(change.view, change.kind) for change in found.changes] == [
            ("sold", Kind.DROPPED),
            ("pieces", Kind.DROPPED),
        ]
        app, orders, customers, _ = tables()
        app.join("sold", order=orders, customer=customers, on=BY_ID, limit=5)
        app.join("more", order=orders, customer=customers, on=BY_CITY)
        kinds = {change.view: change.kind for change in engine.preview(app).changes}
        assert kinds == {"sold": Kind.CHANGED, "more": Kind.NEW, "pieces": Kind.DROPPED}


def test_documents_that_a_join_could_not_take() -> None:
    with filled(empty()) as engine:
        engine.put("orders", {"id": 100, "customer": {"id": 1}})
        found = engine.preview(pieces())
    assert list(found.held) == ["sold"]
    assert found.held["sold"][0] == 1
    assert "customer" in found.held["sold"][1]
