"""The wholesaler at work: a customer moves, a product gets another category, and every figure follows.

python -m examples.wholesale [ORDERS]
"""

import sys
from collections import Counter
from typing import Any

import penstock as ps
from examples.demo.screen import heading, say, table
from examples.wholesale.app import app
from examples.wholesale.data import TABLES, Document, changes

Tables = dict[str, dict[int, Document]]


def main(n: int) -> None:
    """Run the example with this number of orders."""
    coming = list(changes(n))
    with ps.open(app, None) as engine:
        heading(f"{n:,} orders go in, with their customers and products")
        for name in TABLES:
            say(f"{name:<9} {engine.put_many(name, [document for table, document in coming if table == name])}")
        tables = newest(coming)
        _show(engine)

        heading("A customer with many orders moves to Iceland")
        best = Counter(order["customer"] for order in tables["orders"].values())
        number = next(c for c, _ in best.most_common() if c in tables["customers"])
        tables["customers"][number] = {"id": number, "country": "IS", "ts": n + 1}
        say(f"{best[number]} orders follow: {engine.put('customers', tables['customers'][number])}")
        _show(engine)

        heading("A product gets another category and price")
        product = next(iter(tables["products"].values()))
        tables["products"][product["id"]] = {**product, "category": "gifts", "price": 500, "ts": n + 2}
        say(str(engine.put("products", tables["products"][product["id"]])))
        _show(engine)
        check(engine, tables)
        say("all figures are those of a loop over the orders")


def _show(engine: ps.Engine) -> None:
    with engine.snapshot() as snap:
        say("pieces by country of the customer:")
        table(snap.view("by_country").items())
        say("orders, and turnover in cents, by category of the product:")
        turnover = snap.view("turnover")
        table((category, count, turnover.get(category)) for category, count in snap.view("by_category").items())


def newest(coming: list[tuple[str, Document]]) -> Tables:
    """Return the winning version of each document: the one with the greatest ts, and the last of several."""
    tables: Tables = {name: {} for name in TABLES}
    for name, document in coming:
        tables[name][document["id"]] = document
    return tables


def check(engine: ps.Engine, tables: Tables) -> None:
    """Compare every view with a recomputation that looks up each order's customer and product."""
    by_country: Counter[str] = Counter()
    by_category: Counter[str] = Counter()
    turnover: Counter[str] = Counter()
    pieces: Counter[tuple[str, str]] = Counter()
    for order in tables["orders"].values():
        customer = tables["customers"].get(order["customer"])
        product = tables["products"].get(order["product"])
        if customer is not None:
            by_country[customer["country"]] += order["pieces"]
        if product is not None:
            by_category[product["category"]] += 1
            turnover[product["category"]] += order["pieces"] * product["price"]
        if customer is not None and product is not None:
            pieces[customer["country"], product["category"]] += order["pieces"]
    expected: dict[str, dict[Any, Any]] = {
        "by_country": by_country,
        "by_category": by_category,
        "turnover": turnover,
        "pieces": pieces,
    }
    with engine.snapshot() as snap:
        for name, rows in expected.items():
            found = dict(snap.view(name).items())
            if found != rows:
                raise SystemExit(f"view {name} is {found} and should be {dict(rows)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["1000"]))
