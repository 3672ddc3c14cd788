"""The feed of changes: the delay until another process has a change, and the cost of the feed to the writer."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import msgspec

import penstock as ps
from bench import child
from bench.load import Clock, fill, fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import TABLE, Workload, app, cut

WITHIN = 0.05
_APART = 0.03  # largest pause between two puts, so that they are spread over a follower's polling interval


def follow(plan: Plan) -> Iterator[Figure]:
    """Measure the time from a commit to its last change in another process, of single puts and of large batches."""
    for batch in (1, plan.batches[1]):
        puts = min(plan.puts, 1_000) if batch == 1 else max(2, plan.docs // 2 // batch)
        got = child.run("bench.feed:beside", folder=plan.at("feed"), keys=plan.keys, batch=batch, puts=puts)
        delays = got["delays"]
        tail = percentile(delays, 0.99)
        yield Figure(
            "follow",
            "p99 of single puts" if batch == 1 else f"p99 by {batch:,}, full rate",
            1e3 * tail,
            "ms",
            {"median, ms": 1e3 * median(delays), "changes a commit": got["changes"] / len(delays)},
            got["idle"],
            f"≤ {1e3 * WITHIN:.0f} ms from the commit",
            tail / WITHIN,
            plan.met(tail <= WITHIN),
            {"longest, ms": 1e3 * max(delays)},
        )


def beside(folder: str, keys: int, batch: int, puts: int) -> dict[str, Any]:
    """Return the seconds from the return of each put until a following process has its last change."""
    root, choose = fresh(folder), random.Random(3)
    engine, work = fill(root / "store", keys, 50_000)
    parts = cut(work.upserts(puts * batch), batch)
    docs = [msgspec.json.decode(part[0]) for part in parts] if batch == 1 else []
    with engine:
        with engine.snapshot() as snap:
            first = snap.position
        reader = child.start("bench.feed:read", store=str(root / "store"), since=first, until=first + puts)
        reader.note()
        done: list[float] = []
        for i, part in enumerate(parts):
            if batch == 1:
                time.sleep(choose.random() * _APART)
                engine.put(TABLE, docs[i])
            else:
                engine.put_many(TABLE, part, batch=batch)
            done.append(perf_counter())
        got = reader.result()
        work.check(engine)
    shutil.rmtree(root)
    delays = [max(0.0, at - done[int(position) - first - 1]) for position, at in got["at"].items()]
    return {"delays": delays, "changes": got["changes"]}


def read(store: str, since: int, until: int) -> dict[str, Any]:
    """Follow the feed, and note the time of the last change of each position, by the clock that all processes share."""
    at: dict[int, float] = {}
    changes = 0
    with ps.open(app(), store, readonly=True) as engine:
        print("ready", flush=True)
        for change in engine.changes("by_name", "by_city", since=since, follow=True):
            at[change.position] = perf_counter()
            changes += 1
            if change.position == until and change.view == "by_city":
                break
    return {"at": at, "changes": changes}


def cost(plan: Plan) -> Iterator[Figure]:
    """Measure the standard load with a feed and without one, in turns."""
    for batch in plan.batches:
        got = child.run(
            "bench.feed:loads", folder=plan.at("cost"), keys=plan.keys, docs=plan.docs, batch=batch, rounds=plan.rounds
        )
        with_feed, none = median(got["kept"]), median(got["none"])
        more = median(1e6 / k - 1e6 / n for k, n in zip(got["kept"], got["none"], strict=True))
        yield Figure(
            "feedcost",
            f"by {batch:,}",
            with_feed,
            "documents/s",
            {"without a feed": none, "µs a document more": more},
            got["idle"],
            ratio=with_feed / none,
            detail={"changes kept": got["changes"], "read, changes a CPU second": got["read"]},
        )


def loads(folder: str, keys: int, docs: int, batch: int, rounds: int) -> dict[str, Any]:
    """Return the rates of updates in two stores, one of them with a feed."""
    root = fresh(folder)
    out: dict[str, Any] = {"kept": [], "none": []}
    work = {name: Workload(keys) for name in out}
    engines = {"kept": ps.open(app(), root / "kept"), "none": ps.open(app(), root / "none", changes=0)}
    for name, engine in engines.items():
        engine.put_many(TABLE, work[name].every_key(keys), batch=batch)
    for number in range(2 * rounds):
        name = ("kept", "none", "none", "kept")[number % 4]
        lines, clock = work[name].upserts(docs), Clock()
        for part in cut(lines, batch):
            clock.time(engines[name].put_many, TABLE, part, batch=batch)
        out[name].append(docs / clock.seconds)
    for name, engine in engines.items():
        work[name].check(engine)
    began = time.process_time()
    out["changes"] = sum(1 for _ in engines["kept"].changes())
    out["read"] = out["changes"] / (time.process_time() - began)
    for engine in engines.values():
        engine.close()
    shutil.rmtree(root)
    return out
