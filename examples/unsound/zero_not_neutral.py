"""A zero that isn't neutral: every group starts with an order that does not exist."""

from pathlib import Path

import penstock as ps


class Number:
    zero = 1

    def lift(self, value: int) -> int:
        return 1

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


app = ps.App("zero_not_neutral")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("number", key="customer", value="amount", reduce=ps.group(Number()))
