"""Joins with rows beside pairs: left, full, semi and anti, under every operation of a store."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.join import SideIndex
from penstock.testing import TestEngine

ON = {"order.c": "customer.id"}
KINDS = ("left", "full", "semi", "anti")


def shop(how: Any, **options: Any) -> ps.App:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on=ON, how=how, **options)
    sold.view("sums", key="order.c", value="order.a", reduce=ps.sum())
    sold.view("kept", key="order.c", value="order.a", reduce=ps.sum(), sources=True)
    sold.view("rows", key="order.id", value="order", reduce=None)

    @sold.view(reduce=ps.count())
    def words(row: Any) -> Any:
        order = row["order"] or {}
        yield order.get("word", "") + ",".join(name for name in sorted(row) if row[name] is not None)

    return app


def filled(how: Any, **options: Any) -> TestEngine:
    """Return an engine with two matching orders, one without a customer, one with null, and a customer without one."""
    engine = TestEngine(shop(how, **options))
    engine.put("customers", {"id": 1}, {"id": 3})
    engine.put("orders", *({"id": key, "c": own, "a": key} for key, own in enumerate([1, 1, 2, None], 1)))
    return engine


SUMS = {
    "left": {None: 4, 1: 3, 2: 3},
    "full": {None: 4, 1: 3, 2: 3},
    "semi": {1: 3},
    "anti": {None: 4, 2: 3},
}
WORDS = {
    "left": {"customer,order": 2, "order": 2},
    "full": {"customer": 1, "customer,order": 2, "order": 2},
    "semi": {"order": 2},
    "anti": {"order": 2},
}


@pytest.mark.parametrize("how", KINDS)
def test_rows_beside_pairs_come_and_go(how: Any) -> None:
    engine = filled(how)
    assert {key: own for key, own in engine.view("sums").items() if own is not None} == SUMS[how]
    assert engine.view("words") == WORDS[how]
    engine.put("customers", {"id": 2})
    engine.delete("customers", 1)
    assert engine.view("sums").get(2) == (None if how == "anti" else 3)
    assert engine.view("sums").get(1) == (None if how == "semi" else 3)
    engine.delete("customers", 2)
    engine.put("customers", {"id": 1})
    assert engine.view("words") == WORDS[how]
    engine.put("orders", {"id": 4, "c": 1, "a": 0}, {"id": 1, "c": None, "a": 4}, {"id": 2, "c": None})
    assert engine.view("words").get("order", 0) == (1 if how == "semi" else 3)
    assert engine.engine.check().ok


@pytest.mark.parametrize("how", KINDS)
def test_why_names_rows_with_a_missing_side(how: Any) -> None:
    engine = filled(how)
    with engine.engine.snapshot() as snap:
        for view in ("sums", "kept"):
            found = list(snap.view(view).why(None if how != "semi" else 1))
            if how == "semi":
                assert [one.document for one in found] == [{"order": {"id": i, "c": 1, "a": i}} for i in (1, 2)]
                continue
            own = next(one for one in found if one.key[0] == 4)
            row = {"order": {"id": 4, "c": None, "a": 4}, "customer": None}
            assert own.document == (row if how != "anti" else {"order": row["order"]})
            assert own.value == 4
        if how == "full":
            [left] = snap.view("words").why("customer")
            assert left.document == {"order": None, "customer": {"id": 3}}


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_a_row_of_a_null_value_is_held_and_released(how: Any) -> None:
    engine = filled(how)
    engine.put("orders", {"id": 4, "c": None, "a": 4, "word": 7})
    [entry] = engine.engine.quarantine()
    assert (entry.view, entry.key[:2]) == ("words", (4, None))
    assert entry.document["order"] == {"id": 4, "c": None, "a": 4, "word": 7}
    assert engine.view("words", held=True) == WORDS[how]  # its last good emission counts
    assert engine.engine.retry().left == 1
    assert engine.engine.check().ok
    engine.put("orders", {"id": 4, "c": None, "a": 4, "word": "n"})
    assert list(engine.engine.quarantine()) == []
    assert engine.view("words")["norder"] == 1
    engine.put("orders", {"id": 4, "c": None, "a": 4, "word": 7})
    engine.put("orders", {"id": 4, "c": 1, "a": 4})  # the held row goes: its document matches now
    assert list(engine.engine.quarantine()) == []
    assert engine.engine.check().ok


@pytest.mark.parametrize("how", KINDS)
def test_a_held_document_counts_with_its_last_null_value(how: Any) -> None:
    engine = filled(how)
    before = engine.view("words")
    engine.put("orders", {"id": 4, "c": {"x": 1}, "a": 50})
    assert engine.view("words") == before
    assert engine.engine.restate("sold") == []  # a rebuild has its row too
    engine.put("customers", {"id": 9})
    engine.put("orders", {"id": 4, "c": 9, "a": 4})
    assert engine.view("sums").get(9) == (None if how == "anti" else 4)
    assert engine.engine.check().ok


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("step", ["check", "restate", "key"])
def test_wrong_rows_are_restated(how: Any, step: str) -> None:
    engine = filled(how)
    core: Any = engine.engine.store.core
    db = core.views["sums"].reduce.db

    def change(writer: Any, writes: Any) -> None:
        writes.deletes.append((db, [key for key, _ in writer.scan(db)]))
        writes.changed = True

    before = engine.view("sums")
    core.amend(change)
    core.forget()
    if step == "check":
        engine.engine.check(fix=True)
    elif step == "restate":
        assert {one.group for one in engine.engine.restate("sums")} == set(before)
    else:
        engine.engine.restate("orders", 4)
    assert engine.view("sums") == before
    assert engine.engine.check().ok


@pytest.mark.parametrize("how", KINDS)
def test_null_values_are_in_no_index(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = filled(how)
    with engine.engine.snapshot() as snap:
        stored = snap.schema.join("sold").sides[0]
        assert sum(map(len, stored.index.all(snap.reader()))) == 3
        assert sum(map(len, stored.all(snap.reader()))) == (3 if how == "semi" else 4)
    pages: list[Any] = []
    monkeypatch.setattr(SideIndex, "_ranges", lambda *given: pages.append(given) or iter(()))
    engine.put("orders", {"id": 4, "c": None, "a": 40})
    assert pages == []
    assert engine.view("sums").get(None) == (None if how == "semi" else 40)


def test_a_value_above_the_limit_has_no_outer_rows() -> None:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    full = app.join("full", order=orders, customer=customers, on={"order.c": "customer.c"}, how="full", limit=3)
    full.view("n", key=("order.c", "customer.c"), reduce=ps.count())
    engine = TestEngine(app)
    engine.put("orders", {"id": 1, "c": 1}, {"id": 2, "c": 1}, {"id": 3})
    engine.put("customers", {"id": 1, "c": 1})
    assert engine.view("n") == {(1, 1): 2, (None, None): 1}
    engine.put("customers", {"id": 2, "c": 1})
    assert engine.view("n") == {(None, None): 1}
    assert engine.engine.restate("full") == []
    assert engine.engine.check().ok
    engine.delete("customers", 1)
    engine.delete("customers", 2)
    assert engine.view("n") == {(1, None): 2, (None, None): 1}


def test_the_condition_of_a_join_may_remove_outer_rows() -> None:
    for where, rows in ((ps.field("customer.id") > 0, 2), (ps.field("customer.id") == None, 2), (None, 4)):  # noqa: E711
        assert len(filled("left", where=where).view("rows")) == rows


def test_a_side_that_rows_lack_is_read_for_its_matches_alone() -> None:
    engine = filled("semi")
    sides = {side.view.side: side.view.projection for side in _stored(engine)}
    assert sides["customer"] == ()


def _stored(engine: TestEngine) -> Any:
    with engine.engine.snapshot() as snap:
        return snap.schema.join("sold").sides
