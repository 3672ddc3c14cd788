"""The shop at work: orders are placed, changed and deleted. Every figure is compared with a recomputation.

python -m examples.shop [VERSIONS]
"""

import math
import sys
from collections import Counter
from typing import Any

import penstock as ps
from examples.demo.screen import heading, say, table
from examples.shop.app import app
from examples.shop.data import Order, versions


def main(n: int) -> None:
    """Run the example with this number of versions of orders."""
    with ps.open(app, None) as engine:
        heading(f"{n:,} versions of orders go in")
        coming = list(versions(n))
        say(str(engine.put_many("orders", coming)))
        _show(engine)

        heading("The first order that was placed is paid, and then cancelled")
        with engine.snapshot() as snap:
            order = next(row.value for row in snap.table("orders").items() if row.value["status"] == "placed")
        day = (order["country"], order["day"])
        for status, ts in (("placed", n), ("paid", n + 1), ("cancelled", n + 2)):
            engine.put("orders", {**order, "status": status, "ts": ts})
            with engine.snapshot() as snap:
                say(f"{status:<10} sales of {day}: {snap.view('sales').get(day)}")

        heading("It is withdrawn altogether")
        say(str(engine.delete("orders", order["id"], ts=n + 3)))
        newest = winners(coming)
        del newest[order["id"]]
        check(engine, newest)
        say(f"all figures are those of the {len(newest):,} orders that are left, computed anew")


def _show(engine: ps.Engine) -> None:
    with engine.snapshot() as snap:
        say("orders by status:")
        table(snap.view("by_status").items())
        say("sales by country:")
        table((*key, *row.values()) for key, row in snap.view("sales").rollup(level=1))
        say("pieces sold:")
        table(snap.view("sold").items())


def winners(coming: list[Order]) -> dict[int, Order]:
    """Return the winning version of each order: the one with the greatest ts."""
    newest: dict[int, Order] = {}
    for order in coming:
        if order["id"] not in newest or order["ts"] >= newest[order["id"]]["ts"]:
            newest[order["id"]] = order
    return newest


def check(engine: ps.Engine, orders: dict[int, Order]) -> None:
    """Compare every view with a recomputation."""
    paid = [order for order in orders.values() if order["status"] == "paid"]
    sold: Counter[str] = Counter()
    for order in paid:
        sold.update({item["article"]: item["pieces"] for item in order["items"]})
    days = {(o["country"], o["day"]) for o in paid}
    owing = {o["customer"] for o in orders.values() if o["status"] == "placed"}
    expected: dict[str, dict[Any, Any]] = {
        "by_status": Counter(order["status"] for order in orders.values()),
        "sold": sold,
        "sales": {day: _sales([o for o in paid if (o["country"], o["day"]) == day]) for day in days},
        "owed": {
            c: math.fsum(o["total"] for o in orders.values() if o["status"] == "placed" and o["customer"] == c)
            for c in owing
        },
    }
    with engine.snapshot() as snap:
        for name, rows in expected.items():
            found = dict(snap.view(name).items())
            if found != rows:
                raise SystemExit(f"view {name} is {found} and should be {rows}")


def _sales(orders: list[Order]) -> dict[str, Any]:
    return {"orders": len(orders), "total": math.fsum(order["total"] for order in orders)}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["2000"]))
