"""A map that is not deterministic: it selects a tenth of the orders, and other ones in each call."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

app = ps.App("random_map")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))


@orders.view(reduce=ps.count())
def checked(order: dict[str, Any]) -> Iterator[str]:
    if random.random() < 0.1:
        yield order["customer"]
