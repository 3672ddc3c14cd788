"""Histories in which functions, field views and users' groups fail often, on documents and on rows of views.

Each view below fails on some of its input. The last accepted emission must stay in the view, survive lost memory and a
reopened store, and go exactly when it should. This holds for the whole chain of views.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from tests.harness.checks import check, counts_of
from tests.harness.strategies import LONG
from tests.harness.worlds import TINY, Polynomial, World
from tests.oracle.reducers import Count, Group, Sum
from tests.oracle.tables import Table
from tests.oracle.views import Is, View

STEPS = 60
KEYS = [*range(9), *(f"k{n}" for n in range(9)), True, 2.5, ("x", 1), LONG]
NAMES = ["Sue", "Joe", None, 1, True, 7.5, LONG, "", [1, "a"], {"a": 1}]
AMOUNTS = [0, 1, -7, 0.1, 1 << 64, None, Decimal("3.30"), float("nan"), "much", True]


def picky(row: Any) -> Iterator[Any]:
    """Fail on rows with two contributions."""
    if row.value["n"] == 2:
        raise ValueError("two")
    yield row.value["n"], row.value["t"]
    if row.value["n"] == 3:
        yield row.key


def sour(row: Any) -> Iterator[Any]:
    """Fail on floats."""
    if isinstance(row.value, float):
        raise KeyError(row.key)
    yield (row.key, row.value), row.value


def tags(doc: dict[str, Any]) -> Iterator[Any]:
    """Fail on −7 after all yields. Yield a tuple that is no pair for 0, and a wrong value for text."""
    for tag in doc.get("tags") or ():
        yield tag, doc.get("amount")
    if doc.get("amount") == -7:
        raise ValueError
    if doc.get("amount") == 0:
        yield 1, 2, 3


class Moody(Polynomial):
    """A group that cannot lift 0, and cannot compute some of its results."""

    def zero(self) -> Any:
        return 0

    def lift(self, value: Any) -> Any:
        return 60 // (value if isinstance(value, int) else 1)

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a - b

    def result(self, total: Any) -> Any:
        if total % 7 == 3:
            raise RuntimeError("not today")
        return {"r": total}


ROW = {"n": Count(), "t": Sum("amount"), "own": Group("name", Polynomial())}
WORLD = World(
    (Table("plain", "id"), Table("users", "id", ts="ts"), Table("orders", "id", merge="patch")),
    (
        View("rows", "plain", ROW, key="name"),
        View("picky", "rows", Sum(), fn=picky),
        View("after", "picky", Count(), key="value"),
        View("wrong", "rows", Sum("value.own"), key="value.n"),
        View("maps", "rows", Count(), key="value"),
        View("some", "rows", Sum(), key="key", value="value.t", where=Is("value.n", ">", 1)),
        View("sour", "some", {"n": Count(), "s": Sum()}, fn=sour),
        View("present", "users", Count("amount"), key="name"),
        View("tags", "users", Sum(), fn=tags),
        View("moody", "orders", {"o": Group("amount", Moody()), "n": Count()}, key="org.name"),
        View("moods", "moody", Sum("value.o.r"), key="value.n"),
    ),
)


def document(choose: Random, table: Table, ts: int) -> dict[str, Any]:
    """Return a document. Some view cannot accept about half of them."""
    doc: dict[str, Any] = {"id": choose.choice(KEYS)} | ({"ts": ts} if table.ts else {})
    fields = {"name": NAMES, "amount": AMOUNTS, "org": [{"name": "x"}, {"name": "y"}]}
    doc |= {name: choose.choice(values) for name, values in fields.items() if choose.random() < 0.8}
    return doc | {"tags": choose.choices(["red", 1, None], k=choose.randrange(4))}


def step(choose: Random, engine: Any, model: Any) -> None:
    """Put a batch into the engine and its model, and compare the counts."""
    with engine.batch() as real, model.batch() as wanted:
        for _ in range(choose.choice([1, 1, 2, 5, 20])):
            table, ts = choose.choice(WORLD.tables), choose.randrange(50)
            if choose.random() < 0.25:
                key, own = choose.choice(KEYS), ts if table.ts and choose.random() < 0.7 else None
                for batch in (real, wanted):
                    batch.delete(table.name, key, own)
            else:
                doc = document(choose, table, ts)
                for batch in (real, wanted):
                    batch.put(table.name, doc)
    assert counts_of(real.counts) == wanted.counts


def disturb(choose: Random, engine: Any, place: Path | None) -> Any:
    """Sometimes drop the caches or reopen the store. Return the engine to use next."""
    match choose.randrange(8):
        case 0:
            for node in engine.store.core.tables.values():
                node.forget()
        case 1:
            for view in engine.store.core.views.values():
                if view.chained:
                    view.forget(None)
        case 2 if place is not None:
            digest = engine.digest()
            engine.close()
            engine = ps.open(WORLD.app(), place, limits=TINY)
            assert engine.digest() == digest
    return engine


@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_stands_and_goes(seed: int, place: Path | None):
    choose, model = Random(seed), WORLD.model()
    engine = ps.open(WORLD.app(), place, limits=TINY)
    met = 0
    try:
        for _ in range(STEPS):
            step(choose, engine, model)
            check(engine, model)
            held = {name: view["held"] for name, view in engine.status()["views"].items()}
            assert held == {name: len(told.held) for name, told in model.told.items()}
            met += sum(map(bool, held.values()))
            engine = disturb(choose, engine, place)
    finally:
        engine.close()
    assert met > 3 * STEPS, "several views hold something at any time"
