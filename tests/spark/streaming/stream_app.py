"""The app of the streams of tests, and its documents. Its reducer kills the process that runs it once per marker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import penstock as ps

CITIES = ("Bern", "Rome", "Oslo", "Nice", "Bonn", "York")


class Largest:
    """A monoid: the largest value. If the marker is there, it kills its process in the middle of a stage."""

    zero = None

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        with suppress(FileNotFoundError):
            os.unlink(self.marker)
            os.kill(os.getpid(), signal.SIGKILL)
        return b if a is None else a if b is None else max(a, b)


def letters(order: dict[str, Any]) -> Iterator[str]:
    """Yield the letters of a city."""
    yield from order["city"]


def streamed(marker: str = "absent") -> ps.App:
    """Return an app with chained views, a join, a monoid and a function view."""
    app = ps.App("streamed")
    orders = app.table("orders", key="id", ts="ts")
    customers = app.table("customers", key="id", ts="ts")
    reducers = {"n": ps.count(), "sum": ps.sum("amount"), "most": ps.max("amount")}
    totals = orders.view("totals", key="city", reduce=reducers)
    sizes = totals.view("sizes", key="value.n", reduce=ps.count())
    sizes.view("spread", key=(), reduce=ps.sum("value"))
    orders.view("largest", key="city", value="amount", reduce=ps.monoid(Largest(marker)))
    sold = app.join("sold", order=orders, customer=customers, on={"order.customer": "customer.id"}, how="left")
    sold.view("tiers", key="customer.tier", value="order.amount", reduce=ps.sum())
    orders.view("letters", reduce=ps.count())(letters)
    return app


def documents(seed: int, many: int) -> dict[str, list[dict[str, Any]]]:
    """Return documents of both tables, with updates, late versions and a document without a key."""
    draw = Random(seed)
    out: dict[str, list[dict[str, Any]]] = {"orders": [], "customers": []}
    for ts in range(many):
        if draw.random() < 0.25:
            out["customers"].append({"id": draw.randrange(9), "ts": ts, "tier": draw.choice("ABC")})
            continue
        key = draw.randrange(40) if draw.random() > 0.02 else None
        order = {
            "id": key,
            "ts": ts - draw.choice((0, 0, 9)),
            "city": draw.choice(CITIES),
            "amount": draw.randrange(99),
        }
        out["orders"].append(order | {"customer": draw.choice((None, *range(9)))})
    return out


def append(folder: Path, docs: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Append documents to a file per table; return the URIs."""
    for table, own in docs.items():
        with open(folder / f"{table}.jsonl", "ab") as file:
            file.writelines(msgspec.json.encode(doc) + b"\n" for doc in own)
    return {table: str(folder / f"{table}.jsonl") for table in docs}
