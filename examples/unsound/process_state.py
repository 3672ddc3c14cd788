"""Results that depend on the process: the hash of a text, the order of a set, a process id, the time of the import."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps

Order = dict[str, Any]
app = ps.App("process_state")
orders = app.table("orders", key="id", ts="ts", sample=Path(__file__).with_name("orders.jsonl"))
BEGUN = time.time_ns()


@orders.view(reduce=ps.count())
def by_hash(order: Order) -> Iterator[int]:
    yield hash(order["customer"]) % 1_000


@orders.view(reduce=ps.count())
def by_order_of_a_set(order: Order) -> Iterator[str]:
    yield "".join({*order["customer"], *order["tags"], "first", "second", "third", "fourth"})


@orders.view(reduce=ps.count())
def by_process(order: Order) -> Iterator[int]:
    yield os.getpid()


@orders.view(reduce=ps.count())
def by_start(order: Order) -> Iterator[int]:
    yield BEGUN


@orders.view(reduce=ps.count())
def by_address(order: Order) -> Iterator[int]:
    yield id(sys.implementation)


class Hashed:
    """A sum of hashes, another one in each process."""

    zero = 0

    def lift(self, value: str) -> int:
        """Return the hash of a customer."""
        return hash(value) % 1_000

    def merge(self, one: int, other: int) -> int:
        """Add two sums."""
        return one + other

    def unmerge(self, one: int, other: int) -> int:
        """Take a sum away."""
        return one - other


orders.view("sum_of_hashes", key=(), value="customer", reduce=ps.group(Hashed()))
