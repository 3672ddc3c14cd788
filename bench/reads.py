"""Reads of another process while the writer runs at full rate, and their effect on the writer."""

from __future__ import annotations

import random
import select
import shutil
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import penstock as ps
from bench import child, limits
from bench.load import Clock, fill, fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import CITIES, TABLE, app, cut

GETS, SINGLE, SLOWED = 100_000, 0.001, 0.15
_MANY, _ONE = 100, 20  # gets per call in batches, and single gets between two batches


def reads(plan: Plan) -> Iterator[Figure]:
    """Views, then documents of the table."""
    for source in ("view", "table"):
        got = child.run(
            "bench.reads:write_beside",
            folder=plan.at("reads"),
            keys=plan.keys,
            docs=plan.docs,
            batch=plan.batches[0],
            rounds=plan.rounds,
            source=source,
        )
        yield from _figures(plan, source, got)


def _figures(plan: Plan, source: str, got: dict[str, Any]) -> Iterator[Figure]:
    idle = got["idle"]
    rate = median(r["gets"] / r["seconds"] for r in got["readers"])
    tail = median(r["p99"] for r in got["readers"])
    alone, beside = median(got["alone"]), median(got["beside"])
    slowed = median(1 - b / a for a, b in zip(got["alone"], got["beside"], strict=True))
    limit: dict[str, float | None] = {"decode-only, µs": got["decode"]}
    case, reach = f"{source} gets, by {_MANY}", f"≥ {GETS:,} gets/s"
    yield Figure("reads", case, rate, "gets/s", limit, idle, reach, rate / GETS, plan.met(rate >= GETS))
    case, reach = f"{source} get, p99", f"≤ {1e3 * SINGLE:g} ms"
    middle = {"median, µs": 1e6 * median(r["median"] for r in got["readers"])}
    met = plan.met(tail <= SINGLE)
    yield Figure("reads", case, 1e6 * tail, "µs", limit, idle, reach, tail / SINGLE, met, middle)
    case, reach = f"writer beside {source}", f"slowed ≤ {SLOWED:.0%}"
    limit = {"alone, documents/s": alone, **limit}
    yield Figure("reads", case, beside, "documents/s", limit, idle, reach, slowed, plan.met(slowed <= SLOWED))


def write_beside(folder: str, keys: int, docs: int, batch: int, rounds: int, source: str) -> dict[str, Any]:
    """The writer: in turn alone and beside a reader, whose own counts come back."""
    root = fresh(folder)
    engine, work = fill(root / "store", keys, batch)
    rates: dict[str, list[float]] = {"alone": [], "beside": []}
    readers, decode = [], []
    with engine:
        for _ in range(rounds):
            for how, rate in rates.items():
                lines = work.upserts(docs)
                decode.append(1e6 * limits.decode_only(lines) / docs)
                reader = None
                if how == "beside":
                    reader = child.start("bench.reads:read", store=str(root / "store"), keys=keys, source=source)
                    reader.note()
                clock = Clock()
                for part in cut(lines, batch):
                    clock.time(engine.put_many, TABLE, part, batch=batch)
                rate.append(docs / clock.seconds)
                if reader:
                    reader.stop()
                    readers.append(reader.result())
        work.check(engine)
    shutil.rmtree(root)
    return {**rates, "readers": readers, "decode": median(decode)}


def read(store: str, keys: int, source: str) -> dict[str, float]:
    """The reader: gets by 100 and single ones in turn, a new snapshot for each turn, until stdin ends."""
    draw = random.Random(7)
    groups = [keys, CITIES][source == "view"]
    turns = [[_key(draw.randrange(groups), source) for _ in range(_MANY)] for _ in range(200)]
    singles: list[float] = []
    gets, seconds, turn = 0, 0.0, 0
    with ps.open(app(), store, readonly=True) as engine:
        print("ready", flush=True)
        while not turn or not select.select([sys.stdin], [], [], 0)[0]:
            began = perf_counter()
            with engine.snapshot() as snap:
                target = snap.view("by_city") if source == "view" else snap.table(TABLE)
                for wanted in (turns[(turn + i) % len(turns)] for i in range(10)):
                    assert len(target.get_many(wanted)) == _MANY
                gets += 10 * _MANY
                seconds += perf_counter() - began
                for key in turns[turn % len(turns)][:_ONE]:
                    began = perf_counter()
                    target.get(key)
                    singles.append(perf_counter() - began)
            turn += 1
    return {"gets": gets, "seconds": seconds, "median": median(singles), "p99": percentile(singles, 0.99)}


def _key(number: int, source: str) -> int | str:
    return f"c{number}" if source == "view" else number
