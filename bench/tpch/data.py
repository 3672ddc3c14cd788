"""Documents like those of TPC-H, from a seed: the columns that the queries read, with the benchmark's distributions.

Prices are integers in cents, and dates are integers such as 19950315. `revenue` of a line is its price after the
discount. A refresh has new orders with their lines, and deletes as many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = 25
TABLES = ("nations", "suppliers", "customers", "orders", "lines")
_FIRST, _DAYS = date(1992, 1, 1), 2406
_RETURNED = 19950617  # lines that arrived before may be returned
Document = dict[str, Any]


@dataclass(slots=True)
class Refresh:
    """The new documents by table, and the keys to delete."""

    new: dict[str, list[Document]] = field(default_factory=lambda: {name: [] for name in TABLES})
    gone: dict[str, list[Any]] = field(default_factory=lambda: {"orders": [], "lines": []})


class Warehouse:
    """The documents at one scale: 1 stands for 1,500,000 orders."""

    def __init__(self, scale: float, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self._dates = [int(f"{_FIRST + timedelta(days=i):%Y%m%d}") for i in range(_DAYS + 130)]
        self.customers, self.suppliers = max(150, int(150_000 * scale)), max(50, int(10_000 * scale))
        self.first = max(1_500, int(1_500_000 * scale))
        self._next = 0
        self._lines: dict[int, int] = {}

    def base(self) -> Iterator[tuple[str, Document]]:
        """Yield the documents of all tables except orders and their lines."""
        for i in range(NATIONS):
            yield "nations", {"id": i, "name": f"NATION {i}", "region": REGIONS[i % len(REGIONS)]}
        for i in range(self.suppliers):
            yield "suppliers", {"id": i, "nation": self._draw.randrange(NATIONS)}
        for i in range(self.customers):
            nation, segment = self._draw.randrange(NATIONS), self._draw.choice(SEGMENTS)
            yield "customers", {"id": i, "name": f"Customer#{i:09}", "nation": nation, "segment": segment}

    def orders(self, n: int) -> Refresh:
        """Return n new orders with their lines."""
        out = Refresh()
        for _ in range(n):
            number, self._next = self._next, self._next + 1
            day = self._draw.randrange(_DAYS)
            lines = [self._line(number, i, day) for i in range(self._draw.randint(1, 7))]
            customer = 3 * self._draw.randrange(self.customers // 3)  # a third of the customers have orders
            order = {
                "id": number,
                "customer": customer,
                "date": self._dates[day],
                "total": sum(x["price"] for x in lines),
            }
            out.new["orders"].append(order)
            out.new["lines"] += lines
            self._lines[number] = len(lines)
        return out

    def _line(self, order: int, number: int, day: int) -> Document:
        shipped = day + self._draw.randint(1, 121)
        quantity = self._draw.randint(1, 50)
        price = quantity * self._draw.randint(90_000, 105_000)
        own = {"order": order, "no": number, "supplier": self._draw.randrange(self.suppliers), "quantity": quantity}
        received = self._dates[min(shipped + self._draw.randint(1, 30), len(self._dates) - 1)]
        flag = self._draw.choice("RA") if received <= _RETURNED else "N"
        revenue = price * (100 - self._draw.randint(0, 10)) // 100
        shipdate = self._dates[min(shipped, len(self._dates) - 1)]
        return {**own, "price": price, "revenue": revenue, "shipped": shipdate, "flag": flag}

    def refresh(self, n: int) -> Refresh:
        """Return n new orders, and the keys of n old ones with those of their lines."""
        out = self.orders(n)
        for number in self._draw.sample(sorted(self._lines), n):
            out.gone["orders"].append(number)
            out.gone["lines"] += [(number, i) for i in range(self._lines.pop(number))]
        return out
