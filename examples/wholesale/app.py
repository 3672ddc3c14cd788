"""The tables, joins and views of a wholesaler.

An order names its customer and its product by id. Customers move, and products get another category or price. The joins
bring both into the views, in the transaction that changes them.
"""

from collections.abc import Iterator
from typing import Any

import penstock as ps

app = ps.App("wholesale")
orders = app.table("orders", key="id", ts="ts", sample="orders.jsonl")
customers = app.table("customers", key="id", ts="ts", sample="customers.jsonl")
products = app.table("products", key="id", ts="ts", sample="products.jsonl")

bought = app.join("bought", order=orders, customer=customers, on={"order.customer": "customer.id"})
by_country = bought.view("by_country", key="customer.country", value="order.pieces", reduce=ps.sum())

shipped = app.join("shipped", order=orders, product=products, on={"order.product": "product.id"})
by_category = shipped.view("by_category", key="product.category", reduce=ps.count())

# Three sides: an order counts once both its customer and its product are known.
traded = app.join(
    "traded",
    order=orders,
    customer=customers,
    product=products,
    on={"order.customer": "customer.id", "order.product": "product.id"},
)
pieces = traded.view("pieces", key=("customer.country", "product.category"), value="order.pieces", reduce=ps.sum())


@shipped.view(reduce=ps.sum())
def turnover(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the amount of an order, in cents, at the price that its product has now."""
    yield row["product"]["category"], row["order"]["pieces"] * row["product"]["price"]
