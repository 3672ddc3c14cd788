"""A map that is not deterministic: a tenth of the orders is to be checked, but which ones differs from call to call."""

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
