"""Writes while views of a large table are built, compared with the same writes without a build.

Two apps take turns. Under each, batches are put until its views are built, then as many without a build. Before each
part the store is compacted and opened, so that both begin with equal logs and with empty memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

import penstock as ps
from bench import child
from bench.load import Clock, fill, fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app, cut

SHARE = 0.7
_SINGLES = 5_000  # puts at most in a turn


def sweep(plan: Plan) -> Iterator[Figure]:
    """Measure the share of their rate that writers keep, with batches and with single puts."""
    keys = max(3_000, 3 * plan.keys // 2)  # a smaller table would be built while the store is opened
    for batch in (*plan.batches, 1):
        docs = min(plan.docs, _SINGLES) if batch == 1 else 2 * plan.docs
        got = child.run(
            "bench.sweep:beside",
            folder=plan.at("sweep"),
            keys=keys,
            docs=docs,
            batch=batch,
            rounds=1 if batch > 10_000 else min(plan.rounds, 2),
        )
        rate, share = median(got["during"]), median(d / a for d, a in zip(got["during"], got["alone"], strict=True))
        yield Figure(
            "sweep",
            f"writing by {batch:,}",
            rate,
            "documents/s",
            {"while nothing is built": median(got["alone"])},
            got["idle"],
            f"≥ {SHARE:.0%} of their rate",
            share,
            plan.met(share >= SHARE),
            {"documents in the table": keys, "seconds until built": median(got["seconds"]), "built": got["built"]},
        )


def other() -> ps.App:
    """Return the standard app with other definitions of both views."""
    shop = ps.App("bench")
    users = shop.table(TABLE, key="id", ts="ts")
    users.view("by_name", key="name", reduce={"n": ps.count(), "total": ps.sum("amount")})
    users.view("by_city", key="city", reduce={"n": ps.count(), "mean": ps.mean("amount")})
    return shop


def beside(folder: str, keys: int, docs: int, batch: int, rounds: int) -> dict[str, Any]:
    """Return the rates with a build and without, the seconds until it was complete, and whether it was in time."""
    root = fresh(folder)
    engine, work = fill(root / "store", keys, 50_000)
    engine.close()
    out: dict[str, Any] = {"during": [], "alone": [], "seconds": [], "built": True}
    apps = [other, app]
    for number in range(rounds):
        _turn(root / "store", apps[number % 2](), work, docs, batch, out)
    with ps.open(app(), root / "store") as engine:
        engine.migrate()
        work.check(engine)
    shutil.rmtree(root)
    return out


def _turn(store: Path, changed: ps.App, work: Workload, docs: int, batch: int, out: dict[str, Any]) -> None:
    """Open the store with an app whose views it lacks. Write until they are built, and the same amount afterwards."""
    before, after = (cut(work.upserts(docs), batch) for _ in range(2))
    engine = ps.open(changed, store)
    began, clock = perf_counter(), Clock()
    n, building = 0, True
    while building and n < len(before):
        clock.time(_put, engine, before[n])
        building = engine.status()["building"] is not None
        n += 1
    out["seconds"].append(perf_counter() - began)
    out["built"] &= not building
    out["during"].append(n * batch / clock.seconds)
    engine.migrate()
    engine.put_many(TABLE, chain(*before[n:]))
    engine.compact()
    engine.close()
    engine = ps.open(changed, store)
    clock = Clock()
    for part in after[:n]:
        clock.time(_put, engine, part)
    out["alone"].append(n * batch / clock.seconds)
    engine.put_many(TABLE, chain(*after[n:]))
    engine.compact()
    engine.close()


def _put(engine: ps.Engine, part: list[bytes]) -> None:
    if len(part) == 1:
        engine.put(TABLE, msgspec.json.decode(part[0]))
    else:
        engine.put_many(TABLE, part, batch=len(part))
