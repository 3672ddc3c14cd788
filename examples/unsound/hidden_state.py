"""A map with hidden state: it counts each customer once, by a set of the customers of earlier calls."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

app = ps.App("hidden_state")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
seen: set[str] = set()


@orders.view(reduce=ps.count())
def customers(order: dict[str, Any]) -> Iterator[str]:
    if order["customer"] not in seen:
        seen.add(order["customer"])
        yield "all"
