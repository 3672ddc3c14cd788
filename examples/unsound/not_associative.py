"""A reducer that isn't associative: the mean of two means is not the mean of all."""

from pathlib import Path

import penstock as ps


class Mean:
    zero = None

    def lift(self, value: float) -> float:
        return value

    def merge(self, a: float | None, b: float | None) -> float | None:
        if a is None or b is None:
            return b if a is None else a
        return (a + b) / 2


app = ps.App("not_associative")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("mean", key="customer", value="amount", reduce=ps.monoid(Mean()))
