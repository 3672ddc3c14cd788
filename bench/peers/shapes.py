"""The workloads: their views, their columns and their sizes.

Drivers import this module inside the environment of their peer, so it needs the standard library alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

TABLE = "users"
CUSTOMERS = "customers"
"""The second table of a join, whose first table is `TABLE` with orders."""
TOP = 10
_CHANGES, _LARGEST_QUICK = 20_000, 100_000


class How(StrEnum):
    """The ways to combine the values of a group."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    TOP = "top"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class Total:
    """One result of a group: its name, and the field that it combines."""

    name: str
    how: How
    field: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A view by one or more fields. With a `source` it reads the rows of that view."""

    name: str
    by: tuple[str, ...]
    totals: tuple[Total, ...]
    source: str = ""

    @property
    def count(self) -> str:
        """Return the name of the result that counts the contributions of a group."""
        return next(total.name for total in self.totals if total.how is How.COUNT)


@dataclass(frozen=True, slots=True)
class Case:
    """One input of a workload, the views over it, and the columns that the views read: path to `int` or `text`."""

    name: str
    views: tuple[View, ...]
    columns: dict[str, str]
    whole: bool = False  # the whole line is stored beside its columns
    input: str = ""  # the name of its lines, if another case has the same
    docs: tuple[int, int] | None = None  # sizes of its own; without documents it is no part of a run
    keys: tuple[int, int] | None = None
    measured: int = 0  # the last lines that are measured, after the others filled the store; 0: all
    rate: int = 0  # documents per second that arrive
    batch: int = 0  # a batch size of its own
    joined: bool = False  # the lines are customers and orders, and views read orders with the country of their customer


class Scenario(StrEnum):
    """The ways to measure a workload."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    RESTART = "restart"
    ADDED_VIEW = "added view"


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload of the bench. Sizes are of a full run and of a quick one."""

    number: int
    title: str
    cases: tuple[Case, ...]
    docs: tuple[int, int] = (1_000_000, 200_000)
    keys: tuple[int, int] = (200_000, 50_000)
    batches: tuple[int, ...] = (50_000, 10_000, 1_000)
    quick: tuple[int, ...] = (10_000,)
    scenario: Scenario = Scenario.THROUGHPUT

    def case(self, name: str) -> Case:
        """Return the case of this name."""
        return next(case for case in self.cases if case.name == name)

    def docs_of(self, case: Case, quick: bool) -> int:
        """Return the number of lines of a case."""
        return (case.docs or self.docs)[quick]

    def keys_of(self, case: Case, quick: bool, docs: int) -> int:
        """Return the number of keys of a case, in proportion to its lines."""
        return max(2, (case.keys or self.keys)[quick] * docs // self.docs_of(case, quick))


_N = Total("n", How.COUNT)
_BY_NAME = View("by_name", ("name",), (_N,))
_BY_CITY = View("by_city", ("city",), (_N, Total("total", How.SUM, "amount")))
_USERS = {"id": "int", "name": "text", "city": "text", "amount": "int", "ts": "int"}


def _standard(name: str) -> Case:
    return Case(name, (_BY_NAME, _BY_CITY), _USERS)


def _arriving(rate: int) -> Case:
    """Return the case of documents that arrive at a rate, for four seconds."""
    docs = 100_000 + 4 * rate, 20_000 + 4 * rate
    return replace(_standard(f"{rate} per second"), input="standard", docs=docs, measured=4 * rate, rate=rate)


def _sized(size: int) -> Case:
    """Return the case of a number of documents, and of some changes."""
    both = (size + _CHANGES, size + _CHANGES if size <= _LARGEST_QUICK else 0), (size, size)
    return replace(_standard(f"{size} documents"), input="sized", docs=both[0], keys=both[1], measured=_CHANGES)


_LATER = View("by_amount", ("amount",), (_N,))
_ADDED = replace(_standard("added"), views=(_BY_NAME, _BY_CITY, _LATER), input="standard", measured=200_000)
_SINGLE = replace(_standard("single"), input="standard", docs=(52_000, 21_000), measured=1_000, batch=1)
_GROUPS = Case("groups", (View("by_id", ("id",), (_N, Total("total", How.SUM, "amount"))),), _USERS, input="many")
_CHOICES = View(
    "choices",
    ("city",),
    (
        _N,
        Total("least", How.MIN, "amount"),
        Total("most", How.MAX, "amount"),
        Total("best", How.TOP, "amount"),
        Total("names", How.DISTINCT, "name"),
    ),
)
_CHAIN = (
    View("by_pair", ("city", "name"), (_N,)),
    View("by_city", ("city",), (Total("names", How.COUNT), Total("total", How.SUM, "n")), "by_pair"),
    View("by_names", ("names",), (Total("cities", How.COUNT), Total("all", How.SUM, "total")), "by_city"),
)
_CITY, _SEGMENT, _AMOUNT = "customer.address.city", "customer.segment", "order.total.amount"
_NESTED = Case(
    "nested",
    (
        View("by_city", (_CITY,), (_N, Total("total", How.SUM, _AMOUNT))),
        View("by_segment", (_SEGMENT,), (_N,)),
    ),
    {"id": "int", _CITY: "text", _SEGMENT: "text", _AMOUNT: "int", "ts": "int"},
    whole=True,
)
_TEXTS = Case("texts", (_BY_NAME, _BY_CITY), _USERS, whole=True)
_FIELDS = Case(
    "fields",
    (View("by_f1", ("f1",), (_N,)), View("by_f2", ("f2",), (_N, Total("total", How.SUM, "f20")))),
    {"id": "int", "f1": "text", "f2": "text", "f20": "int", "ts": "int"},
    whole=True,
)

_BY_COUNTRY = View("by_country", ("country",), (_N, Total("total", How.SUM, "amount")))


def _joined(name: str, docs: tuple[int, int]) -> Case:
    """Return a case of customers, ten orders for each, and then updates of orders."""
    columns = {"id": "int", "customer": "int", "amount": "int", "ts": "int"}
    return Case(name, (_BY_COUNTRY,), columns, input="joined", docs=docs, joined=True)


WORKLOADS = {
    one.number: one
    for one in (
        Workload(1, "upserts with two views", (_standard("standard"),)),
        Workload(2, "half of the changes are deletes, the others move documents", (_standard("moves"),)),
        Workload(3, "min, max, top 10 and distinct, with retractions", (Case("choices", (_CHOICES,), _USERS),)),
        Workload(4, "half of all documents in one group", (_standard("heavy"),)),
        Workload(5, "chained views, three deep", (Case("chain", _CHAIN, _USERS),)),
        Workload(
            6,
            "many keys",
            (_standard("many"),),
            docs=(10_000_000, 500_000),
            keys=(10_000_000, 500_000),
            batches=(50_000,),
            quick=(50_000,),
        ),
        Workload(
            7,
            "latency of single documents, with a reader",
            (_arriving(1_000), _arriving(10_000)),
            batches=(1_000,),
            quick=(1_000,),
            scenario=Scenario.LATENCY,
        ),
        Workload(
            8,
            "restart after kill -9",
            (replace(_standard("restart"), input="standard"),),
            batches=(10_000,),
            scenario=Scenario.RESTART,
        ),
        Workload(
            9,
            "a view is added while writing goes on",
            (_ADDED,),
            docs=(1_200_000, 400_000),
            keys=(1_000_000, 200_000),
            batches=(1_000,),
            quick=(1_000,),
            scenario=Scenario.ADDED_VIEW,
        ),
        Workload(
            10,
            "the cost of a change by the number of documents",
            tuple(map(_sized, (10_000, 100_000, 1_000_000, 10_000_000))),
            batches=(1_000,),
            quick=(1_000,),
        ),
        Workload(
            11,
            "weak spots: a group per document, and single documents",
            (_GROUPS, _SINGLE),
            docs=(1_000_000, 100_000),
            keys=(1_000_000, 100_000),
            batches=(10_000,),
        ),
        Workload(
            12,
            "nested documents, long texts that are not ASCII, 30 fields",
            (_NESTED, _TEXTS, _FIELDS),
            docs=(200_000, 50_000),
            keys=(50_000, 20_000),
            batches=(10_000,),
        ),
        Workload(
            13,
            "a join of orders with customers, summed by the country of the customer",
            (_joined("orders", (1_100_000, 110_000)), _joined("orders and updates", (2_000_000, 200_000))),
            keys=(1_000_000, 100_000),
            batches=(10_000,),
        ),
    )
}
