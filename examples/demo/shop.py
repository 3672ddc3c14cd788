"""The app of the demo: a shop's users and orders, their views, and its documents, made from a seed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

Document = dict[str, Any]


def make_app(letters: int = 1) -> ps.App:
    """Return the tables and views of the shop. The initials of a name are its first `letters` letters."""
    shop = ps.App("shop")
    users = shop.table("users", key="id", ts="ts")
    orders = shop.table("orders", key="order_id", ts="ts")

    namecount = users.view("namecount", key="name", reduce=ps.count())
    orders.view("spent", key="user", where=ps.field("amount") > 0, value="amount", reduce=ps.sum())
    orders.view(
        "revenue",
        key=("country", "day"),
        where="paid",
        reduce={"n": ps.count(), "total": ps.sum("amount"), "avg": ps.mean("amount")},
    )

    @users.view(reduce=ps.count())
    def initials(user: Document) -> Iterator[str]:
        """Count users by the initials of their name."""
        yield user["name"][:letters]

    @namecount.view(reduce=ps.sum())
    def by_length(row: ps.Row) -> Iterator[tuple[int, int]]:
        """Count users by the length of their name, in a view on a view."""
        yield len(row.key), row.value

    return shop


app = make_app()

_COMMON_FIRST = """
    Sue Joe Bob Ada Sam Eve Max Amy Tom Liv Ida Jon Kim Leo Mia Ole Pia Ray Siv Tor Una Vic Zoe Anna Erik Emma Jens Lars
    Lise Maja Nils Nora Olga Paul Rosa Sven Tuva Arild Bjarne Camilla Dagny Elise Frode Gunnar Henrik Ingrid Jorunn
"""
_NAMES = _COMMON_FIRST.split()
_COUNTRIES = ("NO", "SE", "DK", "FI", "IS")


def make_users(n: int, seed: int) -> list[Document]:
    """Return users 1 to n. A few names are common, most are rare."""
    draw = random.Random(seed)
    return [
        {"id": i, "name": _NAMES[min(int(draw.paretovariate(0.8)), len(_NAMES)) - 1], "ts": 1} for i in range(1, n + 1)
    ]


def make_orders(n: int, buyers: int, seed: int) -> Iterator[Document]:
    """Yield n versions of orders. Most are new orders; some pay or change one, and a few of these are late."""
    draw = random.Random(seed + 1)
    made: list[Document] = []
    for ts in range(2, n + 2):
        if made and draw.random() < 0.25:
            old = made[draw.randrange(len(made))]
            amount = old["amount"] if draw.random() < 0.8 else _amount(draw)
            yield {**old, "paid": draw.random() < 0.9, "amount": amount, "ts": ts if draw.random() < 0.9 else 1}
            continue
        made.append(
            {
                "order_id": len(made) + 1,
                "user": draw.randint(1, buyers),
                "country": draw.choice(_COUNTRIES),
                "day": f"2024-06-{draw.randint(1, 30):02}",
                "amount": _amount(draw),
                "paid": draw.random() < 0.5,
                "ts": ts,
            }
        )
        yield made[-1]


def _amount(draw: random.Random) -> float:
    return draw.randint(100, 99_999) / 100


def write_lines(path: Path, documents: Iterator[Document]) -> None:
    """Write the documents to a file of JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(document, separators=(",", ":")) + "\n" for document in documents)
