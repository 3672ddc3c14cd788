"""Views as sides of joins: every operation of a store works on them as on sides that are tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import DefinitionError
from penstock.engine import repartition
from penstock.join import Entries
from penstock.mapreduce import Column, SourceKeys, Writes
from penstock.testing import TestEngine


def shares() -> ps.App:
    """Return an app with a view beside its own table, and with a view that holds groups."""
    app = ps.App("shares")
    orders = app.table("orders", key="id")
    totals = orders.view("totals", key="c", value="a", reduce=ps.sum())
    single = orders.view("single", key="c", value="a", reduce=ps.only())
    beside = app.join("beside", order=orders, total=totals, on={"order.c": "total.key"})
    beside.view("rows", key="order.id", value="total.value", reduce=None)
    beside.view("sums", key="order.c", value="total.value", reduce=ps.sum())

    @beside.view(reduce=ps.count())
    def sizes(row: Any) -> Any:
        yield len(row["order"].get("name", "")) + row["total"]["value"]

    alone = app.join("alone", order=orders, single=single, on={"order.c": "single.key"})
    alone.view("n", key="single.value", reduce=ps.count())
    by_total = app.join("by_total", order=orders, total=totals, on={"order.id": "total.value"})
    by_total.view("owners", key="total.key", value="order.id", reduce=ps.collect(9))
    return app


@pytest.fixture
def engine() -> TestEngine:
    own = TestEngine(shares())
    own.put("orders", {"id": 1, "c": 1, "a": 2}, {"id": 2, "c": 1, "a": 2}, {"id": 3, "c": 2, "a": 3})
    return own


def test_a_view_beside_its_own_table_changes_in_one_transaction(engine: TestEngine) -> None:
    assert engine.view("sums") == {1: 8, 2: 3}
    with engine.engine.batch() as batch:
        batch.put("orders", {"id": 1, "c": 2, "a": 5})
        batch.put("orders", {"id": 4, "c": 1, "a": 1})
    assert engine.view("sums") == {1: 6, 2: 16}
    assert engine.view("sizes") == {3: 2, 8: 2}
    assert engine.engine.check().ok


def test_a_held_group_takes_part_with_its_last_good_result(engine: TestEngine) -> None:
    assert engine.view("n") == {2: 2, 3: 1}
    engine.put("orders", {"id": 4, "c": 1, "a": 9})
    assert [one.key for one in engine.engine.quarantine(view="single")] == [1]
    assert engine.view("n") == {2: 3, 3: 1}
    assert engine.engine.check().ok
    engine.put("orders", {"id": 4, "c": 2, "a": 3})
    assert engine.view("n") == {2: 2, 3: 2}


def test_why_names_the_keys_of_both_sides(engine: TestEngine) -> None:
    with engine.engine.snapshot() as snap:
        for view, group in (("sums", 1), ("sizes", 4)):
            found = list(snap.view(view).why(group))
            assert [one.key for one in found] == [(1, 1), (2, 1)]
            assert found[0].document == {"order": {"id": 1, "c": 1, "a": 2}, "total": {"key": 1, "value": 4}}


def test_a_row_of_a_view_is_held_and_released(engine: TestEngine) -> None:
    engine.put("orders", {"id": 3, "c": 2, "a": 4})
    assert engine.view("owners") == {}
    assert engine.engine.check().ok
    engine.put("orders", {"id": 4, "c": 1, "a": -1}, {"id": 5, "c": 9, "a": 3})
    assert engine.view("owners") == {1: [3], 2: [4], 9: [3]}
    engine.put("orders", {"id": 3, "c": 2, "a": 4, "name": 7})
    [entry] = engine.engine.quarantine(view="sizes")
    assert (entry.view, entry.key) == ("sizes", (3, 2))
    assert entry.document == {"order": {"id": 3, "c": 2, "a": 4, "name": 7}, "total": {"key": 2, "value": 4}}
    engine.put("orders", {"id": 3, "c": 2, "a": 4})
    assert list(engine.engine.quarantine(view="sizes")) == []


def spoil(engine: TestEngine, change: Any) -> None:
    """Change the store behind its caches."""
    store: Any = engine.engine.store
    core = store.core

    def step(writer: Any, writes: Writes) -> None:
        change(core, writer, writes)
        writes.changed = True

    core.amend(step)
    core.forget()


def wrong_entry(core: Any, writer: Any, writes: Writes) -> None:
    index = core.joins.sides["by_total:total"].index
    entries = Entries.join(list(index.all(writer)))
    other = Entries.of(SourceKeys.of([1]), SourceKeys.of([77]), [Column.of([1000])] * index.width)
    index.stage(writer, entries.take(entries.keys().lane == 2), other, writes)


def wrong_row(core: Any, writer: Any, writes: Writes) -> None:
    """Remove the rows of the parent view, and the entries that a side has of them. A key side has none."""
    db = core.views["totals"].reduce.db
    writes.deletes.append((db, [key for key, _ in writer.scan(db)]))
    index = core.joins.sides["by_total:total"].index
    index.stage(writer, Entries.join(list(index.all(writer))), Entries.none(index.width), writes)


@pytest.mark.parametrize("spoiled", [wrong_entry, wrong_row])
@pytest.mark.parametrize("mend", ["check", "restate", "key", "repost"])
def test_wrong_rows_and_entries_are_repaired(engine: TestEngine, spoiled: Any, mend: str) -> None:
    spoil(engine, spoiled)
    assert not engine.engine.check().ok
    if mend == "check":
        engine.engine.check(fix=True)
    elif mend == "restate":
        for name in ("totals", "beside", "by_total"):
            engine.engine.restate(name)
    elif mend == "key":
        for key in (1, 2, 3):
            engine.engine.restate("orders", key)
    else:
        for key, c, a in ((1, 1, 2), (2, 1, 2), (3, 2, 3)):
            engine.engine.repost("orders", {"id": key, "c": c, "a": a})
    found = engine.engine.check()
    assert found.ok, found
    engine.put("orders", {"id": 3, "c": 1, "a": 3})
    assert engine.view("sums") == {1: 21}
    assert engine.engine.check().ok


@pytest.mark.parametrize("how", ["left", "full"])
def test_a_null_group_is_no_missing_side(how: Any) -> None:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    counts = orders.view("counts", key="c", reduce={"n": ps.count()})
    known = app.join("known", customer=customers, counted=counts, on={"customer.age": "counted.value.n"}, how=how)
    known.view("sums", key=(), value="counted.value.n", reduce=ps.sum())

    @known.view(reduce=ps.count())
    def missing(row: Any) -> Any:
        yield row["counted"] is None

    engine = TestEngine(app)
    engine.put("orders", *({"id": key, "c": c} for key, c in enumerate([None, None, 1, 2])))
    engine.put("customers", {"id": 1, "age": 2}, {"id": 2, "age": 1}, {"id": 3, "age": 9}, {"id": 4})
    assert engine.view("sums") == {(): 4}
    assert engine.view("missing") == {False: 3, True: 2}
    found = engine.engine.check()
    assert found.ok, found
    with engine.engine.snapshot() as snap:
        [one] = [own for own in snap.view("missing").why(False) if own.key == (1, None if how == "left" else (None,))]
        assert one.document == {"customer": {"id": 1, "age": 2}, "counted": {"key": None, "value": {"n": 2}}}
        assert [own.document["counted"] for own in snap.view("missing").why(True)] == [None, None]


def two_views(app: ps.App) -> None:
    """Define a full join of two views that may have a null group each, and views of each kind on it."""
    tables = app.table("orders", key="id"), app.table("customers", key="id")
    one, two = (
        table.view(name, key="c", reduce={"n": ps.count(), "m": ps.max("x")})
        for name, table in zip("ab", tables, strict=True)
    )
    both = app.join("both", one=one, two=two, on={"one.value.m": "two.value.m"}, how="full")
    both.view("counted", key=("one.key", "two.key"), reduce=ps.count())
    both.view("rows", key="one.value.m", value="two.value.n", reduce=None)
    sums = {"one": ps.sum("one.value.n"), "two": ps.sum("two.value.n")}
    both.view("kept", key=(), reduce=sums, sources=True)

    @both.view(reduce=ps.count())
    def lacks(row: Any) -> Any:
        yield "".join(name for name, own in row.items() if own is None)


ALONE, OTHER = ((None,), None), (None, (None,))


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_null_groups_of_two_views_have_rows_of_their_own(partitions: int, tmp_path: Path) -> None:
    """A key that two rows shared would name one contribution source."""
    app = ps.App("shop")
    two_views(app)
    options = {"partitions": partitions} if partitions > 1 else {}
    store = ps.open(app, tmp_path / "s" if partitions else None, **options)

    def shown() -> dict[str, list[Any]]:
        store.settle()
        assert store.check().ok
        with store.snapshot() as snap:
            groups = [row.key for row in snap.view("lacks")]
            assert len(snap.view("rows")) == sum(row.value for row in snap.view("counted"))
            return {group: [one.key for one in snap.view("lacks").why(group)] for group in groups}

    store.put("orders", {"id": 1})
    assert shown() == {"two": [ALONE]}
    store.put("customers", {"id": 1})
    assert shown() == {"two": [ALONE], "one": [OTHER]}
    store.put("orders", {"id": 1, "x": 5})
    assert shown() == {"two": [ALONE], "one": [OTHER]}
    store.put("customers", {"id": 1, "x": 5})
    assert shown() == {"": [((None,), (None,))]}
    if partitions == 1:
        store.close()
        repartition(tmp_path / "s", 2)
        store = ps.open(app, tmp_path / "s")
        assert shown() == {"": [((None,), (None,))]}
    store.delete("orders", 1)
    assert shown() == {"one": [OTHER]}
    store.put("orders", {"id": 1})
    assert shown() == {"two": [ALONE], "one": [OTHER]}
    store.close()


def test_a_plain_index_is_no_side() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    rows = orders.view("rows", key="c", reduce=None)
    with pytest.raises(DefinitionError, match="'row' of join 'x' is the plain index 'rows'"):
        app.join("x", order=orders, row=rows, on={"order.c": "row.key"})
