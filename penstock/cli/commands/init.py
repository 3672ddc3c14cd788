"""Write an example app with comments, and documents for its tables. The files then belong to the user."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import click

from penstock.cli.command_frame import command
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError

APP_FILE = "app.py"

APP_TEXT = '''"""An app: tables of documents, and views and joins that stay true while the documents change."""

import penstock as ps

app = ps.App("shop")

# A table is a stream of documents by key. Of several versions of a document the one with the greatest ts wins, so that
# records may come late, twice, or in any order. `penstock crashtest` makes documents like those of the sample.
orders = app.table("orders", key="id", ts="ts", sample="orders.jsonl")

# Customers of these orders, and products that they buy. Tables may be loaded in any order.
customers = app.table("customers", key="id", ts="ts", sample="customers.jsonl")
# A key may be text, too.
products = app.table("products", key="id", ts="ts", sample="products.jsonl")

# A view by fields: one row for each country, over the orders that are paid. Sums are exact, also when an order changes
# or is deleted.
revenue = orders.view("revenue", key="country", where="paid", reduce={"n": ps.count(), "total": ps.sum("amount")})

# A group may be a tuple: `penstock query daily --level 1` then adds up its first part.
daily = orders.view("daily", key=("country", "day"), where=ps.field("amount") > 0, value="amount", reduce=ps.sum())


# A view by a function: it yields a group, or (group, value), any number of times for a document.
@orders.view("items", reduce=ps.count())
def items(order):
    yield from order["items"]


# A view of a view: its documents are the rows of the other.
@revenue.view("size", reduce=ps.count())
def size(row):
    yield "large" if row.value["total"] >= 500 else "small"


# A join: a row for each order whose customer is known. An order may come before its customer.
bought = app.join("bought", order=orders, customer=customers, on={"order.customer": "customer.id"})

# A view of a join: a path begins with the name of a side. A customer who gets another tier takes all orders along.
tiers = bought.view("tiers", key="customer.tier", value="order.amount", reduce=ps.sum())

# A side may be a view: its rows have a key and a value.
demand = app.join("demand", item=items, product=products, on={"item.key": "product.id"})

# The number of items by category of the product. Another category of a product moves them.
categories = demand.view("categories", key="product.category", value="item.value", reduce=ps.sum())
'''

_COUNTRIES = ("NO", "SE", "DK", "FI")
_PRODUCTS = {"tea": "food", "cup": "china", "pot": "china", "spoon": "metal", "honey": "food"}
_ITEMS = tuple(_PRODUCTS)
_TIERS = ("plain", "silver", "gold")


@command("init", examples=["penstock init", "penstock init shop"])
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False))
def init(ctx: Context, folder: str) -> None:
    """Write an app.py with tables, views and joins, and documents for its tables, into DIR (else here).

    They run at once. The app has a comment on each of its definitions. Change it as you like. No existing file is
    overwritten.
    """
    inner = "" if folder == "." else folder
    samples = {f"{table}.jsonl": _lines(documents) for table, documents in sample().items()}
    files = {os.path.join(inner, name): text for name, text in [(APP_FILE, APP_TEXT), *samples.items()]}
    existing = [path for path in files if os.path.lexists(path)]
    if existing:
        raise ExitError(f"{existing[0]} is there already; choose another folder: penstock init DIR", WRONG)
    os.makedirs(folder, exist_ok=True)
    for path, text in files.items():
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        ctx.say(f"wrote {path}")
    ctx.say("\nNext:")
    if inner:
        ctx.say(f"  cd {shlex.quote(folder)}")
    for name in samples:
        ctx.say(f"  penstock load {name.removesuffix('.jsonl')} {name}")
    ctx.say("  penstock query revenue\n  penstock query tiers")


def sample() -> dict[str, list[dict[str, Any]]]:
    """Return documents by table: a hundred orders, some of which become paid, are corrected or are repeated.

    The last order names a customer that never comes. A customer gets another tier.
    """
    orders = [_order(i) for i in range(1, 101)]
    later = [{**order, "paid": True, "ts": order["ts"] + 1000} for order in orders if not order["paid"]][:10]
    corrected = [{**orders[i], "amount": 0.1, "ts": 3000 + i} for i in (4, 8, 15)]
    customers = [{"id": i, "tier": _TIERS[i % 3], "ts": 1000 + i} for i in range(1, 13)]
    products = [{"id": name, "category": category, "ts": 1000} for name, category in _PRODUCTS.items()]
    return {
        "orders": [*orders, *later, *corrected, orders[0]],
        "customers": [*customers, {**customers[3], "tier": "gold", "ts": 2000}],
        "products": products,
    }


def _lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def _order(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "customer": 1 + (i * i + i // 7) % 12 if i < 100 else 99,
        "country": _COUNTRIES[i * i % 7 % 4],
        "day": f"2024-05-{1 + i % 9:02}",
        "amount": round(5 + i * 37 % 101 / 4, 2),
        "items": [_ITEMS[(i + j) % 5] for j in range(1 + i % 3)],
        "paid": i % 5 != 0,
        "ts": 1000 + i,
    }
