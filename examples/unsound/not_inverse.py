"""An unmerge that isn't the inverse of merge: the rest does not determine its greatest amount after a removal."""

from pathlib import Path

import penstock as ps


class Greatest:
    zero = 0

    def lift(self, value: int) -> int:
        return value

    def merge(self, a: int, b: int) -> int:
        return max(a, b)

    def unmerge(self, a: int, b: int) -> int:
        return a


app = ps.App("not_inverse")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("greatest", key="customer", value="amount", reduce=ps.group(Greatest()))
