"""A reducer that isn't commutative: it joins the values in the order in which they come."""

from pathlib import Path

import penstock as ps


class Listed:
    zero: tuple[int, ...] = ()

    def lift(self, value: int) -> list[int]:
        return [value]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [*a, *b]


app = ps.App("not_commutative")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("amounts", key="customer", value="amount", reduce=ps.monoid(Listed()))
