"""The command that writes an example app with comments, and documents for it. The files then belong to the user."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import click

from penstock.cli.command_frame import command
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError

APP_FILE, SAMPLE_FILE = "app.py", "sample.jsonl"

APP_TEXT = '''"""An app: tables of documents, and views on them that stay true while the documents change."""

import penstock as ps

app = ps.App("shop")

# A table is a stream of documents by key. Of several versions of a document the one with the greatest ts wins, so that
# records may come late, twice, or in any order. `penstock crashtest` makes documents like those of the sample.
orders = app.table("orders", key="id", ts="ts", sample="sample.jsonl")

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
'''

_COUNTRIES = ("NO", "SE", "DK", "FI")
_ITEMS = ("tea", "cup", "pot", "spoon", "honey")


@command("init", examples=["penstock init", "penstock init shop"])
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False))
def init(ctx: Context, folder: str) -> None:
    """Write an app.py and a sample.jsonl into DIR (else here) that run at once.

    The app has a comment on each of its definitions. Change it as you like. No existing file is overwritten.
    """
    inner = "" if folder == "." else folder
    files = {os.path.join(inner, APP_FILE): APP_TEXT, os.path.join(inner, SAMPLE_FILE): sample()}
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
    ctx.say(f"  penstock load orders {SAMPLE_FILE}\n  penstock query revenue")


def sample() -> str:
    """Return orders as JSON lines: a hundred, then some that become paid, are corrected or are repeated."""
    orders = [_order(i) for i in range(1, 101)]
    later = [{**order, "paid": True, "ts": order["ts"] + 1000} for order in orders if not order["paid"]][:10]
    corrected = [{**orders[i], "amount": 0.1, "ts": 3000 + i} for i in (4, 8, 15)]
    return "".join(json.dumps(order) + "\n" for order in [*orders, *later, *corrected, orders[0]])


def _order(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "country": _COUNTRIES[i * i % 7 % 4],
        "day": f"2024-05-{1 + i % 9:02}",
        "amount": round(5 + i * 37 % 101 / 4, 2),
        "items": [_ITEMS[(i + j) % 5] for j in range(1 + i % 3)],
        "paid": i % 5 != 0,
        "ts": 1000 + i,
    }
