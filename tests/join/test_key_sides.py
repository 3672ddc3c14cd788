"""Key sides: a condition that is the whole key of a table is looked up there, and stores nothing."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import open_on
from penstock.gateway import KeySide, TableSideDocuments
from penstock.join import SideIndex, join_node, side_dbs
from penstock.testing import TestEngine
from penstock.views import side_views
from penstock.views.sides import side_projection
from tests.join.engine_histories import history


def shop(**options: Any) -> ps.App:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.c": "customer.id"}, **options)
    if sold.how not in ("semi", "anti"):
        sold.view("sums", key="customer.country", value="order.a", reduce=ps.sum())
    return app


def rows_by_side(engine: TestEngine) -> dict[str, int]:
    """Return the number of stored rows of each side of the join."""
    with engine.engine.snapshot() as snap:
        numbers = {side.name: side.number for side in snap.schema.sides}
        return {name: sum(map(snap.reader().count, side_dbs(number))) for name, number in numbers.items()}


def test_a_foreign_key_writes_no_row_for_the_key_side() -> None:
    engine = TestEngine(shop())
    engine.put("customers", *({"id": key, "country": "no"} for key in range(3)))
    engine.put("orders", *({"id": key, "c": key % 4, "a": 1} for key in range(9)))
    assert rows_by_side(engine) == {"sold:order": 1, "sold:customer": 0}
    engine.put("customers", {"id": 1, "country": "se"}, {"id": 3, "country": "se"})
    assert engine.view("sums") == {"no": 5, "se": 4}
    assert rows_by_side(engine) == {"sold:order": 1, "sold:customer": 0}


def test_a_change_of_an_unread_field_reads_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TestEngine(shop())
    engine.put("customers", {"id": 1, "country": "no"})
    engine.put("orders", {"id": 1, "c": 1, "a": 1})
    reads: list[Any] = []
    monkeypatch.setattr(SideIndex, "_ranges", lambda *given: reads.append(given) or iter(()))
    monkeypatch.setattr(KeySide, "find", lambda *given: reads.append(given))
    monkeypatch.setattr(join_node, "JoinChange", lambda *given: reads.append(given))
    engine.put("customers", {"id": 1, "country": "no", "name": "Sue"})
    engine.put("orders", {"id": 1, "c": 1, "a": 1, "note": "late"})
    assert reads == []


def test_a_batch_over_both_sides_sees_one_state() -> None:
    engine = TestEngine(shop())
    engine.put("customers", {"id": 1, "country": "no"}, {"id": 2, "country": "no"})
    engine.put("orders", {"id": 1, "c": 1, "a": 1})
    with engine.engine.batch() as batch:
        batch.put("customers", {"id": 1, "country": "se"})  # changed, and new orders match it
        batch.put("customers", {"id": 2, "country": "no", "name": "Sue"})  # changed in a field that nothing reads
        batch.put("customers", {"id": 3, "country": "dk"})
        for key in (2, 3, 4):
            batch.put("orders", {"id": key, "c": key - 1, "a": key})
    assert engine.view("sums") == {"dk": 4, "no": 3, "se": 3}
    engine.delete("customers", 2)
    assert engine.view("sums") == {"dk": 4, "se": 3}


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti", "full"])
def test_both_sides_of_a_full_join_alone_have_an_index(how: Any) -> None:
    [join] = shop(how=how).joins()
    assert [side.by_key for side in side_views(join)] == [False, how != "full"]


def test_a_composite_key_is_looked_up_in_any_order_of_its_parts() -> None:
    app = ps.App("shop")
    lines, stock = app.table("lines", key="id"), app.table("stock", key=("shelf", "article"))
    on = [("line.article", "stock.article"), ("line.shelf", "stock.shelf")]
    sold = app.join("sold", line=lines, stock=stock, on=on)
    sold.view("prices", key="stock.price", reduce=ps.count())
    assert [side.by_key for side in side_views(sold)] == [False, True]
    sold.view("rows", key="line.id", value="stock.price", reduce=None)
    part = app.join("part", line=lines, stock=stock, on={"line.article": "stock.article"})
    assert [side.by_key for side in side_views(part)] == [False, False]
    engine = TestEngine(app)
    engine.put("lines", {"id": 1, "shelf": "a" * 90, "article": 1}, {"id": 2, "shelf": 1, "article": "a" * 90})
    engine.put("stock", {"shelf": "a" * 90, "article": 1, "price": 10})
    engine.put("lines", {"id": 3, "shelf": "a" * 90, "article": 1.0}, {"id": 4, "shelf": "a" * 90})
    assert engine.view("prices") == {10: 2}
    assert [key[1][1:] for key in engine.view("rows")] == [(("a" * 90, 1), ("a" * 90, 1))] * 2
    assert engine.engine.check().ok


@pytest.mark.parametrize("seed", range(3))
def test_a_table_without_room_for_keys_is_read_from_the_store(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def find(own: Any, reader: Any, keys: Any) -> Any:
        calls.append(keys.lane.size)
        return TableSideDocuments.find(own._documents, reader, keys)

    monkeypatch.setattr(KeySide, "find", find)
    assert history(seed) is None
    assert calls


def test_a_look_up_of_many_keys_needs_no_room() -> None:
    engine = TestEngine(shop())
    engine.put("customers", {"id": 1, "country": "no"})
    core: Any = engine.engine.store.core
    known = core.tables["customers"].log.keys
    known.map.capacity = known.map.used
    engine.put("orders", *({"id": key, "c": key, "a": 1} for key in range(500)))
    assert engine.view("sums") == {"no": 1}
    assert core.tables["customers"].log.keys is known
    assert known.map.used == known.map.capacity


def test_key_sides_are_loaded_again_after_an_opening() -> None:
    store = MemoryStore()
    engine, _ = open_on(shop(), store)
    engine.put_many("customers", [{"id": key, "country": "no"} for key in ("a", "b", 1)])
    engine, _ = open_on(shop(), store)
    engine.put_many("orders", [{"id": 1, "c": "a", "a": 1}, {"id": 2, "c": 1, "a": 2}, {"id": 3, "c": "z", "a": 4}])
    with engine.snapshot() as snap:
        assert dict(snap.view("sums").items()) == {"no": 3}


def test_a_store_with_an_index_for_a_key_side_drops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(side_projection, "key_of", lambda side: None)
        for path in (tmp_path / "full", tmp_path / "empty"):
            with ps.open(shop(), path) as store:
                if path.name == "full":
                    store.put_many("customers", [{"id": key, "country": "no"} for key in range(3000)])
    with ps.open(shop(), tmp_path / "full") as store:
        store.put("orders", {"id": 1, "c": 1, "a": 1})
        store.migrate()
        store.put("orders", {"id": 2, "c": 2, "a": 1})
        assert store.check().ok
        with store.snapshot() as snap:
            assert dict(snap.view("sums").items()) == {"no": 2}
    with ps.open(shop(), tmp_path / "empty") as store:
        store.put("customers", {"id": 1, "country": "no"})
        store.put("orders", {"id": 1, "c": 1, "a": 1})
        assert store.check().ok


def test_the_owner_of_a_key_has_its_document() -> None:
    app = ps.App("shop")
    lines, stock = app.table("lines", key="id"), app.table("stock", key=("shelf", "article"))
    on = [("line.article", "stock.article"), ("line.shelf", "stock.shelf")]
    app.join("sold", line=lines, stock=stock, on=on, how="left").view("prices", key="stock.price", reduce=ps.count())
    names = app.table("names", key="name")
    known = app.join("known", line=lines, own=names, on={"line.shelf": "own.name"})
    known.view("ranks", key="own.rank", reduce=ps.count())
    shelves = ["a", "b", 1, 2.5, "x" * 90, True]
    with ps.open(app, None, partitions=3) as store:
        store.put_many("stock", [{"shelf": own, "article": i, "price": i} for own in shelves for i in range(5)])
        store.put_many("names", [{"name": own, "rank": i} for i, own in enumerate(shelves[:-1])])
        many = [{"id": i, "shelf": shelves[i % 6], "article": i % 7} for i in range(84)]
        store.put_many("lines", many)
        store.settle()
        with store.snapshot() as snap:
            assert dict(snap.view("prices").items()) == {None: 24, **dict.fromkeys(range(5), 12)}
            assert dict(snap.view("ranks").items()) == dict.fromkeys(range(5), 14)
        assert store.check().ok


def test_a_put_drops_only_identical_values() -> None:
    app = shop()
    app.joins()[0].view("rates", key="order.id", value="customer.rate", reduce=ps.only())
    engine = TestEngine(app)
    engine.put("orders", {"id": 1, "c": 1, "a": 1})
    for rate in (1, 1.0, True, "1", 0.0, -0.0, 0, False, None, [1], [1.0], [True], {"a": 1}, {"a": 1.5}, "", 2):
        engine.put("customers", {"id": 1, "country": "no", "rate": rate})
        assert repr(engine.view("rates")[1]) == repr(rate)


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("of_view", [True, False])
def test_a_held_document_is_looked_up_in_its_last_accepted_version(
    room: bool, of_view: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key side of three has another condition, which a version of its document may not meet."""
    if not room:
        monkeypatch.setattr(KeySide, "find", lambda own, reader, keys: own._documents.find(reader, keys))
    app = ps.App("shop")
    orders, customers, regions = (app.table(name, key="id") for name in ("orders", "customers", "regions"))
    newest = customers.view(
        "newest", key="id", reduce={"region": ps.max("region"), "country": ps.last("country", by="n")}
    )
    on = {"order.c": "customer.id", "customer.region": "region.id"}
    if of_view:
        on = {"order.c": "customer.key", "customer.value.region": "region.id"}
    sides = {"order": orders, "customer": newest if of_view else customers, "region": regions}
    country = "customer.value.country" if of_view else "customer.country"
    app.join("all", **sides, on=on).view("n", key=(country, "region.name"), reduce=ps.count())
    engine = TestEngine(app)
    wrong = Decimal(3) if of_view else {"x": 1}
    engine.put("regions", {"id": 1, "name": "north"})
    engine.put("customers", {"id": 7, "region": 1, "country": "no", "n": 1})
    engine.put("orders", {"id": 1, "c": 7})
    engine.put("customers", {"id": 7, "region": wrong, "country": "se", "n": 2}, {"id": 8, "region": wrong, "n": 1})
    engine.put("orders", {"id": 2, "c": 7}, {"id": 3, "c": 8})
    assert engine.view("n") == {("no", "north"): 2}
    assert len(list(engine.engine.quarantine(view="all"))) == 2
    assert engine.engine.check().ok
    engine.put("customers", {"id": 7, "region": 1, "country": "dk", "n": 3})
    engine.put("orders", {"id": 4, "c": 7})
    engine.delete("orders", 1)
    assert engine.view("n") == {("dk", "north"): 2}
    assert engine.engine.check().ok
