"""Histories of an engine with joins, judged after every batch by the oracle's nested loop."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import Engine, open_on
from penstock.testing.expected.expected_views import Oracle
from penstock.views import Merge

VALUES = [None, 1, 1.0, 2, True, "a", b"a", [1, None], [1, 2], float("nan"), 1 << 70]
COUNTRIES = ["a", "se", None, 1]
KEYS = 6


def shop(merge: Merge = Merge.REPLACE, ts: str | None = "ts", filtered: bool = False) -> ps.App:
    """Return an app with joins of one and of two tables, and with views of each kind on them."""
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts=ts, merge=merge)
    customers = app.table("customers", key="id", ts=ts, merge=merge)
    waiting = orders.where(ps.field("paid") == True) if filtered else orders  # noqa: E712
    sold = app.join(
        "sold",
        order=waiting,
        customer=customers,
        on={"order.c": "customer.id"},
        where=ps.field("order.a") > 1 if filtered else None,
    )
    sold.view("sums", key="customer.country", value="order.a", reduce={"sum": ps.sum(), "n": ps.count()})
    sold.view("greatest", key=("customer.country", "order.paid"), value="order.a", reduce=ps.max())
    sold.view("rows", key="order.id", value="customer.address", reduce=None)

    @sold.view(reduce=ps.sum(), sources=True)
    def tiers(row: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        yield row["customer"].get("seen", row["customer"].get("country")), row["order"].get("a")
        row["customer"]["seen"] = "yes"  # a function may change its row, and no other function sees that

    @sold.view(reduce=ps.count())
    def again(row: dict[str, Any]) -> Iterator[Any]:
        yield row["customer"].get("seen", row["customer"].get("country"))

    pairs = app.join("pairs", one=orders, other=orders, on={"one.c": "other.d", "other.paid": "one.paid"}, limit=5)
    pairs.view("pairs_of", key="one.id", value="other.id", reduce=ps.collect(9))
    pairs.view("pair_sums", key=(), where=ps.field("one.a") >= 2, value="other.a", reduce=ps.sum())
    near = app.join("near", order=orders, customer=customers, on={"order.c": "customer.country"}, limit=5)
    near.view("near_sums", key="order.c", value="customer.age", reduce=ps.sum())
    _outer(app, waiting, customers)
    below = app.view_of("sums").view("countries", key="value.n", reduce=ps.count())
    assert below.tables == (orders, customers)
    return app


def _outer(app: ps.App, orders: Any, customers: ps.Table) -> None:
    """Add a join of each kind with rows beside pairs, with views of each kind."""
    age = {"order.d": "customer.age"}
    left = app.join("left", order=orders, customer=customers, on={"order.c": "customer.id"}, how="left")
    left.view("left_sums", key="customer.country", value="order.a", reduce={"sum": ps.sum(), "n": ps.count()})
    left.view("left_rows", key="order.id", value="customer.address", reduce=None)
    unmatched = ps.field("order.a") == None  # noqa: E711
    full = app.join("full", order=orders, customer=customers, on=age, how="full", limit=5)
    full.view("full_sums", key=("order.c", "customer.country"), value="order.a", reduce=ps.max())
    full.view("lonely", key="customer.id", where=unmatched, reduce=ps.count())
    per = app.join("per", customer=customers, order=orders, on={"customer.id": "order.c"}, how="left")
    per.view(
        "per_country",
        key=("customer.country", "order.paid"),
        value="order.a",
        reduce={"sum": ps.sum(), "n": ps.count()},
    )
    grown = customers.where(ps.field("age") > 0)
    mates = app.join("mates", one=orders, other=grown, on={"one.d": "other.id"}, how="left")
    mates.view("mate_sums", key=("other.country", "one.paid"), value="other.age", reduce=ps.sum())
    same = app.join("same", order=orders, customer=customers, on={"customer.id": "order.id"})  # both are key sides
    same.view("same_rows", key="order.id", value="customer.country", reduce=None)
    own = app.join("own", customer=customers, order=orders, on={"customer.id": "order.id"}, how="anti")
    own.view("own_rows", key="customer.country", value="customer.age", reduce=ps.sum(), sources=True)
    some = app.join("some", order=orders, customer=customers, on=age, how="semi", limit=5)
    some.view("some_sums", key="order.c", value="order.a", reduce=ps.sum())
    rest = app.join("rest", order=orders, customer=customers, on=age, how="anti", where=ps.field("order.a") > 0)
    rest.view("rest_sums", key="order.c", value="order.a", reduce=ps.sum(), sources=True)

    @full.view(reduce=ps.count())
    def present(row: dict[str, Any]) -> Iterator[Any]:
        yield tuple(sorted(name for name, own in row.items() if own is not None)), None
        if row["order"] is not None:
            yield row["order"]["a"] + 1

    @some.view(reduce=ps.count())
    def kinds(row: dict[str, Any]) -> Iterator[Any]:
        yield tuple(row), None


def layered(merge: Merge = Merge.REPLACE, ts: str | None = "ts", filtered: bool = False) -> ps.App:
    """Return an app whose joins have views as sides, some of them beside their own table or on another join."""
    app = ps.App("layered")
    orders = app.table("orders", key="id", ts=ts, merge=merge)
    customers = app.table("customers", key="id", ts=ts, merge=merge)
    totals = orders.view("totals", key="c", value="a", reduce={"sum": ps.sum(), "n": ps.count()})
    large = totals.where(ps.field("value.n") > 1) if filtered else totals
    beside = app.join("beside", order=orders, total=large, on={"order.c": "total.key"}, limit=20)
    shares = beside.view("shares", key="order.paid", value="total.value.sum", reduce=ps.sum())
    beside.view("greatest", key="total.value.n", value="order.a", reduce=ps.max())

    @beside.view(reduce=ps.count(), sources=True)
    def words(row: dict[str, Any]) -> Iterator[Any]:
        yield row["total"]["value"]["sum"], None
        row["total"]["value"]["sum"] = None

    places = customers.view("places", key=("age", "country"), value="address.city", reduce=ps.collect(3))
    noted = orders.view("noted", key=("a", "note"), reduce=ps.count())
    homes = app.join("homes", note=noted, place=places, on={"note.key": "place.key"})
    homes.view("by_key", key="place.key", value="note.value", reduce=ps.sum())

    @homes.view(reduce=ps.collect(9))
    def parts(row: dict[str, Any]) -> Iterator[Any]:
        yield row["place"]["key"][0], row["place"]["key"]

    again = app.join("again", share=shares, customer=customers, on={"share.value": "customer.age"})
    again.view("keys", key="share.key", value="customer.country", reduce=None)
    return app


def nested(merge: Merge = Merge.REPLACE, ts: str | None = "ts", filtered: bool = False) -> ps.App:
    """Return an app whose joins have joins as sides: of a table, of itself, and with rows that have no match."""
    app = ps.App("nested")
    orders = app.table("orders", key="id", ts=ts, merge=merge)
    customers = app.table("customers", key="id", ts=ts, merge=merge)
    kept = app.join("kept", order=orders, customer=customers, on={"order.c": "customer.id"}, how="left", limit=8)
    sold = kept.where(ps.field("order.paid") == True) if filtered else kept  # noqa: E712
    again = app.join("again", sale=sold, other=orders, on=[("sale.order.d", "other.c"), ("sale.order.a", "other.a")])
    again.view("counts", key="sale.customer.country", reduce={"n": ps.count(), "sum": ps.sum("sale.order.a")})
    again.view("rows", key=("other.id", "sale.order.id"), value="sale.customer.address", reduce=None)

    @again.view(reduce=ps.count())
    def whole(row: dict[str, Any]) -> Iterator[Any]:
        yield (row["sale"]["customer"] or {}).get("country"), None

    pairs = app.join("pairs", one=kept, other=kept, on={"one.customer.age": "other.order.a"}, how="full", limit=9)
    pairs.view("ages", key="one.order.c", value="other.customer.age", reduce=ps.sum(), sources=True)
    ages = pairs.view("by_age", key="other.customer.age", reduce=ps.count())
    apart = app.join("apart", pair=pairs, age=ages, on={"pair.one.order.a": "age.key"}, how="anti")
    apart.view("left", key="pair.other.order.id", value="pair.one.order.id", reduce=ps.collect(20))
    return app


def chained(merge: Merge = Merge.REPLACE, ts: str | None = "ts", filtered: bool = False) -> ps.App:
    """Return an app with joins of three and four sides, in chains and circles, whose sides are of each kind."""
    app = ps.App("chained")
    orders = app.table("orders", key="id", ts=ts, merge=merge)
    customers = app.table("customers", key="id", ts=ts, merge=merge)
    totals = orders.view("totals", key="c", value="a", reduce={"sum": ps.sum(), "n": ps.count()})
    waiting = orders.where(ps.field("paid") == True) if filtered else orders  # noqa: E712
    three = app.join(
        "three",
        total=totals,
        order=waiting,
        customer=customers,
        on={"order.c": "customer.id", "total.key": "order.d"},
        where=ps.field("total.value.n") < 4 if filtered else None,
        limit=20,
    )
    three.view("sums", key="customer.country", value="total.value.sum", reduce={"sum": ps.sum(), "n": ps.count()})
    three.view("rows", key="order.id", value="customer.address", reduce=None)

    @three.view(reduce=ps.count())
    def whole(row: dict[str, Any]) -> Iterator[Any]:
        yield (row["customer"].get("country"), row["order"].get("a"), row["total"]["key"]), None

    circle = [("one.a", "two.a"), ("two.c", "three.id"), ("three.age", "one.note"), ("two.paid", "four.paid")]
    four = app.join("four", one=orders, two=orders, three=customers, four=orders, on=[*circle, ("four.d", "three.id")])
    four.view("pairs", key="three.country", value="four.a", reduce=ps.max())
    on = [("sale.order.id", "order.id"), ("order.d", "customer.age")]
    deep = app.join("deep", customer=customers, sale=three, order=orders, on=on)
    deep.view("ages", key="customer.country", value="sale.total.value.sum", reduce=ps.sum(), sources=True)
    return app


def document(rng: random.Random, table: str, key: int, ts: int) -> dict[str, Any]:
    """Return a document; some of its fields may be absent."""
    if table == "orders":
        own = {"c": rng.choice(VALUES), "d": rng.choice(VALUES[:6]), "a": rng.randrange(4), "note": rng.randrange(2)}
        own["paid"] = rng.choice([True, False])
    else:
        own = {
            "country": rng.choice(COUNTRIES),
            "address": {"city": rng.choice(["Oslo", "Rome"])},
            "age": rng.randrange(3),
        }
    gone = [name for name in own if name != "a" and rng.random() < 0.15]
    return {"id": key, "ts": ts, **{name: value for name, value in own.items() if name not in gone}}


def records(rng: random.Random, clock: int, most: int) -> list[ps.Record]:
    """Return the records of one batch over both tables, some of them late or deletions."""
    out = []
    for _ in range(rng.randrange(1, most)):
        table, key = rng.choice(["orders", "customers"]), rng.randrange(KEYS)
        ts = clock - rng.choice([0, 0, 0, 5])
        doc = None if rng.random() < 0.25 else document(rng, table, key, ts)
        out.append(ps.Record(table, key, doc, ts if doc is None else None))
    return out


def judged(engine: Engine, oracle: Oracle) -> str | None:
    """Return the first difference between the engine's views and the oracle's, or None."""
    with engine.snapshot() as snap:
        for view in oracle.app.views():
            got, want = [(row.key, row.value) for row in snap.view(view.name).items()], oracle.view(view.name).sorted()
            if repr(got) != repr(want):
                return f"{view.name}: {got} and not {want}"
    return None


def history(seed: int, steps: int = 12, app_of: Callable[..., ps.App] = shop) -> str | None:
    """Run a history with late records, deletions, reopenings and checks. Return the first difference, or None."""
    rng = random.Random(seed)
    app = app_of(rng.choice(list(Merge)), rng.choice(["ts", None]), rng.random() < 0.5)
    store, oracle = MemoryStore(), Oracle(app)
    engine, _ = open_on(app, store)
    for step in range(steps):
        batch = records(rng, step * 2, rng.choice([3, 8, 40]))
        engine.ingest(batch, "spout", step + 1)
        oracle.take(batch)
        wrong = judged(engine, oracle)
        if wrong is not None:
            return f"seed {seed}, step {step}: {wrong}"
        if rng.random() < 0.2:  # all memory is read from the store again
            engine, _ = open_on(app, store)
    found = engine.check()
    return None if found.ok else f"seed {seed}: {found}"
