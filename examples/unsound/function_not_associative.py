"""A (values, rereduce) function as in CouchDB that counts its own earlier results instead of adding them."""

from pathlib import Path
from typing import Any

import penstock as ps


def number(values: list[Any], rereduce: bool) -> int:
    return len(values)


app = ps.App("function_not_associative")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("number", key="customer", value="amount", reduce=number)
