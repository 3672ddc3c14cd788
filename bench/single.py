"""One document put: durable and visible in the views when the call returns.

The smallest synced LMDB transaction of the same disk is measured in turns with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import msgspec

from bench import child
from bench.limits import SmallestCommit
from bench.load import fill, fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import TABLE

MEDIAN_BEYOND, P99 = 0.0005, 3.0


def put(plan: Plan) -> Iterator[Figure]:
    """Measure the median and the 99th percentile of one put."""
    got = child.run("bench.single:puts", folder=plan.at("single"), keys=plan.keys, puts=plan.puts)
    mine, small = got["puts"], got["commits"]
    beyond = median(mine) - median(small)
    limits: dict[str, float | None] = {
        "smallest LMDB commit, µs": 1e6 * median(small),
        "its p99, µs": 1e6 * percentile(small, 0.99),
    }
    yield Figure(
        "put",
        "median",
        1e6 * median(mine),
        "µs",
        limits,
        got["idle"],
        f"≤ smallest commit + {1e6 * MEDIAN_BEYOND:.0f} µs",
        1e6 * beyond,
        plan.met(beyond <= MEDIAN_BEYOND),
    )
    tail = percentile(mine, 0.99)
    yield Figure(
        "put",
        "p99",
        1e6 * tail,
        "µs",
        limits,
        got["idle"],
        f"≤ {P99:g} × median",
        tail / median(mine),
        plan.met(tail <= P99 * median(mine)),
        {"longest, µs": 1e6 * max(mine)},
    )


def puts(folder: str, keys: int, puts: int) -> dict[str, Any]:
    """Return the seconds of each put into a filled store, and of a smallest commit before each."""
    root = fresh(folder)
    engine, work = fill(root / "store", keys, 50_000)
    docs = [msgspec.json.decode(line) for line in work.upserts(puts)]
    commits, mine = [], []
    with engine, SmallestCommit(root) as smallest:
        for doc in docs:
            commits.append(smallest.once())
            began = perf_counter()
            engine.put(TABLE, doc)
            mine.append(perf_counter() - began)
        work.check(engine)
    return {"puts": mine, "commits": commits}
