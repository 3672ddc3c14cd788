"""Rollups of all rows, and again after few changes: CPU time, and the number of rows that are read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import penstock as ps
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure
from penstock.mapreduce import RowCodec

SHARE = 0.05


def rollups(plan: Plan) -> Iterator[Figure]:
    """Measure one view per reducer, with a group for each document: first, without a change, and after one put."""
    app = ps.App("bench")
    docs = app.table("docs", key="id")
    reducers = {"sum of ints": ps.sum("n"), "sum of floats": ps.sum("x"), "max": ps.max("n")}
    for name, reducer in reducers.items():
        docs.view(name.replace(" ", "_"), key=("part", "id"), reduce=reducer)
    with ps.open(app, fresh(plan.at("rollup"))) as engine:
        engine.put_many("docs", ({"id": i, "part": i % 20, "n": i, "x": i / 7} for i in range(plan.keys)))
        for place, name in enumerate(reducers):
            view = name.replace(" ", "_")
            first, rows = _rolled(engine, view)
            again = _rolled(engine, view)
            engine.put("docs", {"id": 7, "part": 7, "n": place, "x": place / 7})
            after = _rolled(engine, view)
            beside: dict[str, float | None] = {"the first, ms": first, "without a change, ms": again[0]}
            detail = {"rows": rows, "rows without a change": again[1], "rows after one put": after[1]}
            share = after[1] / rows
            met = plan.met(share <= SHARE)
            case, reach = f"{name}, {plan.keys:,} groups, after one put", f"reads ≤ {SHARE:.0%} of the rows"
            yield Figure("rollup", case, after[0], "ms of CPU", beside, None, reach, share, met, detail)


def _rolled(engine: Any, view: str) -> tuple[float, int]:
    """Return the CPU time of a grand total in ms, and the number of rows that it read."""
    states, rows = RowCodec.states, list[int]()

    def counted(codec: RowCodec, some: Any, where: str) -> Any:
        rows.append(len(some))
        return states(codec, some, where)

    with mock.patch.object(RowCodec, "states", counted), engine.snapshot() as snap:
        began = time.process_time()
        list(snap.view(view).rollup(0))
        return 1e3 * (time.process_time() - began), sum(rows)
