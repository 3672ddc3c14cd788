"""Maps with hidden state by the document's key: each keeps the first version of an order and never yields another."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import penstock as ps
from examples.unsound.ledger import first_customer

Order = dict[str, Any]
app = ps.App("keyed_state")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
USERS: dict[Any, str] = {}
REMEMBERED: dict[Any, str] = {}
NUMBERS: defaultdict[Any, int] = defaultdict(count().__next__)
CURRENT: dict[str, str] = {}


@orders.view(reduce=ps.count())
def directly(order: Order) -> Iterator[str]:
    yield USERS.setdefault(order["id"], order["customer"])


def remember(order: Order) -> str:
    """Return the customer that this order had at first."""
    if order["id"] not in REMEMBERED:
        REMEMBERED[order["id"]] = order["customer"]
    return REMEMBERED[order["id"]]


@orders.view(reduce=ps.count())
def in_a_helper(order: Order) -> Iterator[str]:
    yield remember(order)


class Names:
    """The customers of orders."""

    def __init__(self) -> None:
        self.first: dict[Any, str] = {}

    def of(self, order: Order) -> str:
        """Return the customer that this order had at first."""
        return self.first.setdefault(order["id"], order["customer"])


names = Names()


@orders.view(reduce=ps.count())
def in_an_object(order: Order) -> Iterator[str]:
    yield names.of(order)


@cache
def cached(key: Any) -> str:
    """Return the customer of the current order, or of the first one with this key."""
    return CURRENT["customer"]


@orders.view(reduce=ps.count())
def in_a_cache(order: Order) -> Iterator[str]:
    CURRENT["customer"] = order["customer"]
    yield cached(order["id"])


@orders.view(reduce=ps.count())
def in_another_module(order: Order) -> Iterator[str]:
    yield first_customer(order)


class Book:
    """A class that keeps the customers of orders itself."""

    first: dict[Any, str] = {}  # noqa: RUF012


@orders.view(reduce=ps.count())
def in_a_class(order: Order) -> Iterator[str]:
    yield Book.first.setdefault(order["id"], order["customer"])


@orders.view(reduce=ps.count())
def in_a_default(order: Order, first: dict[Any, str] = {}) -> Iterator[str]:  # noqa: B006
    yield first.setdefault(order["id"], order["customer"])


def closing() -> Callable[[Order], Iterator[str]]:
    """Return a map that closes over the customers of orders."""
    first: dict[Any, str] = {}

    def in_a_closure(order: Order) -> Iterator[str]:
        yield first.setdefault(order["id"], order["customer"])

    return in_a_closure


orders.view(reduce=ps.count())(closing())


@orders.view(reduce=ps.count())
def by_arrival(order: Order) -> Iterator[int]:
    yield NUMBERS[order["customer"]]
