"""The apps of histories: every merge with and without ts, every reducer, and chained views.

`RICH` has all of it. `SHOP` is the app of crash tests: its views hold nothing, so a recomputation determines all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import penstock as ps
from penstock.cache import Limits
from tests.harness.oracle_app import app_of
from tests.oracle.model import Model
from tests.oracle.reducers import Count, Group, Histogram, Mean, Stddev, Sum, Variance
from tests.oracle.tables import BROKER, Table
from tests.oracle.views import Is, View, Where

# Index folds and compaction begin after a handful of documents, and take one step at a time.
TINY = Limits(fold_least=4, fold_most=8, fold_buckets=2, space=1.5, entries=4)


@dataclass(frozen=True)
class World:
    """Tables and views, for the engine and for the oracle."""

    tables: tuple[Table, ...]
    views: tuple[View, ...]

    def app(self) -> ps.App:
        """Return the app of the package."""
        return app_of(self.tables, self.views)

    def model(self) -> Model:
        """Return the oracle's model of it."""
        return Model(self.tables, self.views)


class Polynomial:
    """A user's invertible reducer: the count, the sum and the sum of cubes of ints, exact at any size."""

    def zero(self) -> list[int]:
        return [0, 0, 0]

    def lift(self, value: Any) -> list[int]:
        size = len(str(value))
        return [1, size, size**3]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [x + y for x, y in zip(a, b, strict=True)]

    def unmerge(self, a: list[int], b: list[int]) -> list[int]:
        return [x - y for x, y in zip(a, b, strict=True)]

    def result(self, total: list[int]) -> dict[str, Any]:
        return {"n": total[0], "sizes": total[1:]}


def initials(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield one group per document. A name that is no text is an error."""
    yield doc["name"][0]


def tags(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield any number of emissions per document, with repeated ones and tuple groups."""
    for tag in doc.get("tags") or ():
        yield (tag, doc.get("name")), doc.get("amount")
        yield tag
    yield (len(doc), doc.get("amount"))


def by_length(row: Any) -> Iterator[Any]:
    """Yield groups of a chained view: the lengths of text groups."""
    yield (len(row.key) if isinstance(row.key, str) else None), row.value


ORDER_ROW = {
    "n": Count(),
    "paid": Count("paid"),
    "total": Sum("amount"),
    "avg": Mean("amount"),
    "var": Variance("amount"),
    "sd": Stddev("amount", ddof=0),
    "bins": Histogram("amount", edges=(-1, 0, 0.5, 10)),
}

TABLES = (
    Table("users", "id", ts="ts"),
    Table("orders", "id", merge="patch"),
    Table("profiles", ("id", "org.name"), ts="ts", merge="patch"),
    Table("plain", "id"),
    Table("heard", "id", ts=BROKER),
)
VIEWS = (
    View("namecount", "users", Count(), key="name"),
    View("revenue", "orders", ORDER_ROW, key=("name", "org.name"), where=Is("paid")),
    View("cities", "users", Sum(), key="org.name", value="amount"),
    View("all", "plain", {"total": Sum("amount"), "own": Group("name", Polynomial())}, key=()),
    View("some", "plain", Count("amount"), key="name", where=Where("not", (Is("amount", ">", 1),))),
    View(
        "either",
        "profiles",
        {"n": Count(), "avg": Mean("amount")},
        key="name",
        where=Where("or", (Where("and", (Is("amount", ">=", 0), Is("name", "!=", "Sue"))), Is("org.name", "==", "x"))),
    ),
    View("initials", "users", Count(), fn=initials),
    View("tags", "orders", {"n": Count(), "size": Group(None, Polynomial())}, fn=tags),
    View("lengths", "namecount", Sum(), fn=by_length),
    View("totals", "revenue", {"n": Count(), "t": Sum("value.total")}, key=("value.n", "key.1")),
    View("hearsay", "heard", {"n": Count(), "total": Sum("amount")}, key="name"),
    View("parities", "lengths", Sum("value"), key="key"),
)
RICH = World(TABLES, VIEWS)
# The tables whose documents contain their ts. Records of HEARD have it beside the document.
TOLD = tuple(table for table in TABLES if table.ts != BROKER)
(HEARD,) = (table for table in TABLES if table.ts == BROKER)

SHOP = World(
    (
        Table("users", "id", ts="ts"),
        Table("orders", "id", merge="patch"),
    ),
    (
        View("namecount", "users", Count(), key="name"),
        View("cities", "users", {"n": Count(), "total": Sum("amount"), "avg": Mean("amount")}, key="city"),
        View("initials", "users", Sum(), fn=lambda doc: [(doc["name"][:1], doc["amount"])]),
        View("revenue", "orders", {"n": Count(), "total": Sum("amount"), "sd": Stddev("amount")}, key=("city", "name")),
        View("lengths", "namecount", Sum(), fn=by_length),
    ),
)
