"""A sound app: it yields in the order of a set. This order differs between processes and has no effect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

app = ps.App("set_order")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))


@orders.view(reduce=ps.count())
def words(order: dict[str, Any]) -> Iterator[str]:
    yield from {order["customer"], *order["tags"], "all"}
