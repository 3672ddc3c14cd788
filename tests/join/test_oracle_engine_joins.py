"""The engine's joins against a nested loop, and the laws that follow from the definition of a join."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import open_on
from penstock.join import SideIndex
from penstock.testing import TestEngine
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.inputs.joined_trial import chained as chained_trial
from penstock.testing.inputs.joined_trial import joined, layered
from penstock.testing.inputs.trial_apps import trial_of
from penstock.testing.seeds.seed_search import Totals, attempt
from tests.join.engine_histories import chained, document, history, judged, nested, records, shop
from tests.join.engine_histories import layered as layered_shop

TRIALS = (joined(), layered(), chained_trial())
APPS = (shop, layered_shop, nested, chained)


@pytest.mark.parametrize("seed", range(10))
def test_views_on_joins_equal_the_nested_loop(seed: int) -> None:
    assert history(seed) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("app_of", APPS[1:])
def test_joins_of_views_and_joins_equal_the_nested_loop(seed: int, app_of: Callable[..., ps.App]) -> None:
    assert history(seed, app_of=app_of) is None


@pytest.mark.parametrize("seed", range(12))
def test_joins_survive_crashes_and_repairs(seed: int) -> None:
    trial, plan = trial_of(seed, TRIALS)
    failure = attempt(trial.app, plan, Totals())
    assert failure is None, failure


def test_large_batches_equal_the_nested_loop() -> None:
    app = simple()
    oracle, rng = Oracle(app), random.Random(7)
    engine, _ = open_on(app, MemoryStore())
    for step in range(3):
        orders = [{"id": k, "c": rng.randrange(150), "a": rng.randrange(99), "step": step} for k in range(3000)]
        customers = [{"id": k, "country": rng.choice(["no", "se", "dk"])} for k in range(step, 100)]
        engine.put_many("orders", orders)
        engine.put_many("customers", customers)
        oracle.take([ps.Record("orders", doc["id"], doc) for doc in orders])
        oracle.take([ps.Record("customers", doc["id"], doc) for doc in customers])
        assert judged(engine, oracle) is None


@pytest.mark.parametrize("app_of", APPS)
def test_any_order_of_loading_gives_one_digest(app_of: Callable[[], ps.App]) -> None:
    rng, app = random.Random(3), app_of()
    docs = [(table, document(rng, table, key, 1)) for table in ("orders", "customers") for key in range(6)]
    digests = set()
    for _ in range(4):
        rng.shuffle(docs)
        engine = TestEngine(app)
        for table, doc in docs:
            engine.put(table, doc)
        digests.add(engine.engine.digest())
    assert len(digests) == 1


@pytest.mark.parametrize("app_of", APPS)
def test_deleting_everything_leaves_no_row_and_no_entry(app_of: Callable[[], ps.App]) -> None:
    app = app_of()
    store = MemoryStore()
    engine, _ = open_on(app, store)
    engine.ingest(records(random.Random(1), 10, 60), "spout", 1)
    for table in ("orders", "customers"):
        with engine.snapshot() as snap:
            keys = [key for key, _ in snap.table(table).items()]
        for key in keys:
            engine.delete(table, key, 99)
    with engine.snapshot() as snap:
        assert [len(snap.table(table)) for table in ("orders", "customers")] == [0, 0]
        for view in app.views():
            assert list(snap.view(view.name).items()) == []
        for name in snap.schema.joins:
            sides = snap.schema.join(name).sides
            assert sum(len(own) for side in sides for own in side.all(snap.reader())) == 0


def simple(**options: Any) -> ps.App:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.c": "customer.id"}, **options)
    sold.view("sums", key="customer.country", value="order.a", reduce=ps.sum())
    return app


def filled(**options: Any) -> TestEngine:
    engine = TestEngine(simple(**options))
    engine.put("customers", *({"id": key, "country": "no"} for key in range(3)))
    engine.put("orders", *({"id": key, "c": key % 3, "a": 1} for key in range(9)))
    return engine


def test_a_change_of_an_unread_field_stops_at_the_side(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = filled()
    staged: list[Any] = []
    monkeypatch.setattr(SideIndex, "stage", lambda *given: staged.append(given))
    engine.put("customers", {"id": 1, "country": "no", "name": "Sue"})
    assert staged == []
    assert engine.view("sums") == {"no": 9}


def test_a_transaction_over_both_tables_runs_the_join_once() -> None:
    engine = filled()
    with engine.engine.batch() as batch:
        batch.put("customers", {"id": 1, "country": "se"})
        batch.put("orders", {"id": 1, "c": 1, "a": 5})
        batch.put("orders", {"id": 2, "c": 1, "a": 7})
    assert engine.view("sums") == {"no": 5, "se": 14}


def test_a_value_above_the_limit_has_no_rows_until_it_returns() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    pairs = app.join("pairs", one=orders, other=orders, on={"one.c": "other.c"}, limit=4)
    pairs.view("n", key="one.c", reduce=ps.count())
    engine = TestEngine(app)
    engine.put("orders", {"id": 1, "c": 1}, {"id": 2, "c": 1}, {"id": 3, "c": 2})
    assert engine.view("n") == {1: 4, 2: 1}
    engine.put("orders", {"id": 4, "c": 1})
    assert engine.view("n") == {2: 1}
    [entry] = engine.engine.quarantine()
    assert (entry.view, entry.key) == ("pairs", 1)
    assert "3 documents of side 'one' and 3 of 'other'" in entry.reason
    assert engine.engine.status()["joins"]["pairs"]["above_limit"] == 1
    assert engine.engine.check().held == {"pairs": 1}
    for settled in (engine.engine.retry(entry.id), engine.engine.drop(entry.id)):
        [left] = settled.why
        assert "it returns once it has fewer" in left.reason
    with engine.engine.snapshot() as snap, pytest.raises(ps.UnknownName):
        snap.view("pairs:one")
    engine.delete("orders", 2)
    assert engine.view("n") == {1: 4, 2: 1}
    assert list(engine.engine.quarantine()) == []
