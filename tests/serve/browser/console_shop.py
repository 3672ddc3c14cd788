"""A shop whose console shows each kind of row: views, a join, a held document, rejected records."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.serve.serving import RunningServer

__all__ = ["APP", "SCRIPT", "fill", "filled", "orders", "put"]

SCRIPT = "<script>document.title = 'taken over'</script>"
"""The name of a customer, which must appear as text."""

APP = """
from collections.abc import Iterator
from typing import Any

import penstock as ps

app = ps.App("shop")
customers = app.table("customers", key="id")
orders = app.table("orders", key="id", ts="ts")
revenue = orders.view("revenue", key="country", reduce={"orders": ps.count(), "total": ps.sum("amount")})
by_day = orders.view("by_day", key=("country", "day"), reduce={"orders": ps.count(), "total": ps.sum("amount")})
largest = orders.view("largest", key="country", value="amount", reduce=ps.max())


@orders.view(reduce=ps.sum())
def articles(order: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for item in order["items"]:
        yield item["article"], item["pieces"]


size = revenue.view("size", key="value.orders", reduce=ps.count())
bought = app.join("bought", customer=customers, order=orders, on={"customer.id": "order.customer"})
by_segment = bought.view("by_segment", key="customer.segment", reduce={"total": ps.sum("order.amount")})
"""

_COUNTRIES = ["DE", "DK", "FI", "FR", "NL", "NO", "PL", "SE"]
_ARTICLES = ["anchor", "buoy", "cleat", "fender", "rope", "sail", "winch"]


def customers() -> list[dict[str, Any]]:
    """Return the customers; one has a script as name."""
    names = ["Ahoy AS", "Baltic Yard", "Cape & Sons", SCRIPT, "Dock Nine", "Fjord Supply"]
    segments = ["retail", "yard", "yard", "retail", "charter", "charter"]
    return [{"id": i, "name": name, "segment": segments[i]} for i, name in enumerate(names)]


def orders(number: int, first: int = 1, seed: int = 7) -> list[dict[str, Any]]:
    """Return so many orders, the same ones for each call with these arguments."""
    draw = random.Random(f"{seed} {first}")
    return [
        {
            "id": first + i,
            "ts": 1,
            "customer": draw.randrange(6),
            "country": draw.choices(_COUNTRIES, [9, 5, 3, 6, 4, 12, 2, 8])[0],
            "day": f"2026-11-{draw.randint(1, 20):02d}",
            "amount": round(draw.lognormvariate(4, 0.9), 2),
            "items": [{"article": draw.choice(_ARTICLES), "pieces": draw.randint(1, 9)} for _ in range(2)],
        }
        for i in range(number)
    ]


def put(server: RunningServer, table: str, documents: list[Any]) -> None:
    """Put documents into a table."""
    lines = b"\n".join(own if isinstance(own, bytes) else json.dumps(own).encode() for own in documents)
    answer = server.ask("POST", f"/v1/tables/{table}", lines)
    assert answer.status == 200, answer.body


def filled(folder: Path, *options: str) -> RunningServer:
    """Return a server of the shop, to be entered and then given its documents by `fill`."""
    return RunningServer(folder, *options, app=APP)


def fill(server: RunningServer) -> None:
    """Put customers and orders, three records that are rejected, and an order that a view holds."""
    put(server, "customers", customers())
    put(server, "orders", orders(600))
    put(server, "orders", [{"id": 601, "ts": 2, "customer": 1, "country": "NO", "day": "2026-11-20", "amount": 80}])
    put(server, "orders", [b'{"ts": 3, "country": "SE", "amount": 12.5}', b'{"id": 602, "ts": ', b'["no object"]'])
