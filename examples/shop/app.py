"""The tables and views of a shop.

An order is one document that changes: {"id", "customer", "country", "day", "status", "items", "total", "ts"}. Its `ts`
grows with every change, so that versions may come late, twice, or in any order.
"""

from collections.abc import Iterator
from typing import Any

import penstock as ps

app = ps.App("shop")
orders = app.table("orders", key="id", ts="ts", sample="orders.jsonl")

paid = ps.field("status") == "paid"
sales = orders.view(
    "sales", key=("country", "day"), where=paid, reduce={"orders": ps.count(), "total": ps.sum("total")}
)
by_status = orders.view("by_status", key="status", reduce=ps.count())
owed = orders.view("owed", key="customer", where=ps.field("status") == "placed", value="total", reduce=ps.sum())


@orders.view(reduce=ps.sum())
def sold(order: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the number of each article in paid orders."""
    if order["status"] == "paid":
        for item in order["items"]:
            yield item["article"], item["pieces"]
