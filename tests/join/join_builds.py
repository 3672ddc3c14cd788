"""Histories of a store whose app changes its joins.

Between the steps of a build it takes writes, loses memory, is opened again, and has commits that fail.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import Core, Engine, open_on
from penstock.testing.expected.expected_views import Oracle
from penstock.views import Merge
from tests.harness.histories import Failed, LastingStore
from tests.harness.worlds import TINY
from tests.join.engine_histories import judged, records

SEED = 7


def drawn_app(rng: random.Random, merge: Merge, ts: str | None) -> ps.App:
    """Return an app with some joins and some views on them. Two of these differ in definitions of every kind."""
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts=ts, merge=merge)
    customers = app.table("customers", key="id", ts=ts, merge=merge)
    counts = orders.view("counts", key=rng.choice(["c", "c", "c", "d"]), reduce={"n": ps.count()})
    if rng.random() < 0.9:
        waiting = orders if rng.random() < 0.8 else orders.where(ps.field("paid") == True)  # noqa: E712
        on = {"order.c": "customer.id"} if rng.random() < 0.7 else {"order.c": "customer.country"}
        where = None if rng.random() < 0.8 else ps.field("order.a") > 1
        sides: dict[str, Any] = {"order": waiting, "customer": customers}
        if rng.random() < 0.3:
            sides = dict(reversed(sides.items()))
        sold = app.join("sold", on=on, where=where, limit=rng.choice([2, 5, 500]), **sides)
        _views(rng, sold)
        if rng.random() < 0.4:
            on = {"bought.customer.age": "more.a"} if rng.random() < 0.5 else {"bought.order.id": "more.id"}
            bought = app.join("bought", bought=sold, more=orders, on=on)
            if rng.random() < 0.8:
                path = rng.choice(["bought.customer.country", "bought.order.paid", "more.paid"])
                bought.view("bought_sums", key=path, value="bought.order.a", reduce=ps.sum())
    if rng.random() < 0.7:
        how: Any = rng.choice(["left", "full", "semi", "anti"])
        sides: dict[str, Any] = {"order": orders, "customer": customers}
        on = rng.choice([{"order.c": "customer.id"}, {"order.c": "customer.country"}, {"order.id": "customer.id"}])
        if rng.random() < 0.4:  # a key side is first
            how, sides = ("left" if how == "full" else how), dict(reversed(sides.items()))
        other = app.join("other", on=on, how=how, limit=rng.choice([2, 500]), **sides)
        first = next(iter(sides))
        if how in ("left", "full") and rng.random() < 0.5:
            on = {"rows.customer.age": "one.a"}
            beside = app.join("beside", rows=other, one=orders, on=on, how=rng.choice(["left", "full", "anti"]))
            beside.view("beside_n", key="rows.order.id", reduce=ps.count())
        if rng.random() < 0.7 and (how in ("left", "full") or first == "order"):
            other.view("paid", key="order.paid", value="order.a", reduce=ps.sum())
        if how in ("left", "full") and rng.random() < 0.7:
            other.view("both", key="customer.age", value="order.id", reduce=ps.collect(9))
        elif rng.random() < 0.7:
            other.view("both", reduce=ps.count())(lambda row: [str(sorted(row[first]))])
    if rng.random() < 0.7:
        on = {"customer.id": "counted.key"}
        if rng.random() < 0.3:
            seen = app.join("seen", on=on, counted=counts, customer=customers)
        else:
            sides = {"customer": customers, "counted": counts}
            if rng.random() < 0.5:
                sides = dict(reversed(sides.items()))
            seen = app.join("seen", on=on, how=rng.choice(["inner", "left"]), **sides)
        if rng.random() < 0.7:
            seen.view("seen_sums", key="customer.country", value="counted.value.n", reduce=ps.sum())
        if rng.random() < 0.5:
            seen.view("seen_rows", key="counted.key", value="customer.age", reduce=None)
    if rng.random() < 0.7:
        _chain(rng, app)
    if rng.random() < 0.6:
        pairs = app.join("pairs", one=orders, other=orders, on={"one.c": "other.d"}, limit=rng.choice([2, 4, 9]))
        if rng.random() < 0.7:
            pairs.view("pairs_of", key="one.id", value="other.id", reduce=ps.collect(9))
        if rng.random() < 0.5:
            pairs.view("pair_sums", key=(), value=rng.choice(["other.a", "one.a"]), reduce=ps.sum())
    return app


def _chain(rng: random.Random, app: ps.App) -> None:
    """Define a join of three sides or four, in a random order, and views that read different fields of it."""
    orders, customers, counts = app.table_of("orders"), app.table_of("customers"), app.view_of("counts")
    on = [("one.c", "customer.id"), rng.choice([("count.key", "one.d"), ("one.d", "count.value.n")])]
    sides: dict[str, Any] = {"count": counts, "one": orders, "customer": customers}
    if rng.random() < 0.4:
        sides["two"] = customers if rng.random() < 0.3 else orders.where(ps.field("a") > rng.choice([0, 1]))
        on.append(rng.choice([("two.id", "one.a"), ("customer.age", "two.id")]))
    rng.shuffle(on)
    where = None if rng.random() < 0.8 else ps.field("one.a") > 1
    chain = app.join("chain", on=on, where=where, limit=rng.choice([3, 30, 500]), **sides)
    if rng.random() < 0.7:
        path = rng.choice(["customer.country", "one.paid", "customer.age"])
        chain.view("chain_sums", key=path, value=rng.choice(["one.a", "count.value.n"]), reduce=ps.sum())
    if rng.random() < 0.5:
        chain.view("chain_rows", key="one.id", value="customer.country", reduce=None)
    if rng.random() < 0.3:
        chain.view("chain_sides", reduce=ps.count())(lambda row: [str(sorted(row["one"]))])
    if rng.random() < 0.3:
        above = app.join("above", on={"chain.one.a": "again.a"}, chain=chain, again=orders)
        above.view("above_n", key="chain.customer.country", reduce=ps.count())


def _views(rng: random.Random, sold: ps.Join) -> None:
    definitions: list[Any] = [
        lambda: sold.view("sums", key="customer.country", value="order.a", reduce={"s": ps.sum(), "n": ps.count()}),
        lambda: sold.view("greatest", key=("customer.country", "order.paid"), value="order.a", reduce=ps.max()),
        lambda: sold.view("rows", key="order.id", value="customer.address", reduce=None),
        lambda: sold.view("ages", key="customer.age", reduce=ps.count()).view("more", key="value", reduce=ps.count()),
        lambda: sold.view("tiers", reduce=ps.sum(), sources=True)(_tiers),
    ]
    chosen = [define for define in definitions if rng.random() < 0.5]
    rng.shuffle(chosen)
    for define in chosen:
        define()


def _tiers(row: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    yield row["customer"].get("country"), row["order"].get("a")


class ChangingStore:
    """A store, and the records that it took."""

    def __init__(self, app: ps.App, few: int) -> None:
        self.store = LastingStore()
        self.limits = replace(TINY, few=few)
        self.taken: list[ps.Record] = []
        self.clock = 0
        self.engine: Engine
        self.core: Core
        self.open(app)

    def open(self, app: ps.App) -> None:
        """Open the store with an app. The former engine is lost."""
        self.app = app
        self.engine, self.core = open_on(app, self.store, self.limits, SEED)

    def take(self, rng: random.Random) -> None:
        """Put a batch over both tables."""
        batch = records(rng, 2 * self.clock + 2, rng.choice([3, 8, 40]))
        self.engine.ingest(batch, "spout", self.clock + 1)
        self.clock += 1
        self.taken += batch

    def live(self) -> str | None:
        """Judge the views that are not being built. Return the first difference."""
        building = self.engine.status()["building"]
        names = [view.name for view in self.app.views() if building is None or view.name not in building["views"]]
        oracle = Oracle(self.app)
        oracle.take(self.taken)
        with self.engine.snapshot() as snap:
            for name in names:
                got = [(row.key, row.value) for row in snap.view(name).items()]
                if repr(got) != repr(oracle.view(name).sorted()):
                    return f"{name}: {got} and not {oracle.view(name).sorted()}"
        return None

    def final(self) -> str | None:
        """Judge all of a store that has no step left. Return the first difference."""
        oracle = Oracle(self.app)
        oracle.take(self.taken)
        wrong = judged(self.engine, oracle)
        if wrong is not None:
            return wrong
        fresh, _ = open_on(self.app, MemoryStore(), None, SEED)
        fresh.ingest(self.taken, "spout", 1)
        joins = [engine.status()["joins"] for engine in (self.engine, fresh)]
        held = [{name: (own["held"], own["above_limit"], own["largest"]) for name, own in one.items()} for one in joins]
        if held[0] != held[1]:
            return f"holds {held[0]} and not {held[1]}"
        if self.engine.digest() != fresh.digest():
            return "rows agree, and content does not"
        found = self.engine.check()
        return None if found.ok else str(found)


def build_history(seed: int, apps: int = 4) -> str | None:
    """Run a history over some apps. Return the first difference, or None."""
    rng = random.Random(seed)
    merge, ts = rng.choice(list(Merge)), rng.choice(["ts", None])
    own = ChangingStore(drawn_app(rng, merge, ts), rng.choice([0, 16]))
    for number in range(apps):
        for _ in range(rng.randrange(20)):
            step = rng.choice(["take", "take", "build", "build", "build", "build", "forget", "open"])
            own.store.fails_in = rng.choice([0, 1]) if rng.random() < 0.1 else -1
            with suppress(Failed):
                if step == "take":
                    own.take(rng)
                elif step == "build":
                    own.core.build_step(rng.choice([1, 1, 2, 9]))
                elif step == "forget":
                    own.core.forget()
            own.store.fails_in = -1
            if step == "open":
                own.open(own.app)
            wrong = own.live()
            if wrong is not None:
                return f"seed {seed}, app {number}: {wrong}"
        if rng.random() < 0.5 or number == apps - 1:
            while own.core.build_step(rng.choice([2, 7])):
                pass
            wrong = own.final()
            if wrong is not None:
                return f"seed {seed}, app {number}: {wrong}"
        if number < apps - 1:
            own.open(drawn_app(rng, merge, ts))
    return None
