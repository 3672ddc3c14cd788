"""Orders and customers put into a store with a join, beside the same view without one: CPU time of whole puts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from time import perf_counter, process_time
from typing import Any

import msgspec

import penstock as ps
from bench import child
from bench.limits import SmallestCommit
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median

BATCH, COUNTRIES = 10_000, 200
NEW, TEXT, UPDATE = 0.5, 0.4, 0.4  # of the rate without a join
MOVE, HOT, BEYOND, UNREAD = 1.0, 0.5, 0.0013, 1.1

_encode = msgspec.json.encode


def joined_puts(plan: Plan) -> Iterator[Figure]:
    """Measure new and updated orders by the customer's country, and puts of customers."""
    size = f"{plan.docs:,} orders, {max(plan.docs // 10, 10):,} customers, batches of {min(BATCH, plan.docs):,}"
    puts = max(plan.puts // 10, 5)
    for kind, least in (("int", NEW), ("text", TEXT)):
        got = child.run(
            "bench.joined_puts:orders", folder=plan.at("joined"), docs=plan.docs, puts=puts, text=kind == "text"
        )
        for case, bound in (("new order", least), ("update", UPDATE)):
            plain, joined = got["plain"][case], got["joined"][case]
            limits: dict[str, float | None] = {"without a join": plain}
            reach, met = f"≥ {bound} × the rate without a join", plan.met(plain >= bound * joined)
            name = f"engine, {kind} keys, {case}, {size}"
            yield Figure("joins", name, joined, "µs of CPU", limits, got["idle"], reach, plain / joined, met)
        move, beyond = got["move"], median(got["puts"]) - median(got["commits"])
        reach, met = f"≤ {MOVE} µs of CPU", plan.met(move <= MOVE)
        name = f"engine, {kind} keys, customers that move, each of their orders"
        yield Figure("joins", name, move, "µs of CPU", {}, got["idle"], reach, None, met)
        reach, met = f"≤ smallest commit + {1e6 * BEYOND:.0f} µs", plan.met(beyond <= BEYOND)
        name = f"engine, {kind} keys, put of one customer with 10 orders"
        limits = {"smallest LMDB commit, µs": 1e6 * median(got["commits"])}
        yield Figure("joins", name, 1e6 * median(got["puts"]), "µs", limits, got["idle"], reach, 1e6 * beyond, met)
    got = child.run("bench.joined_puts:hot", folder=plan.at("hot"), docs=plan.docs, puts=puts)
    plain, joined = (1e6 * median(got[one]) for one in ("plain", "unread"))
    reach, met = f"≤ {UNREAD} × without a join", plan.met(joined <= UNREAD * plain)
    name = f"engine, unread field of a customer with {plan.docs:,} orders"
    yield Figure("joins", name, joined, "µs of CPU", {"without a join": plain}, None, reach, joined / plain, met)
    name = f"engine, a customer with {plan.docs:,} orders moves, each order"
    yield Figure(
        "joins", name, 1e6 * got["move"], "µs of CPU", {}, None, "≤ 0.5 µs of CPU", None, plan.met(got["move"] <= 5e-7)
    )


def _plain() -> ps.App:
    app = ps.App("plain")
    app.table("orders", key="id").view("sums", key="country", value="amount", reduce=ps.sum())
    app.table("customers", key="id").view("countries", key="country", reduce=ps.count())
    return app


def _joined() -> ps.App:
    app = ps.App("joined")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.customer": "customer.id"})
    sold.view("sums", key="customer.country", value="order.amount", reduce=ps.sum())
    return app


class _Shop:
    """Customers with countries, and orders of them."""

    def __init__(self, orders: int, customers: int, text: bool) -> None:
        self.rng = Random(1)
        self.orders, self.customers, self._text = orders, customers, text
        self.country = [f"C{self.rng.randrange(COUNTRIES)}" for _ in range(customers)]
        self.customer = [self.rng.randrange(customers) for _ in range(orders)]

    def key(self, number: int) -> Any:
        return f"k{number:08d}" if self._text else number

    def order(self, number: int) -> bytes:
        """Return an order with a new amount; it has the country for the view without a join."""
        customer = self.customer[number]
        own = {"id": self.key(number), "customer": self.key(customer), "amount": self.rng.randrange(1, 1000)}
        return _encode({**own, "country": self.country[customer]})

    def one(self, number: int, **more: Any) -> bytes:
        """Return a customer."""
        return _encode({"id": self.key(number), "country": self.country[number], **more})

    def moved(self, number: int) -> bytes:
        """Return a customer in a new country."""
        self.country[number] = f"C{self.rng.randrange(COUNTRIES)}"
        return self.one(number)

    def updates(self, batch: int) -> list[bytes]:
        """Return updated orders; half of them change their customer."""
        numbers = self.rng.sample(range(self.orders), batch)
        for number in numbers:
            if self.rng.random() < 0.5:
                self.customer[number] = self.rng.randrange(self.customers)
        return [self.order(number) for number in numbers]


def _batches(lines: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [lines[a : a + BATCH] for a in range(0, len(lines), BATCH)]


def _spent(engine: ps.Engine, table: str, batches: Sequence[Sequence[bytes]]) -> float:
    began = process_time()
    for batch in batches:
        engine.put_many(table, batch)
    return process_time() - began


def orders(folder: str, docs: int, puts: int, text: bool) -> dict[str, Any]:
    """Return the µs of CPU per order without and with a join, per pair of moves, and the seconds of single puts."""
    out: dict[str, Any] = {}
    customers = max(docs // 10, 10)
    for name, app in (("plain", _plain()), ("joined", _joined())):
        root, shop = fresh(folder), _Shop(docs, customers, text)
        with ps.open(app, root / "store") as engine, SmallestCommit(root) as smallest:
            for batch in _batches([shop.one(i) for i in range(customers)]):
                engine.put_many("customers", batch)
            new = _spent(engine, "orders", _batches([shop.order(i) for i in range(docs)]))
            updates = [shop.updates(min(BATCH, docs)) for _ in range(max(1, docs // BATCH // 3))]
            count = sum(map(len, updates))
            out[name] = {"new order": 1e6 * new / docs, "update": 1e6 * _spent(engine, "orders", updates) / count}
            if name == "joined":
                moves = [
                    [shop.moved(i) for i in shop.rng.sample(range(customers), min(BATCH, customers))] for _ in "abc"
                ]
                pairs = 3 * len(moves[0]) * docs // customers
                out["move"] = 1e6 * _spent(engine, "customers", moves) / pairs
                out["puts"], out["commits"] = [], []
                for _ in range(puts):
                    document = msgspec.json.decode(shop.moved(shop.rng.randrange(customers)))
                    out["commits"].append(smallest.once())
                    began = perf_counter()
                    engine.put("customers", document)
                    out["puts"].append(perf_counter() - began)
    return out


def hot(folder: str, docs: int, puts: int) -> dict[str, Any]:
    """Return CPU seconds of puts of one customer with all orders: without a join, of an unread field, and per order."""
    out: dict[str, Any] = {}
    for name, app in (("plain", _plain()), ("unread", _joined())):
        shop = _Shop(docs, 1, text=False)
        with ps.open(app, fresh(folder) / "store") as engine:
            engine.put_many("customers", [shop.one(0)])
            for batch in _batches([shop.order(i) for i in range(docs)]):
                engine.put_many("orders", batch)
            out[name] = [_spent(engine, "customers", [[shop.one(0, note=i)]]) for i in range(puts)]
            if name == "unread":
                out["move"] = _spent(engine, "customers", [[shop.moved(0)]]) / docs
    return out
