"""The tables and views of page views.

A view of a page is one document that never changes: {"id", "at", "page", "visitor", "ms"}, `at` in RFC 3339. A window
is a group like any other, so it is never closed. A late page view counts in its own window. A repeated one is the same
document and changes nothing.
"""

from collections.abc import Iterator
from typing import Any

import penstock as ps

app = ps.App("pageviews")
pageviews = app.table("pageviews", key="id", ts="at", sample="pageviews.jsonl")


@pageviews.view(reduce={"views": ps.count(), "ms": ps.mean("ms"), "visitors": ps.distinct("visitor")})
def minutes(view: dict[str, Any]) -> Iterator[Any]:
    """Count by hour and minute."""
    yield (view["at"][:13], view["at"][14:16]), view


@pageviews.view(reduce=ps.count())
def pages(view: dict[str, Any]) -> Iterator[Any]:
    """Count by minute and page."""
    yield (view["at"][:16], view["page"]), None


@minutes.view(reduce=ps.top(3))
def busiest(row: ps.Row) -> Iterator[Any]:
    """Yield the three minutes of an hour with the most page views, from a view on a view."""
    hour, minute = row.key
    yield hour, [row.value["views"], minute]
