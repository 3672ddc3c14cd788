"""Nested documents of 1.1 kB with fields down to depth 3, and Decimals: by field views and by functions.

Rates are per second of CPU time, of one core and of the whole call. Beside them DuckDB computes one view from the same
lines, on one thread, and keeps nothing.
"""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import CITIES, cut

TABLE, BATCH, SHARE = "orders", 10_000, 10
"""The name of the table, the documents of a transaction, and the part of the documents of other figures."""
_CENT = Decimal("0.01")
_LINE = (
    b'{"id": %d, "ts": %d, "channel": "web", "customer": {"name": "Customer %d", "segment": "s%d", "address": {"city": '
    b'"c%d", "zip": "%05d", "country": "NO", "lines": ["Storgata %d", "2. etasje", "oppgang B"]}, "contact": {"mail": '
    b'"customer%d@example.org", "phone": "+47 555 %05d", "consent": {"mail": true, "phone": false}}}, "device": {"os": '
    b'{"name": "Linux", "version": "6.8"}, "browser": {"name": "Firefox", "version": "128.0", "plugins": []}, "screen":'
    b' {"width": 1920, "height": 1080, "scale": 1.25}}, "order": {"total": {"amount": %d, "tax": %d, "currency": "NOK"}'
    b', "discount": null, "items": [{"sku": "A-%d", "name": "Coffee, dark roast, 500 g", "count": 2, "price": 129.5, '
    b'"tags": ["organic", "fair"]}, {"sku": "B-%d", "name": "Filter papers, size 4", "count": 1, "price": 39.9, "tags":'
    b' []}, {"sku": "C-%d", "name": "Kettle with a swan neck, 1 l", "count": 1, "price": 499.0, "tags": ["steel"]}]}, '
    b'"delivery": {"carrier": {"name": "Post", "service": "box"}, "window": {"from": "2024-05-01T08:00:00Z", "to": '
    b'"2024-05-01T12:00:00Z"}, "note": "Leave it with the neighbours to the left if nobody opens the door, please"}}'
)
_SQL = """
select customer.address.city as city, count(*), sum("order".total.amount)
from read_json(?, format='newline_delimited') where device.os.name = 'Linux' group by city
"""


def app(functions: bool = False, decimals: bool = False) -> ps.App:
    """Return an app with a count by segment, and count and sum by city of orders from one system."""
    shop = ps.App("nested")
    orders = shop.table(TABLE, key="id", ts="ts")
    if decimals:
        orders.view("by_city", key="city", reduce={"n": ps.count(), "total": ps.sum("price"), "tax": ps.sum("tax")})
    elif not functions:
        linux = ps.field("device.os.name") == "Linux"
        total = {"n": ps.count(), "total": ps.sum("order.total.amount"), "tax": ps.sum("order.total.tax")}
        orders.view("by_city", key="customer.address.city", where=linux, reduce=total)
        orders.view("by_segment", key="customer.segment", reduce=ps.count())
    else:

        @orders.view(reduce={"n": ps.count(), "total": ps.sum("amount"), "tax": ps.sum("tax")})
        def by_city(order: dict[str, Any]) -> Iterator[Any]:
            if order["device"]["os"]["name"] == "Linux":
                yield order["customer"]["address"]["city"], order["order"]["total"]

        @orders.view(reduce=ps.count())
        def by_segment(order: dict[str, Any]) -> Iterator[Any]:
            yield order["customer"]["segment"]

    return shop


def lines(docs: int, keys: list[int] | None = None, first: int = 0) -> list[bytes]:
    """Return orders as JSON lines, each of its own key or of the given keys. `first` is the ts of the first one."""
    city, amount = _drawn(docs)
    rows = zip(range(docs) if keys is None else keys, range(first, first + docs), city, amount, strict=True)
    return [
        _LINE % (i, ts, i, i % 7, c, i % 99_999, i % 90, i, i % 99_999, a, a // 4, i, i + 1, i + 2)
        for i, ts, c, a in rows
    ]


def decimals(docs: int) -> list[dict[str, Any]]:
    """Return distinct orders as dicts with Decimals."""
    rows = zip(range(docs), *_drawn(docs), strict=True)
    return [{"id": i, "city": f"c{c}", "price": a * _CENT, "tax": a * _CENT / 4, "ts": i} for i, c, a in rows]


def load(folder: str, docs: int, functions: bool, exact: bool) -> dict[str, Any]:
    """Measure the CPU seconds to load these documents into an empty store."""
    store = fresh(folder) / "store"
    given: list[Any] = decimals(docs) if exact else lines(docs)
    engine = ps.open(app(functions, exact), store)
    began = time.process_time()
    for part in cut(given, BATCH):
        engine.put_many(TABLE, part, batch=BATCH)
    seconds = time.process_time() - began
    with engine.snapshot() as snap:
        rows = dict(snap.view("by_city").items())
    engine.close()
    city, amount = _drawn(docs)
    unit = _CENT if exact else 1
    first = sum(a for c, a in zip(city, amount, strict=True) if c == city[0])
    assert rows[f"c{city[0]}"]["total"] == unit * first, "a wrong sum"
    shutil.rmtree(store.parent)
    return {"seconds": seconds}


def duck(folder: str, docs: int) -> dict[str, Any]:
    """Measure the CPU seconds of DuckDB for one of the views."""
    duckdb: Any = importlib.import_module("duckdb")
    file = fresh(folder) / "orders.jsonl"
    file.write_bytes(b"\n".join(lines(docs)) + b"\n")
    began = time.process_time()
    with duckdb.connect(config={"threads": 1}) as base:
        rows = base.execute(_SQL, [str(file)]).fetchall()
    seconds = time.process_time() - began
    assert sum(n for _, n, _ in rows) == docs, "DuckDB counts every document"
    shutil.rmtree(file.parent)
    return {"seconds": seconds}


def nested(plan: Plan) -> Iterator[Figure]:
    """Nested documents by field and by function, beside DuckDB; and Decimals by field."""
    docs = max(1, plan.docs // SHARE)
    cases = {"by field": (False, False), "by function": (True, False), "Decimals by field": (False, True)}
    seconds: dict[str, list[float]] = {case: [] for case in [*cases, "duck"]}
    idle = list[float | None]()
    for _ in range(plan.rounds):
        for case, (functions, exact) in cases.items():
            found = child.run(
                "bench.nested:load", 1, folder=plan.at("nested"), docs=docs, functions=functions, exact=exact
            )
            seconds[case].append(found["seconds"])
            idle.append(found["idle"])
        seconds["duck"].append(child.run("bench.nested:duck", 1, folder=plan.at("nested"), docs=docs)["seconds"])
    duckdb = docs / median(seconds["duck"])
    quiet = min((share for share in idle if share is not None), default=None)
    for case in cases:
        rate = docs / median(seconds[case])
        beside: dict[str, float | None] = {"DuckDB, one view": None if case.startswith("Dec") else duckdb}
        yield Figure("nested", case, rate, "documents/s", beside, quiet, detail={"CPU seconds": seconds[case]})


def _drawn(docs: int) -> tuple[list[int], list[int]]:
    random = np.random.default_rng(1)
    return random.integers(0, CITIES, docs).tolist(), random.integers(0, 100_000, docs).tolist()
