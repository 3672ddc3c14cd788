"""10,000,000 keys: the rate against 200,000 keys, memory and pauses, and the opening of such a store after kill -9."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
from bench import child, limits, machine
from bench.load import Clock, fill, fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app

RATE, MEMORY, PAUSE = 0.55, 512 << 20, 0.1
FIRST_ANSWER, FIRST_WRITE = 1.0, 5.0


def many(plan: Plan) -> Iterator[Figure]:
    """Every key once, then as many upserts again."""
    batch = plan.batches[0]
    few = {"keys": plan.keys, "docs": 4 * plan.docs, "batch": batch}
    for kind in ("int", "text"):
        text = kind == "text"
        before = _passes(plan, text, **few)
        got = _passes(plan, text, keys=plan.many_keys, docs=2 * plan.many_keys, batch=batch)
        after = _passes(plan, text, **few)
        yield from _figures(plan, kind, got, (_rate(before) + _rate(after)) / 2)


def _passes(plan: Plan, text: bool, **how: int) -> dict[str, Any]:
    result = child.run("bench.large:passes", cores=1, folder=plan.at("large"), text=text, **how)
    assert isinstance(result, dict)
    return result


def _figures(plan: Plan, kind: str, got: dict[str, Any], few_rate: float) -> Iterator[Figure]:
    rate, size = _rate(got), f"{got['keys']:,} {kind} keys"
    beside: dict[str, float | None] = {
        "at few keys, documents/s": few_rate,
        "decode-only, µs": 1e6 * got["decode"] / got["docs"],
        "append + fdatasync, µs": 1e6 * got["append"],
        "LMDB commit of the bytes, µs": 1e6 * got["commit"],
    }
    detail = {"MB on disk": got["size"] / 1e6, "seconds of the first pass": got["first"]}
    share = rate / few_rate
    judged = kind == "int"
    met = plan.met(share >= RATE) if judged else None
    reach = f"≥ {RATE} × at few keys" if judged else ""
    yield Figure("keys10m", size, rate, "documents/s", beside, got["idle"], reach, share, met, detail)
    if got["memory"] is not None:
        used = got["memory"] / MEMORY
        met = plan.met(used <= 1)
        reach = f"≤ {MEMORY >> 20} MB anonymous"
        yield Figure("keys10m", f"memory, {kind}", got["memory"] / 1e6, "MB", {}, got["idle"], reach, used, met)
    calls = got["calls"]
    pause = max(calls) - median(calls)
    beside = {"median batch, ms": 1e3 * median(calls)}
    met, reach = plan.met(pause <= PAUSE), f"≤ {1e3 * PAUSE:.0f} ms beyond median"
    yield Figure("keys10m", f"pause, {kind}", 1e3 * pause, "ms", beside, got["idle"], reach, pause / PAUSE, met)


def _rate(got: dict[str, Any]) -> float:
    return float(got["docs"] / got["seconds"])


def passes(folder: str, keys: int, docs: int, batch: int, text: bool) -> dict[str, Any]:
    """Return the figures of one pass over every key, then of upserts, `docs` in all.

    Lines are made batch by batch, outside the measured time. Memory is the anonymous memory of the process without the
    arrays of the bench.
    """
    work = Workload(keys, text=text)
    root = fresh(folder)
    clock, decode, peak, first, lines = Clock(), 0.0, 0, 0.0, list[bytes]()
    engine = ps.open(app(), root / "store")
    for a in range(0, docs, batch):
        size = min(batch, docs - a)
        unseen = min(size, max(0, keys - a))
        lines = work.every_key(unseen) + work.upserts(size - unseen)
        decode += limits.decode_only(lines)
        clock.time(engine.put_many, TABLE, lines, batch=batch)
        peak = max(peak, (machine.anonymous() or 0) - work.nbytes)
        if a + batch >= keys and not first:
            first = clock.seconds
    work.check(engine)
    calls = clock.calls[:]
    size = machine.on_disk(root / "store")
    clock.time(engine.close)
    sync = limits.synced([lines] * 10, root)
    shutil.rmtree(root)
    return {
        "keys": keys,
        "docs": docs,
        "seconds": clock.seconds,
        "first": first,
        "decode": decode,
        "memory": peak or None,
        "calls": calls,
        "size": size,
        **sync,
    }


def opening(plan: Plan) -> Iterator[Figure]:
    """Open after kill -9 in the middle of writing."""
    store = str(fresh(plan.at("opening")) / "store")
    writer = child.start("bench.large:write_on", store=store, keys=plan.many_keys, batch=plan.batches[0])
    while int(writer.note()) < 3:
        pass
    writer.kill()
    got = child.run("bench.large:open_again", store=store, keys=plan.many_keys)
    shutil.rmtree(Path(store).parent)
    bounds = {"answer": FIRST_ANSWER, "write": FIRST_WRITE}
    for what, bound in bounds.items():
        met = plan.met(got[what] <= bound)
        limit: dict[str, float | None] = {"smallest LMDB commit, s": got["smallest"]}
        case, reach = f"first {what}", f"≤ {bound:g} s after kill -9"
        yield Figure("opening", case, got[what], "s", limit, got["idle"], reach, got[what] / bound, met)


def write_on(store: str, keys: int, batch: int) -> None:
    """Fill a store, then write until killed, and print the number of batches after each."""
    engine, work = fill(Path(store), keys, batch)
    count = 0
    while True:
        engine.put_many(TABLE, work.upserts(batch), batch=batch)
        count += 1
        print(count, flush=True)


def open_again(store: str, keys: int) -> dict[str, float]:
    """Return the seconds from ps.open to the first answer, and to the end of the first write."""
    began = time.perf_counter()
    with ps.open(app(), store) as engine:
        with engine.snapshot() as snap:
            assert snap.view("by_city")["c7"]["n"] > 0
            assert snap.table(TABLE)[keys // 2]["id"] == keys // 2
        answer = time.perf_counter() - began
        engine.put(TABLE, {"id": keys, "name": "one more", "city": "c7", "amount": 1, "ts": 1 << 40})
        write = time.perf_counter() - began
        with engine.snapshot() as snap:
            assert snap.view("by_name")["one more"] == 1
            assert sum(n for _, n in snap.view("by_name").items()) == keys + 1
    with limits.SmallestCommit(Path(store).parent) as smallest:
        return {"answer": answer, "write": write, "smallest": min(smallest.once() for _ in range(20))}
