"""Customers, products and orders, from a seed: orders are corrected, customers move, products get another price.

python -m examples.wholesale.data TABLE [ORDERS [SEED]]      prints the documents of one table as JSON lines
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
TABLES = ("customers", "products", "orders")
_COUNTRIES = ("NO", "SE", "DK", "FI")
_CATEGORIES = ("tea", "china", "sweets")


def changes(n: int, seed: int = 7) -> Iterator[tuple[str, Document]]:
    """Yield (table, document) for n versions of orders, and for their customers and products, in order of ts.

    Many orders name a customer or a product that comes later, and some name one that never comes.
    """
    draw = random.Random(seed)
    for ts in range(1, n + 1):
        yield "orders", _order(draw, ts if draw.random() < 0.9 else draw.randint(1, ts), ts, n)
        if draw.random() < 0.1:
            yield "customers", {"id": draw.randint(1, _customers(n)), "country": draw.choice(_COUNTRIES), "ts": ts}
        if draw.random() < 0.1:
            category = _CATEGORIES[draw.randrange(3)]
            yield (
                "products",
                {"id": draw.randint(1, 30), "category": category, "price": draw.randint(90, 900), "ts": ts},
            )


def _order(draw: random.Random, number: int, ts: int, n: int) -> Document:
    customer, product = draw.randint(1, _customers(n)), draw.randint(1, 30)
    return {"id": number, "customer": customer, "product": product, "pieces": draw.randint(1, 9), "ts": ts}


def _customers(n: int) -> int:
    return max(1, n // 20)


if __name__ == "__main__":
    wanted, *numbers = sys.argv[1:] or [""]
    if wanted not in TABLES:
        raise SystemExit(f"usage: python -m examples.wholesale.data {'|'.join(TABLES)} [ORDERS [SEED]]")
    for name, document in changes(*map(int, numbers or ["1000"])):
        if name == wanted:
            print(json.dumps(document))
