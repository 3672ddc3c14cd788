"""A reducer that changes its arguments in place: a value that it got differs when it is passed again."""

from pathlib import Path

import penstock as ps


class Tags:
    zero: tuple[str, ...] = ()

    def lift(self, value: list[str]) -> list[str]:
        return sorted(set(value))

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        a.extend(tag for tag in b if tag not in a)
        a.sort()
        return a


app = ps.App("changes_in_place")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
orders.view("tags", key="customer", value="tags", reduce=ps.monoid(Tags()))
