"""Function views that hold some documents: the CPU time per document must not grow with the number of documents.

A view that sums a float holds the 2.8 % of the documents whose value is "NA". Another one yields maps. A load, a load
of newer versions and a check are measured at a quarter of the documents and at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Any

import penstock as ps
from bench.plan import Plan
from bench.report import Figure

TABLE, SHARE, GROWTH = "flights", 0.028, 1.5


def app() -> ps.App:
    """A table with a view that sums floats and a view that yields maps."""
    shop = ps.App("flights")
    flights = shop.table(TABLE, key="id")

    @flights.view(reduce=ps.sum())
    def delay(flight: dict[str, Any]) -> Iterator[Any]:
        yield flight["carrier"], float(flight["delay"])

    @flights.view(reduce=ps.count())
    def late(flight: dict[str, Any]) -> Iterator[Any]:
        yield flight["carrier"], {"delay": float(flight["delay"])}

    return shop


def held(plan: Plan) -> Iterator[Figure]:
    """Documents per CPU second, and the growth of the time per document over a quarter of the documents."""
    docs = max(2_000, plan.docs // 3)
    few, many = measured(docs // 4), measured(docs)
    for case, rate in many.items():
        growth = few[case] / rate
        yield Figure(
            "held",
            f"{case} of {docs:,}",
            rate,
            "documents/CPU s",
            {f"of {docs // 4:,}": few[case]},
            None,
            f"≤ {GROWTH} × the time per document",
            growth,
            plan.met(growth <= GROWTH),
        )


def measured(docs: int) -> dict[str, float]:
    """Return the rate of each step over this number of documents."""
    rates: dict[str, float] = {}
    with ps.open(app(), None) as engine:
        engine.put(TABLE, {"id": -1, "carrier": "AA", "delay": "NA"})
        for case, seed in (("load", 1), ("newer versions", 2)):
            flights = _flights(docs, seed)
            began = process_time()
            engine.put_many(TABLE, iter(flights))
            rates[case] = docs / (process_time() - began)
        began = process_time()
        assert engine.check().ok
        rates["check"] = docs / (process_time() - began)
    return rates


def _flights(docs: int, seed: int) -> list[dict[str, Any]]:
    choose = Random(seed)
    delays = ("NA" if choose.random() < SHARE else choose.randrange(9_000) / 60 for _ in range(docs))
    return [{"id": i, "carrier": f"C{choose.randrange(15)}", "delay": delay} for i, delay in enumerate(delays)]
