"""Joins under every operation of a store: each works, or is refused by name with the next step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import DefinitionError
from penstock.core import described
from penstock.join import Entries
from penstock.mapreduce import Column, SourceKeys, Writes
from penstock.testing import TestEngine

ON = {"order.c": "customer.id"}
BY_TEXT = 'TypeError: can only concatenate str (not "%s") to str'


def shop(more: bool = False, **options: Any) -> ps.App:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on=ON, **options)
    sold.view("sums", key="customer.country", value="order.a", reduce=ps.sum())
    sold.view("kept", key="customer.country", value="order.a", reduce=ps.sum(), sources=True)

    @sold.view(reduce=ps.count())
    def words(row: Any) -> Any:
        yield row["customer"]["country"] + row["order"].get("word", "")

    if more:
        sold.view("more", key="order.id", reduce=ps.count())
    return app


@pytest.fixture
def engine() -> TestEngine:
    own = TestEngine(shop())
    own.put("customers", {"id": 1, "country": "no"}, {"id": 2, "country": "se"})
    own.put("orders", *({"id": key, "c": 1 + key % 2, "a": key} for key in range(6)))
    return own


# -- holds


def test_a_document_is_held_for_its_join_alone(engine: TestEngine) -> None:
    counts = engine.engine.put("orders", {"id": 2, "c": {"x": 1}, "a": 50})
    assert counts.held == 1
    assert engine.view("sums") == {"no": 6, "se": 9}  # it counts with its last good version
    [entry] = engine.engine.quarantine(view="sold")
    assert (entry.table, entry.view, entry.key) == ("orders", "sold", 2)
    assert "side 'order' by 'c'" in entry.reason
    assert engine.engine.status()["joins"]["sold"]["held"] == 1
    assert engine.engine.check().ok
    assert str(engine.engine.retry()).startswith("1 left")
    assert engine.engine.drop(view="sold").dropped == 1
    assert engine.view("sums") == {"no": 4, "se": 9}
    engine.put("orders", {"id": 2, "c": 2, "a": 50})
    assert engine.view("sums") == {"no": 4, "se": 59}
    assert list(engine.engine.quarantine()) == []


def test_a_row_is_held_for_its_view_alone(engine: TestEngine) -> None:
    engine.put("orders", {"id": 2, "c": 1, "a": 2, "word": 7})
    assert engine.view("words", held=True) == {"no": 3, "se": 3}
    assert engine.view("sums") == {"no": 6, "se": 9}
    [entry] = engine.engine.quarantine()
    assert (entry.view, entry.key) == ("words", (2, 1))
    assert entry.document == {"order": {"id": 2, "c": 1, "a": 2, "word": 7}, "customer": {"id": 1, "country": "no"}}
    assert engine.engine.retry().left == 1
    engine.put("customers", {"id": 1, "country": "dk"})
    assert engine.view("words", held=True) == {"dk": 2, "no": 1, "se": 3}
    engine.delete("customers", 1)
    assert engine.view("words") == {"se": 3}
    assert engine.engine.check().ok


def test_rows_of_one_batch_share_a_traceback(engine: TestEngine) -> None:
    orders = [{"id": key, "c": 1, "a": key, "word": 7 if key % 2 else b"x"} for key in range(10, 1010)]
    engine.engine.put_many("orders", orders)
    engine.put("orders", {"id": 2000, "c": 1, "a": 0, "word": 7})
    with engine.engine.snapshot() as snap:
        holds = snap.holds("words")
    assert len(holds) == 1001
    kept = [hold for hold in holds if hold["traceback"]]
    assert sorted(hold["reason"] for hold in kept) == sorted(2 * [BY_TEXT % "int"] + [BY_TEXT % "bytes"])
    entries = list(engine.engine.quarantine(view="words"))
    assert len(entries) == 1001
    assert all(entry.reason in entry.traceback for entry in entries)
    assert all("in words" in entry.traceback for entry in entries)
    [last] = engine.engine.quarantine(ids=[entries[-1].id])
    assert last.traceback == entries[-1].traceback
    assert engine.engine.retry(view="words").left == 1001
    assert engine.engine.check().ok


def test_a_row_with_text_in_a_sum_is_held_and_released(engine: TestEngine) -> None:
    engine.put("orders", {"id": 2, "c": 1, "a": "much"})
    assert engine.view("sums", held=True) == {"no": 6, "se": 9}
    engine.put("orders", {"id": 4, "c": 2, "a": 4})  # while a row is held, others follow
    assert engine.view("sums", held=True) == {"no": 2, "se": 13}
    engine.put("orders", {"id": 2, "c": 1, "a": 8})
    assert engine.view("sums") == engine.view("kept") == {"no": 8, "se": 13}


# -- reading


def test_why_names_the_documents_of_each_row(engine: TestEngine) -> None:
    with engine.engine.snapshot() as snap:
        for view in ("sums", "kept", "words"):
            found = list(snap.view(view).why("no"))
            assert [one.key for one in found] == [(0, 1), (2, 1), (4, 1)]
            assert found[1].document == {"order": {"id": 2, "c": 1, "a": 2}, "customer": {"id": 1, "country": "no"}}


def test_a_join_has_no_rows_to_read(engine: TestEngine) -> None:
    with engine.engine.snapshot() as snap:
        for read in (snap.view, snap.table):
            with pytest.raises(DefinitionError, match=r"key='order\.c', reduce=None"):
                read("sold")


# -- repair


def damage(engine: TestEngine) -> None:
    """Remove an entry of a side, and put another that no document has."""
    core: Any = engine.engine.store.core
    index = core.joins.sides["sold:order"].index

    def change(writer: Any, writes: Writes) -> None:
        [entries] = index.all(writer)
        other = Entries.of(SourceKeys.of([1]), SourceKeys.of([77]), [Column.of([{"id": 77, "a": 1000}])])
        index.stage(writer, entries.take(entries.keys().lane == 2), other, writes)
        writes.changed = True

    core.amend(change)


@pytest.mark.parametrize("mend", ["check", "restate", "key", "repost"])
def test_a_wrong_entry_is_found_and_replaced(engine: TestEngine, mend: str) -> None:
    damage(engine)
    assert "side 'order': 2 entries" in str(engine.engine.check().damaged)
    if mend == "check":
        engine.engine.check(fix=True)
    elif mend == "restate":
        engine.engine.restate("sold")
    elif mend == "key":
        engine.engine.restate("orders", 2)
    else:
        engine.engine.repost("orders", {"id": 2, "c": 2, "a": 1})
    assert engine.engine.check().ok
    engine.put("customers", {"id": 1, "country": "dk"})
    assert engine.view("sums") == {"dk": 6, "se": 9}


def test_a_wrong_row_of_a_view_is_restated(engine: TestEngine) -> None:
    core: Any = engine.engine.store.core

    def change(writer: Any, writes: Writes) -> None:
        writes.deletes.append(
            (core.views["sums"].reduce.db, [key for key, _ in writer.scan(core.views["sums"].reduce.db)])
        )
        writes.changed = True

    core.amend(change)
    core.forget()
    found = engine.engine.restate("sums")
    assert [(one.group, one.new) for one in found] == [("no", 6), ("se", 9)]
    assert engine.engine.check().ok


def test_a_join_has_no_group_to_restate(engine: TestEngine) -> None:
    with pytest.raises(DefinitionError, match="'sold' has no groups"):
        engine.engine.restate("sold", "no")


# -- refusals


def test_a_refill_of_one_side_is_refused(engine: TestEngine) -> None:
    with pytest.raises(DefinitionError, match="join 'sold' is read from 'customers'; give 'customers' too"):
        engine.engine.begin_refill(["orders"], described(engine.app))


def test_keys_that_are_too_long_for_one_key_together_join(store_path: Path) -> None:
    key, other = "k" * 40_000, "m" * 40_000

    def app() -> ps.App:
        app = shop()
        sold = app.joins()[0]
        sold.view("rows", key="customer.country", value="order.a", reduce=None)
        return app

    with ps.open(app(), store_path) as engine:
        engine.put("customers", {"id": key, "country": "no"})
        engine.put_many("orders", [{"id": other, "c": key, "a": 1}, {"id": 7, "c": key, "a": 2, "word": 7}])
        [entry] = engine.quarantine()
        assert (entry.view, entry.key) == ("words", (7, key))
        assert engine.restate("orders", other) == []
    with ps.open(app(), store_path) as engine:
        assert engine.check().ok
        with engine.snapshot() as snap:
            assert [one.key for one in snap.view("kept").why("no")] == [(7, key), (other, key)]
            assert dict(snap.view("sums").items()) == {"no": 3}
            assert dict(snap.view("words").items()) == {"no": 1}
        engine.put("customers", {"id": key, "country": "se"})
        engine.put("orders", {"id": 7, "c": key, "a": 2, "word": "s"})
        assert list(engine.quarantine()) == []
        with engine.snapshot() as snap:
            assert dict(snap.view("words").items()) == {"se": 1, "ses": 1}
            assert dict(snap.view("sums").items()) == {"se": 3}
        assert engine.check().ok


def counting(seen: list[int]) -> ps.App:
    """Return an app with a function view on a join that changes a list."""
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on=ON)

    @sold.view(reduce=ps.count())
    def places(row: Any) -> Any:
        seen.append(row["order"]["id"])
        yield len(seen)

    return app


def test_a_function_that_changes_a_captured_list_is_another_function_at_the_next_opening(tmp_path: Path) -> None:
    """As for a view on a table, the value of the list belongs to the definition."""
    seen: list[int] = []
    with ps.open(counting(seen), tmp_path / "s") as engine:
        engine.put("customers", {"id": 1})
        engine.put_many("orders", [{"id": 1, "c": 1}, {"id": 2, "c": 1}])
    with pytest.raises(ps.DefinitionChanged, match="seen of its map changed"):
        ps.open(counting([5]), tmp_path / "s", migrate="refuse")
    with ps.open(counting(seen), tmp_path / "s") as engine:
        assert [change.view for change in engine.migrate().changes] == ["places"]
        assert engine.check().ok
