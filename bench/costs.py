"""CPU time of a store of two partitions beside one store, and the file of many groups beside its documents.

All rates are per second of CPU time, of the process and of the partitions that it started.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from bench import child, machine
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app, cut

SHARED, SINGLE = 0.8, 2.0
"""The least rate of two partitions, and the most CPU time of a put, in units of one store."""
SIZE, RATE = 2.5, 200_000
"""The largest file of many groups in units of its documents, and the least rate."""


def two(plan: Plan) -> Iterator[Figure]:
    """Measure lines and single puts into one store and into two partitions, in turns."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(plan.rounds):
        for partitions, rounds in found.items():
            sizes: dict[str, Any] = {"docs": plan.docs, "keys": plan.keys, "puts": plan.puts, "batch": plan.batches[0]}
            rounds.append(child.run("bench.costs:partitioned", folder=plan.at("two"), partitions=partitions, **sizes))
    idle = min((r["idle"] for rounds in found.values() for r in rounds if r["idle"] is not None), default=None)
    rate, one = (plan.docs / median(r["lines"] for r in found[n]) for n in (2, 1))
    put, alone = (1e6 * median(r["put"] for r in found[n]) for n in (2, 1))
    name, reach = "two", f"≥ {SHARED:g} × one store"
    met = plan.met(rate >= SHARED * one)
    yield Figure(name, "lines", rate, "documents/s", {"one store": one}, idle, reach, rate / one, met)
    reach, met = f"≤ {SINGLE:g} × one store", plan.met(put <= SINGLE * alone)
    yield Figure(name, "a put", put, "µs of CPU", {"one store": alone}, idle, reach, put / alone, met)


def partitioned(folder: str, partitions: int, docs: int, keys: int, puts: int, batch: int) -> dict[str, Any]:
    """Return the CPU seconds of these lines, and of one put, in two stores of so many partitions."""
    root, work = fresh(folder), Workload(keys)
    seconds: list[float] = []
    for number, parts in enumerate((cut(work.upserts(docs), batch), [[line] for line in work.upserts(puts)])):
        options: dict[str, Any] = {"partitions": partitions} if partitions > 1 else {}
        with ps.open(app(), root / str(number), **options) as engine:
            began = _spent()
            for part in parts:
                engine.put_many(TABLE, part, batch=batch)
            engine.settle()
            seconds.append(_spent() - began)
    shutil.rmtree(root)
    return {"lines": seconds[0], "put": seconds[1] / puts}


def single(plan: Plan) -> Iterator[Figure]:
    """Measure groups of one document each."""
    rounds = [child.run("bench.costs:groups", 1, folder=plan.at("groups"), docs=plan.docs) for _ in range(plan.rounds)]
    rate, size = plan.docs / median(r["seconds"] for r in rounds), median(r["size"] for r in rounds)
    idle = min((r["idle"] for r in rounds if r["idle"] is not None), default=None)
    reach, met = f"≥ {RATE:,} documents/s", plan.met(rate >= RATE)
    yield Figure("single", "rate", rate, "documents/s", {}, idle, reach, rate / RATE, met)
    yield Figure("single", "file", size, "× its lines", {}, idle, f"≤ {SIZE:g} ×", size, plan.met(size <= SIZE))


def groups(folder: str, docs: int) -> dict[str, Any]:
    """Return the CPU seconds to load a document for each group, and the file in units of its lines."""
    shop, root = ps.App("groups"), fresh(folder)
    table = shop.table(TABLE, key="id", ts="ts")
    table.view("by_group", key="group", reduce={"n": ps.count(), "total": ps.sum("amount")})
    order = np.random.default_rng(1).permutation(docs).tolist()
    line = b'{"id": %d, "group": "group-%d", "amount": %d, "ts": %d}'
    lines = [line % (i, group, i % 1_000, i) for i, group in enumerate(order)]
    began = time.process_time()
    with ps.open(shop, root / "store") as engine:
        for part in cut(lines, 50_000):
            engine.put_many(TABLE, part, batch=50_000)
    seconds = time.process_time() - began
    size = machine.on_disk(Path(root / "store")) / sum(map(len, lines))
    shutil.rmtree(root)
    return {"seconds": seconds, "size": size}


def _spent() -> float:
    """Return the CPU seconds of this process and of the processes that it started and that still run."""
    total = time.process_time()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
