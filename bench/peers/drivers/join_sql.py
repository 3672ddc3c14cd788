"""The SQL of a join of orders with customers, whose view sums by the country of the customer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.peers.drivers.triggers import added, table
from bench.peers.shapes import CUSTOMERS, TABLE, Case

_EVENTS = {"insert": ("new",), "delete": ("old",), "update": ("new", "old")}
QUERY = (
    f"select country, count(*) as n, cast(sum(amount) as bigint) as total from {TABLE} "
    f"join {CUSTOMERS} on {CUSTOMERS}.id = {TABLE}.customer group by country"
)
"""The query that computes the view, in DuckDB."""


def tables(case: Case, options: str) -> Iterator[str]:
    """Yield the statements of PostgreSQL that make the tables: customers find their orders by an index."""
    yield f"create table {TABLE} (id bigint primary key, customer bigint, amount bigint, ts bigint)"
    yield f"create index of_customer on {TABLE} (customer)"
    yield f"create table {CUSTOMERS} (id bigint primary key, country text not null, ts bigint)"
    (view,) = case.views
    yield table(view, case, options).replace("country bigint", "country text")


def triggers(case: Case, trigger: Callable[[str, str, str, str], Iterator[str]]) -> Iterator[str]:
    """Yield the triggers of PostgreSQL on both tables. A statement changes one table, and finds the other as it is."""
    (view,) = case.views
    sources = {
        TABLE: f"select country, amount, sign from changed join {CUSTOMERS} on {CUSTOMERS}.id = changed.customer",
        CUSTOMERS: f"select changed.country, amount, sign from changed join {TABLE} on {TABLE}.customer = changed.id",
    }
    for source, rows in sources.items():
        for event, sides in _EVENTS.items():
            changed = " union all ".join(
                f"select *, {1 if side == 'new' else -1} as sign from {side}_rows" for side in sides
            )
            yield from trigger(
                f"{view.name}_{source}",
                source,
                event,
                f"insert into {view.name} with changed as ({changed}) "
                f"select country, sum(sign), sum(sign * amount) from ({rows}) as c "
                f"group by country having sum(sign) <> 0 or sum(sign * amount) <> 0 {added(view)};",
            )
