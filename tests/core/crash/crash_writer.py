"""The process that is killed: it puts numbered batches into a store and prints each number once the batch is durable.

    python -m tests.core.crash.crash_writer PATH DURABILITY FIRST BATCHES SIZE

Each batch depends on its number alone, so a reader of the store can compute the expected content. Every batch is one
transaction: documents of two tables, deletions, late records, and the offset after it. With SIZE 0 the numbers are
single documents. The process puts them with tickets and acknowledges them in order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

import penstock as ps
from tests.harness.worlds import SHOP, TINY
from tests.oracle.model import Record
from tests.waiting import PATIENCE

SOURCE = "crash"
NAMES = ["Sue", "Joe", "Bob", "Ann", "x" * 450]
KEYS = 60


def records(number: int, size: int) -> Iterator[Record]:
    """Yield the records of one batch, as a function of its number."""
    choose = Random(number)
    for _ in range(size):
        key, name = choose.randrange(KEYS), choose.choice(NAMES)
        amount = choose.choice([1, -3, 0.1, 1e16, 2**62])
        if choose.random() < 0.1:
            yield Record("users", key, None, number + choose.randrange(-2, 3), number)
        elif choose.random() < 0.5:
            ts = number + choose.randrange(-2, 3)
            doc = {"id": key, "name": name, "city": name[:1], "amount": amount, "ts": ts}
            yield Record("users", key, doc, None, number)
        else:
            field = choose.choice([{"amount": amount}, {"city": "Bern"}, {"name": name}])
            yield Record("orders", key, {"id": key, **field}, None, number)


def batch(number: int, size: int) -> list[ps.Record]:
    """Return the records of one batch in the form of the engine."""
    return [ps.Record(r.table, r.key, r.doc, ts=r.ts, offset=r.offset) for r in records(number, size)]


def write(engine: Any, first: int, batches: int, size: int) -> Iterator[int]:
    """Put batches. Yield each number when the batch is acknowledged."""
    for number in range(first, batches):
        engine.ingest(batch(number, size), source=SOURCE, resume=number + 1)
        yield number + 1


def document(number: int) -> dict[str, Any]:
    """Return the document of one ticket."""
    return {"id": number, "name": NAMES[number % 4], "city": NAMES[number % 3], "amount": number / 10, "ts": 1}


def write_by_tickets(engine: Any, documents: int) -> Iterator[int]:
    """Put documents without waiting. Yield each number when its ticket is done."""
    waiting: deque[tuple[int, Any]] = deque()
    for number in range(documents):
        waiting.append((number + 1, engine.put("users", document(number))))
        while waiting and (waiting[0][1].done() or len(waiting) > 200):
            done, ticket = waiting.popleft()
            ticket.result(timeout=PATIENCE)
            yield done


def main(path: str, durability: str, first: str, batches: str, size: str) -> None:
    """Open the store, write, and print each acknowledged number at once."""
    with ps.open(SHOP.app(), path, durability=durability, limits=TINY) as engine:
        print("open", flush=True)
        numbers = (
            write(engine, int(first), int(batches), int(size)) if int(size) else write_by_tickets(engine, int(batches))
        )
        for done in numbers:
            print(done, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
