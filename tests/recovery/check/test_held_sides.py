"""A check of views on joins while sides hold documents: exact, and without a false report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import encode_key
from penstock.mapreduce import Hold, Writes, held_db
from penstock.mapreduce.maps.held_rows import held_row
from penstock.recovery.check import joined_rows_check

BAD: dict[str, Any] = {"x": 1}


def shop(how: Any = "inner", more: bool = True) -> ps.App:
    """Return an app with a condition on a field, on a key, over three sides, on a view and on a join."""
    app = ps.App("shop")
    orders, customers, regions = (app.table(name, key="id") for name in ("orders", "customers", "regions"))
    sides = {"order": orders.where("paid"), "customer": customers}
    near = app.join("near", **sides, on={"order.city": "customer.city"}, how=how)
    near.view("near_sums", key="customer.country", value="order.a", reduce=ps.sum())
    near.view("near_rows", key="order.id", value="customer.country", reduce=None)

    @near.view(reduce=ps.count())
    def words(row: dict[str, Any]) -> Any:
        yield (row["customer"] or {}).get("country")
        (row["order"] or {})["seen"] = True

    if more:
        on = {"order.customer": "customer.id", "customer.region": "region.id"}
        full = app.join("full", order=orders, customer=customers, region=regions, on=on)
        full.view("by_region", key=("region.name", "customer.country"), value="order.a", reduce=ps.sum())
        totals = orders.view("totals", key="city", reduce={"n": ps.count(), "top": ps.max("b")})
        sized = app.join("sized", total=totals, region=regions, on={"total.value.top": "region.id"})
        sized.view("names", key="region.name", value="total.value.n", reduce=ps.sum())
        again = app.join("again", sale=near, region=regions, on={"sale.order.b": "region.id"})
        again.view("deep", key=("region.name", "sale.customer.country"), value="sale.order.a", reduce=ps.sum())
    return app


def filled(app: ps.App, path: Path | None = None, **options: Any) -> ps.Engine:
    engine = ps.open(app, path, **options)
    engine.put_many("regions", [{"id": i, "name": f"r{i}"} for i in range(3)])
    engine.put_many("customers", [{"id": i, "city": f"c{i % 3}", "region": i % 3, "country": "no"} for i in range(6)])
    engine.put_many(
        "orders",
        [{"id": i, "city": f"c{i % 4}", "customer": i % 6, "paid": i % 5 != 0, "a": i, "b": i % 4} for i in range(12)],
    )
    return engine


def hold(engine: ps.Engine) -> None:
    """Hold documents of several sides: with an accepted version before, with a filtered one, and without any."""
    engine.put("orders", {"id": 1, "city": BAD, "customer": 1, "paid": True, "a": 100, "b": 1})
    engine.put("orders", {"id": 5, "city": BAD, "customer": 5, "paid": True, "a": 100, "b": 1})  # 5 was not paid
    engine.put("orders", {"id": 50, "city": BAD, "customer": BAD, "paid": True, "a": 100, "b": BAD})
    engine.put("customers", {"id": 2, "city": "c2", "region": BAD, "country": "se"})
    engine.put("customers", {"id": 3, "city": BAD, "region": 0, "country": "se"})
    engine.put("orders", {"id": 60, "city": "c2", "customer": 2, "paid": True, "a": 7, "b": 2})
    engine.settle()


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_a_store_that_holds_documents_is_right(how: Any) -> None:
    app = shop("inner")
    if how != "inner":
        app = ps.App("shop")
        orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
        app.table("regions", key="id")
        near = app.join("near", order=orders, customer=customers, on={"order.city": "customer.city"}, how=how)
        near.view("near_sums", key="order.b", value="order.a", reduce=ps.sum())
    engine = filled(app)
    hold(engine)
    report = engine.check()
    assert report.ok, report.damaged
    assert report.held["near"] == 4
    engine.drop(view="near")
    report = engine.check()
    assert report.ok, report.damaged
    engine.put("orders", {"id": 1, "city": "c1", "customer": 1, "paid": True, "a": 9, "b": 1})
    assert engine.check().ok


def test_partitions_that_hold_documents_are_right(tmp_path: Path) -> None:
    with filled(shop(more=False), tmp_path / "s", partitions=2) as engine:
        hold(engine)
        report = engine.check()
        assert report.ok, report.damaged
        assert report.held["near"] == 4


def test_results_are_compared_beside_a_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = filled(shop())
    hold(engine)
    monkeypatch.setattr(joined_rows_check, "accepted_documents", lambda snap, join: {})
    damaged = engine.check().damaged
    for view in ("near_sums", "by_region", "deep"):
        assert any(f"view {view!r}, group" in text for text in damaged), damaged


@pytest.mark.parametrize("lost", [True, False])
def test_a_wrong_hold_is_named(lost: bool) -> None:
    engine = filled(shop())
    hold(engine)
    core: Any = engine.store.core
    with engine.snapshot() as snap:
        [side] = [node for node in snap.schema.sides if node.name == "near:order"]

    def change(writer: Any, writes: Writes) -> None:
        db, key = held_db(side.number), encode_key(50 if lost else 2)
        if lost:
            writes.deletes.append((db, [key]))
        else:
            writes.puts.append((db, [(key, held_row(key, key, Hold("no reason"), []))]))
        writes.changed = True

    core.amend(change)
    damaged = engine.check().damaged
    where = "join 'near', side 'order': it "
    if lost:
        assert any(text.startswith(f"{where}counts 50, which it should hold: ") for text in damaged), damaged
    else:
        assert any(text.startswith(f"{where}holds 2, which it could take; run `penstock") for text in damaged), damaged


def test_a_wrong_hold_of_a_condition_value_is_named() -> None:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    near = app.join("near", order=orders, customer=customers, on={"order.city": "customer.city"}, limit=3)
    near.view("sums", key=(), value="order.a", reduce=ps.sum())
    engine = ps.open(app, None)
    engine.put_many("orders", [{"id": i, "city": "c", "a": i} for i in range(3)])
    engine.put_many("customers", [{"id": i, "city": "c"} for i in range(3)])
    assert engine.check().ok
    with engine.snapshot() as snap:
        db = held_db(snap.schema.join("near").number)
    core: Any = engine.store.core

    def change(writer: Any, writes: Writes) -> None:
        writes.deletes.append((db, [key for key, _ in writer.scan(db)]))
        writes.changed = True

    core.amend(change)
    assert not engine.check().ok
    with engine.snapshot() as snap:
        _, faults = joined_rows_check.joined_documents(snap, snap.schema.joins["near"])
    assert faults == [
        "join 'near': 1 condition values are not above limit=3 in the store alone; load the documents into a new path, "
        "and report it"
    ]
