"""One document put: durable and visible in the views when the call returns.

The smallest synced LMDB transaction of the same disk is measured in turns with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any, Literal

import msgspec

import penstock as ps
from bench import child
from bench.limits import SmallestCommit
from bench.load import fill, fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import TABLE, Workload, app, cut

MEDIAN_BEYOND, P99 = 0.0005, 3.0
FURTHER, MANY = 15.0, 50  # µs of CPU for each further view, and so many of them
GROUP = 1.2  # CPU time of a put whose thread waits for its ticket, in units of a synced put
_TURN = 50  # puts of one mode in a row


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


def group(plan: Plan) -> Iterator[Figure]:
    """Measure the CPU time of a put under durability="group", by one thread that waits for each."""
    got = child.run("bench.single:group_puts", folder=plan.at("group"), keys=plan.keys, puts=plan.puts)
    grouped, synced = median(got["group"]), median(got["sync"])
    yield Figure(
        "group",
        "one waiting thread",
        1e6 * grouped,
        "µs of CPU",
        {"synced put, µs of CPU": 1e6 * synced},
        got["idle"],
        f"≤ {GROUP:g} × a synced put",
        grouped / synced,
        plan.met(grouped <= GROUP * synced),
    )


def group_puts(folder: str, keys: int, puts: int) -> dict[str, Any]:
    """Return the CPU seconds of puts in both modes, in turns, as means of a few puts."""
    root = fresh(folder)
    engine, work = fill(root / "store", keys, 50_000)
    engine.close()
    docs = [msgspec.json.decode(line) for line in work.upserts(puts)]
    turn = min(_TURN, puts // 2)
    spent: dict[str, list[float]] = {"sync": [], "group": []}
    for a in range(0, len(docs), turn):
        mode: Literal["sync", "group"] = "group" if a // turn % 2 else "sync"
        part = docs[a : a + turn]
        first = len(part) // 5  # puts that find a store that was just opened
        with ps.open(app(), root / "store", durability=mode) as engine:
            _put_each(engine, part[:first])
            began = process_time()
            _put_each(engine, part[first:])
            spent[mode].append((process_time() - began) / (len(part) - first))
    with ps.open(app(), root / "store", readonly=True) as engine:
        work.check(engine)
    return spent


def further(plan: Plan) -> Iterator[Figure]:
    """Measure the CPU time that each further view adds to a synced put: counts by name, and sums by city.

    It takes the tenth percentile, because other processes slow many puts.
    """
    sizes = {"keys": plan.keys // 10, "puts": plan.puts // 4}
    spent = {
        views: percentile(
            child.run("bench.single:viewed", folder=plan.at("further"), views=views, **sizes)["puts"], 0.1
        )
        for views in (2, 2 + MANY)
    }
    each = 1e6 * (spent[2 + MANY] - spent[2]) / MANY
    limits: dict[str, float | None] = {f"a put with {views} views": 1e6 * own for views, own in spent.items()}
    reach = f"≤ {FURTHER:g} µs"
    yield Figure("further", "a view", each, "µs of CPU", limits, None, reach, each, plan.met(each <= FURTHER))


def viewed(folder: str, keys: int, puts: int, views: int) -> dict[str, Any]:
    """Return the CPU seconds of each put into a store with so many views."""
    root, work = fresh(folder), Workload(keys)
    shop = ps.App("further")
    users = shop.table(TABLE, key="id", ts="ts")
    for i in range(0, views, 2):
        users.view(f"by_name{i}", key="name", reduce=ps.count())
        users.view(f"by_city{i}", key="city", reduce={"n": ps.count(), "total": ps.sum("amount")})
    spent: list[float] = []
    with ps.open(shop, root / "store") as engine:
        for part in cut(work.every_key(keys), 50_000):
            engine.put_many(TABLE, part, batch=50_000)
        for doc in [msgspec.json.decode(line) for line in work.upserts(puts)]:
            began = process_time()
            engine.put(TABLE, doc)
            spent.append(process_time() - began)
    return {"puts": spent}


def _put_each(engine: ps.Engine, docs: list[dict[str, Any]]) -> None:
    for doc in docs:
        ticket = engine.put(TABLE, doc)
        if isinstance(ticket, ps.Ticket):
            ticket.result()
