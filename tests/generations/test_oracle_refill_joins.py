"""Refills of all tables of joins, against one store that took all records in order. Planted bugs must be found.

Records come before the refill begins, after that, while the other store is copied, and after the switch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import DefinitionError, open_lmdb
from penstock.core.schema import described
from penstock.engine import open_on
from tests.core.crash.crash_points import unsynced
from tests.generations.refills import in_small_steps
from tests.generations.test_refill import images, strays
from tests.harness.planting import Bug
from tests.join import engine_histories
from tests.join.engine_histories import chained, layered, nested, shop
from tests.spark.both import same

TABLES = ["orders", "customers"]
_SOURCES = count()
AppOf = Callable[..., ps.App]


def records(choose: Random, first: int, n: int) -> list[ps.Record]:
    """Return records of which no two versions tie, some of them late."""
    out = list[ps.Record]()
    while len(out) < n:
        for record in engine_histories.records(choose, 0, 12):
            ts = 100 * (first + len(out)) - choose.choice([0, 0, 3, 900])
            document: Any = record.doc
            doc = None if document is None else {**document, "ts": ts}
            out.append(ps.Record(record.table, record.key, doc, ts if doc is None else None))
    return out


def put(engine: Any, given: list[ps.Record]) -> None:
    """Put records, a few at a time, each time at the next offset of a source."""
    source = f"test{next(_SOURCES)}"
    for at in range(0, len(given), 5):
        engine.ingest(given[at : at + 5], source=source, resume=at + 5)


def agree(choose: Random, app: ps.App, partitions: int | None, folder: Path) -> None:
    """Give one history to a live store that is refilled, and to a store that takes it in order."""
    before, read, since, after = (records(choose, first, choose.choice([0, 9, 30])) for first in (0, 200, 400, 900))
    meanwhile: list[ps.Record] = []
    live: Any = ps.open(app, folder / "live", partitions=partitions, processes=False)
    with live, ps.open(app, None) as oracle:
        put(live, before)
        seed = live.begin_refill(TABLES, described(app))
        put(live, since)
        fresh, _ = open_on(app, open_lmdb(str(folder / "fresh")), seed=seed)
        with fresh:
            put(fresh, read)

        def progress(what: str, done: int, total: int) -> None:
            if what in ("copying", "carrying over") and len(meanwhile) < 40:
                given = records(choose, 500 + len(meanwhile), 4)
                meanwhile.extend(given)
                put(live, given)

        live.refill(folder / "fresh", progress)
        for given in (read, since, meanwhile):
            put(oracle, given)
        live.flush()
        live.settle()
        assert live.digest() == oracle.digest()
        put(live, after)
        put(oracle, after)
        live.settle()
        assert live.digest() == oracle.digest()
        assert live.check().ok
        if partitions is not None:
            return
        live.close()
        same(app, oracle, folder / "live")


@settings(max_examples=4)
@given(
    choose=st.randoms(use_true_random=False),
    app_of=st.sampled_from([shop, layered, nested, chained]),
    filtered=st.booleans(),
    partitions=st.sampled_from([None, None, 2]),
)
def test_any_history_leaves_the_content_of_its_records(
    choose: Random, app_of: AppOf, filtered: bool, partitions: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    partitions = None if app_of is chained else partitions  # it has joins of more than two sides
    with pytest.MonkeyPatch.context() as patch, unsynced():
        in_small_steps(patch)
        agree(choose, app_of(filtered=filtered), partitions, tmp_path_factory.mktemp("refill"))


def small_shop() -> ps.App:
    """Return an app with a join of two tables, a join on a view, and views on both."""
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts")
    app.table("notes", key="id").view("note_count", key=(), reduce=ps.count())
    sold = app.join("sold", order=orders, customer=customers, on={"order.c": "customer.age"}, how="left", limit=9)
    sums = sold.view("sums", key="customer.country", value="order.a", reduce=ps.sum())
    sold.view("rows", key="order.id", value="customer.address", reduce=None)
    ages = app.join("ages", total=sums, customer=customers, on={"total.key": "customer.country"})
    ages.view("by_age", key="customer.age", value="total.value", reduce=ps.max())
    return app


def check_killed(folder: Path) -> None:
    """Copy a store at each step of a refill, as a kill leaves it. Each copy is as before, or has switched."""
    app, choose = small_shop(), Random(5)
    with ps.open(app, folder / "live") as live:
        engine: Any = live
        put(engine, records(choose, 0, 30))
        seed = engine.begin_refill(TABLES, described(app))
        put(engine, records(choose, 400, 20))
        fresh, _ = open_on(app, open_lmdb(str(folder / "fresh")), seed=seed)
        with fresh:
            put(fresh, records(choose, 200, 30))
        before = live.digest()
        steps, take = images(folder, folder / "live")
        engine.refill(folder / "fresh", take)
        after = live.digest()
    assert {"copying", "carrying-over", "switching"} == {path.name.partition("-")[2] for path in steps}
    for path in [*steps[::4], steps[-1]]:
        with ps.open(app, path) as opened:
            again: Any = opened
            switched = path.name.endswith("switching")
            assert again.digest() == (after if switched else before), path.name
            assert not again.check().wrong
            again.migrate()  # this empties the filled databases
            if not switched:
                assert strays(again) == []
                again.refill(folder / "fresh")
                assert again.digest() == after
            again.migrate()
            assert all(db.startswith("view:") for db in strays(again)), "of these the feed has changes"


def test_killed_at_any_step_it_is_what_it_was_and_may_be_refilled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_steps(monkeypatch)
    with unsynced():
        check_killed(tmp_path)


def check_tables(folder: Path) -> None:
    """A refill of some tables of joins names all others. A table of no join is refilled alone."""
    app = small_shop()
    lines = app.table("lines", key="id")
    app.join("listed", line=lines, customer=app.table_of("customers"), on={"line.c": "customer.id"})
    with ps.open(app, None) as engine:
        message = "side 'customer' of the join 'sold' is read from 'customers'; give 'customers', 'lines' too"
        with pytest.raises(DefinitionError, match=message):
            engine.begin_refill(["notes", "orders"], described(app))
        engine.begin_refill(["orders", "customers", "lines"], described(app))
        seed = engine.begin_refill(["notes"], described(app))
        fresh, _ = open_on(app, open_lmdb(str(folder / "notes")), seed=seed)
        with fresh:
            fresh.put("notes", {"id": 1})
        engine.refill(folder / "notes")
        with engine.snapshot() as snap:
            assert 1 in snap.table("notes")


def test_a_refill_of_some_tables_of_a_join_names_the_others(tmp_path: Path) -> None:
    check_tables(tmp_path)


BUGS = [
    Bug(
        "its joins do not run",
        "core.hidden_generation_writes:write_hidden",
        "core.filling_joins.run(writer, writes)",
        "pass",
    ),
    Bug(
        "its sides take no entries of other partitions",
        "core.commit:Core.fill",
        "[*self.joins, *self.filling_joins]",
        "[*self.joins]",
    ),
    Bug(
        "indexes of sides are not copied",
        "core.generation_switch:databases_of",
        "join_dbs(number) if kind in JOIN_KINDS else view_dbs(number)",
        "view_dbs(number)",
    ),
    Bug(
        "a join without numbers is made",
        "core.catalog_nodes:NodeMaker.joins",
        "if join.name not in self.numbers:",
        "if self.numbers is None:",
    ),
    Bug("some tables of a join are enough", "views.join_arguments:check_together", "if others:", "if not others:"),
    Bug(
        "joins of later tables are passed over",
        "views.join_arguments:check_together",
        "wanted.update(dict.fromkeys(left))",
        "return",
    ),
    Bug(
        "the joins are not switched",
        "generations.refill:Refilling.__init__",
        ", *(join.name for join in joins), *sides]",
        "]",
    ),
]


def check_histories(folder: Path) -> None:
    """Check a history in a store of each kind."""
    for seed, partitions in enumerate((None, 2)):
        agree(Random(seed), small_shop(), partitions, folder / f"{partitions}")


def check_all(folder: Path) -> None:
    """Check all parts of a refill."""
    check_tables(folder)
    check_histories(folder)
    check_killed(folder)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_small_steps(monkeypatch)
    bug.plant(monkeypatch)
    with unsynced(), pytest.raises(BaseException):  # noqa: B017, PT011 - any error shows the bug
        check_all(tmp_path)


def test_without_a_bug_both_kinds_of_stores_agree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_small_steps(monkeypatch)
    with unsynced():
        check_histories(tmp_path)
