"""Apps with joins for the engine's own crash tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from penstock.mapreduce import count, max, sum
from penstock.testing.inputs.trial_apps import Trial, TrialRecords
from penstock.views import App, field

__all__ = ["altered", "chained", "held", "joined", "joined_early", "layered"]

_NAMES = ("Sue", "Joe", "Bob", "Jo")
_LONG = "x" * 450


def joined() -> Trial:
    """Return an app with joins of two tables and of a table with itself."""
    app = App("joined")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts", merge="patch")
    on = {"order.c": "customer.id"}
    sold = app.join("sold", order=orders.where(field("n") != 7), customer=customers, on=on, limit=6)
    sold.view("sums", key="customer.name", value="order.n", reduce={"sum": sum(), "n": count()})
    sold.view("most", key="customer.name", value="order.n", reduce=max())
    sold.view("rows", key="order.id", value="customer.name", reduce=None)
    pairs = app.join("pairs", one=orders, other=orders, on=[("one.c", "other.d"), ("one.name", "other.name")])
    pairs.view("kept", key=(), value="other.n", reduce=sum(), sources=True)
    any_order = app.join("any_order", order=orders, customer=customers, on=on, how="left", where=field("order.n") != 2)
    any_order.view("by_name", key="customer.name", value="order.n", reduce={"sum": sum(), "n": count()})
    every = app.join("every", order=orders, customer=customers, on={"order.name": "customer.name"}, how="full", limit=6)
    every.view("ages", key=("order.d", "customer.age"), value="order.n", reduce=max())
    buyers = app.join("buyers", customer=customers, order=orders, on={"customer.id": "order.c"}, how="semi")
    buyers.view("buyer_names", key="customer.name", reduce=count(), sources=True)
    idle = app.join("idle", customer=customers, order=orders, on={"customer.id": "order.d"}, how="anti")
    idle.view("idle_ages", key="customer.name", value="customer.age", reduce=sum())

    @every.view(reduce=count())
    def missing(row: Any) -> Iterator[Any]:
        yield [name for name, own in row.items() if own is None], None
        yield row["order"]["c"] if row["order"] else row["customer"]["name"][0], None

    app.view_of("sums").view("sizes", key="value.n", reduce=count())

    @sold.view("words", reduce=count())
    def _(row: Any) -> Iterator[Any]:
        yield from ((letter, None) for letter in row["customer"]["name"])

    return _trial(app, (1, 2, 3, "a", _LONG, True))


def layered() -> Trial:
    """Return an app whose joins have views and joins as sides, beside the table of a view and on another join."""
    app = App("layered")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts", merge="patch")
    totals = orders.view("totals", key="c", value="n", reduce={"sum": sum(), "n": count()})
    beside = app.join("beside", order=orders, total=totals.where(field("value.n") < 4), on={"order.c": "total.key"})
    shares = beside.view("shares", key="order.name", value="total.value.sum", reduce=sum())
    beside.view("most", key="total.value.n", value="order.n", reduce=max())

    @beside.view(reduce=count())
    def kinds(row: Any) -> Iterator[Any]:
        yield (row["order"]["name"] or "").upper(), None

    named = customers.view("named", key="name", reduce=count())
    lists = orders.view("lists", key=("name", "d"), reduce=count())
    known = app.join("known", share=shares, named=named, on={"share.key": "named.key"})
    known.view("rows", key="named.value", value="share.value", reduce=None)
    pairs = app.join("pairs", customer=customers, list=lists, on={"customer.id": "list.value"}, limit=20)
    pairs.view("listed", key="list.key", reduce=count(), sources=True)
    deep = app.join("deep", share=beside, customer=customers, on={"share.order.c": "customer.id"}, how="full", limit=30)
    deep.view("names", key="customer.name", value="share.total.value.sum", reduce=sum())
    return _trial(app, (1, 2, 3, "a", _LONG))


def chained() -> Trial:
    """Return an app with a join of three sides."""
    app = App("chained")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts", merge="patch")
    totals = orders.view("totals", key="c", value="n", reduce={"sum": sum(), "n": count()})
    on = {"order.c": "customer.id", "total.value.n": "order.n"}
    three = app.join("three", total=totals, order=orders, customer=customers, on=on, limit=30)
    three.view("sides", key="customer.name", value="total.value.sum", reduce=sum(), sources=True)

    @three.view(reduce=count())
    def initials(row: Any) -> Iterator[Any]:
        yield (row["customer"]["name"][0], row["total"]["key"]), None

    return _trial(app, (1, 2, 3, "a", _LONG))


def altered() -> Trial:
    """Return an app that may change to others: with new fields of sides, and other joins, conditions and limits."""
    trial = _trial(_altered(0), (1, 2, 3, "a", _LONG))
    return replace(trial, others=(_altered(1), _altered(2)))


def _altered(number: int) -> App:
    app = App("altered")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts", merge="patch")
    totals = orders.view("totals", key="c", value="n", reduce={"sum": sum(), "n": count()})
    on = {"order.c": "customer.id"}
    sold = app.join("sold", order=orders, customer=customers, on=on, limit=6 if number == 2 else 8)
    sold.view("sums", key="customer.name", value="order.n", reduce={"sum": sum(), "n": count()})
    chain = {**on, "total.key": "order.d"} if number == 2 else {**on, "total.value.n": "order.n"}
    three = app.join("three", total=totals, order=orders, customer=customers, on=chain, limit=30)
    three.view("sides", key="customer.name", value="total.value.sum", reduce=sum(), sources=True)
    three.view("numbers", key="customer.name", value="order.n", reduce={"sum": sum(), "n": count()})
    if number == 1:
        sold.view("ages", key="customer.age", value="order.name", reduce=max())
        three.view("by_d", key="order.d", value="customer.age", reduce=max())
        idle = app.join("idle", customer=customers, order=orders, on={"customer.id": "order.c"}, how="anti")
        idle.view("idle_ages", key="customer.age", reduce=count())
    else:
        every = app.join("every", customer=customers, order=orders, on={"customer.id": "order.c"}, how="left")
        every.view("every_n", key="customer.name", value="order.n", reduce=max())
        full = app.join("full", order=orders, customer=customers, on={"order.name": "customer.name"}, how="full")
        full.view("full_d", key="order.d", value="customer.id", reduce=count() if number else max())
    return app


def _trial(app: App, keys: tuple[Any, ...]) -> Trial:
    def order(choose: Random, _: int) -> dict[str, Any]:
        own: dict[str, Any] = {"c": choose.choice((*keys, 1.0, None)), "d": choose.choice((1, 2, None, [1, None]))}
        return own | {"name": choose.choice(_NAMES[:2]), "n": choose.choice((1, 2, 7, None))}

    def customer(choose: Random, now: int) -> dict[str, Any]:
        name = choose.choice((*_NAMES, None))
        return {"name": name} if choose.random() < 0.8 else {"age": now}

    return Trial(app.name, app, lambda: TrialRecords({"orders": order, "customers": customer}, keys=keys))


def joined_early() -> Trial:
    """Return an app with joins, and with views that send early sets to other partitions."""
    trial = joined()
    app = trial.app
    app.table_of("orders").view(
        "by_c", key="c", value="n", reduce={"sum": sum(), "n": count()}, sources=True, production="weak"
    )
    ages = app.table_of("customers").view("greatest_age", key="name", value="age", reduce=max(), production="auto")
    ages.view("on_ages", key="value", reduce=count())
    return trial


def held() -> Trial:
    """Return an app whose joins hold documents, on sides with an index and on sides that are looked up by key."""
    app = App("held")
    orders, customers = app.table("orders", key="id", ts="ts"), app.table("customers", key="id", ts="ts", merge="patch")
    near = app.join("near", order=orders, customer=customers, on={"order.d": "customer.d"}, how="full", limit=12)
    near.view("names", key="customer.name", value="order.n", reduce={"sum": sum(), "n": count()})
    chain = {"one.c": "customer.id", "customer.d": "other.d"}
    three = app.join("three", one=orders, customer=customers, other=orders, on=chain, limit=30)
    three.view("ages", key="customer.name", value="one.n", reduce=sum())
    three.view("pairs", key="other.name", value="customer.age", reduce=max())
    values = (1, 2, None, {"no": 1})

    def order(choose: Random, _: int) -> dict[str, Any]:
        own: dict[str, Any] = {"c": choose.choice((1, 2, 3)), "d": choose.choice(values)}
        return own | {"name": choose.choice(_NAMES[:2]), "n": choose.choice((1, 2))}

    def customer(choose: Random, now: int) -> dict[str, Any]:
        if choose.random() < 0.4:
            return {"d": choose.choice(values)}
        return {"name": choose.choice(_NAMES)} if choose.random() < 0.8 else {"age": now}

    return Trial(app.name, app, lambda: TrialRecords({"orders": order, "customers": customer}, keys=(1, 2, 3)))
