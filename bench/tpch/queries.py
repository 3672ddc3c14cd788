"""The queries 3, 5, 10 and 18 of TPC-H: each as an app with one view, and as SQL with the same groups and results.

The lists of the best ten or hundred are left out: the views have all groups, and so have the SQL results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import penstock as ps

Sides = Mapping[str, ps.Table]
VIEW = "result"


def app(query: str) -> ps.App:
    """Return the app of a query."""
    made = ps.App(query)
    keys: dict[str, str | tuple[str, ...]] = {"lines": ("order", "no")}
    names = ("nations", "suppliers", "customers", "orders", "lines")
    QUERIES[query].define(made, {name: made.table(name, key=keys.get(name, "id")) for name in names})
    return made


def _shipping(made: ps.App, tables: Sides) -> None:
    """Define query 3: the revenue of orders of one segment that were not shipped at a date."""
    join = made.join(
        "unshipped",
        customer=tables["customers"].where(ps.field("segment") == "BUILDING"),
        order=tables["orders"].where(ps.field("date") < 19950315),
        line=tables["lines"].where(ps.field("shipped") > 19950315),
        on={"order.customer": "customer.id", "line.order": "order.id"},
    )
    join.view(VIEW, key=("line.order", "order.date"), value="line.revenue", reduce=ps.sum())


def _local(made: ps.App, tables: Sides) -> None:
    """Define query 5: the revenue in each nation of a region from suppliers of the customer's own nation."""
    join = made.join(
        "local",
        nation=tables["nations"].where(ps.field("region") == "ASIA"),
        customer=tables["customers"],
        order=tables["orders"].where((ps.field("date") >= 19940101) & (ps.field("date") < 19950101)),
        line=tables["lines"],
        supplier=tables["suppliers"],
        on=[
            ("customer.nation", "nation.id"),
            ("order.customer", "customer.id"),
            ("line.order", "order.id"),
            ("line.supplier", "supplier.id"),
            ("supplier.nation", "nation.id"),
        ],
    )
    join.view(VIEW, key="nation.name", value="line.revenue", reduce=ps.sum())


def _returned(made: ps.App, tables: Sides) -> None:
    """Define query 10: the lost revenue of customers who returned lines of orders of a quarter."""
    join = made.join(
        "returned",
        nation=tables["nations"],
        customer=tables["customers"],
        order=tables["orders"].where((ps.field("date") >= 19931001) & (ps.field("date") < 19940101)),
        line=tables["lines"].where(ps.field("flag") == "R"),
        on={"customer.nation": "nation.id", "order.customer": "customer.id", "line.order": "order.id"},
    )
    join.view(VIEW, key=("customer.id", "customer.name", "nation.name"), value="line.revenue", reduce=ps.sum())


def _large(made: ps.App, tables: Sides) -> None:
    """Define query 18: orders with many pieces, and their customers."""
    pieces = tables["lines"].view("pieces", key="order", value="quantity", reduce=ps.sum())
    join = made.join(
        "large",
        customer=tables["customers"],
        order=tables["orders"],
        pieces=pieces.where(ps.field("value") > 300),
        on={"order.customer": "customer.id", "order.id": "pieces.key"},
    )
    key = ("customer.name", "customer.id", "order.id", "order.date", "order.total")
    join.view(VIEW, key=key, value="pieces.value", reduce=ps.sum())


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the benchmark. Its SQL gives the parts of the group, and then the result."""

    define: Callable[[ps.App, Sides], None]
    sql: str


QUERIES = {
    "q03": Query(
        _shipping,
        """SELECT l."order", o.date, sum(l.revenue) FROM customers c, orders o, lines l
           WHERE c.segment = 'BUILDING' AND c.id = o.customer AND l."order" = o.id
           AND o.date < 19950315 AND l.shipped > 19950315 GROUP BY ALL""",
    ),
    "q05": Query(
        _local,
        """SELECT n.name, sum(l.revenue) FROM customers c, orders o, lines l, suppliers s, nations n
           WHERE c.id = o.customer AND l."order" = o.id AND l.supplier = s.id AND c.nation = s.nation
           AND s.nation = n.id AND n.region = 'ASIA' AND o.date >= 19940101 AND o.date < 19950101 GROUP BY ALL""",
    ),
    "q10": Query(
        _returned,
        """SELECT c.id, c.name, n.name, sum(l.revenue) FROM customers c, orders o, lines l, nations n
           WHERE c.id = o.customer AND l."order" = o.id AND o.date >= 19931001 AND o.date < 19940101
           AND l.flag = 'R' AND c.nation = n.id GROUP BY ALL""",
    ),
    "q18": Query(
        _large,
        """SELECT c.name, c.id, o.id, o.date, o.total, sum(l.quantity) FROM customers c, orders o, lines l
           WHERE o.id IN (SELECT "order" FROM lines GROUP BY "order" HAVING sum(quantity) > 300)
           AND c.id = o.customer AND o.id = l."order" GROUP BY ALL""",
    ),
}
