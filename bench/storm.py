"""A storm of bad records: batches in which every record is rejected, among batches of good ones.

The rate of good batches is measured in turns, with a batch of bad records between two of them and without. So both run
under the same load of the machine. The growth of memory is measured over the whole storm.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from bench import child, machine
from bench.load import fill, fresh
from bench.plan import Plan
from bench.report import Figure
from bench.workload import TABLE

SHARE, GROWTH = 0.9, 64 << 20


def storm(plan: Plan) -> Iterator[Figure]:
    """Measure the rate of good records in a storm of bad ones, and without it."""
    bad = plan.docs // 10
    got = child.run("bench.storm:storms", folder=plan.at("storm"), keys=plan.keys, bad=bad)
    share = got["calm"] / got["stormy"]
    yield Figure(
        "storm",
        f"good records among {got['bad']:,} bad ones",
        got["good"] / got["stormy"],
        "documents/s",
        {"without them": got["good"] / got["calm"], "bad records/s": got["bad"] / got["storm"]},
        got["idle"],
        f"≥ {SHARE:g} × without them; memory grows by at most {GROWTH >> 20} MiB",
        share,
        plan.met(share >= SHARE and got["growth"] <= GROWTH),
        {"memory, MiB": got["growth"] / (1 << 20)},
    )


def storms(folder: str, keys: int, bad: int) -> dict[str, Any]:
    """Return the seconds of good batches with a bad one before each and without, and of the bad ones."""
    root = fresh(folder)
    engine, work = fill(root / "store", keys, 50_000)
    size, rounds = max(1, bad // 10), 10
    seconds = {"calm": 0.0, "stormy": 0.0, "storm": 0.0}

    def timed(kind: str, lines: list[bytes]) -> None:
        began = perf_counter()
        engine.put_many(TABLE, lines, batch=size)
        seconds[kind] += perf_counter() - began

    with engine:
        timed("calm", work.upserts(size))
        seconds["calm"] = 0.0
        before = machine.anonymous() or 0
        for n in range(rounds):
            timed("calm", work.upserts(size))
            timed("storm", [b'{"name": "name%d", "city": "c%d", "ts": %d' % (i, n, i) for i in range(size)])
            timed("stormy", work.upserts(size))
        growth = max(0, (machine.anonymous() or 0) - before)
        assert engine.status()["tables"][TABLE]["quarantined"] == rounds * size, "each bad record is kept"
        work.check(engine)
    return {"good": rounds * size, "bad": rounds * size, "growth": growth, **seconds}
