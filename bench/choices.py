"""Figures of upserts under reducers that choose among a city's values: distinct names, and the top 10 amounts.

Beside each, plain Python does the work in memory: a Counter of names by city, or a sorted list of amounts by city. It
decodes the same lines and stores nothing.
"""

from __future__ import annotations

import shutil
import time
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, cpu_rate
from bench.workload import TABLE, Workload, cut

TOP = 10
REDUCERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "distinct": ("name", lambda: ps.distinct()),
    "top": ("amount", lambda: ps.top(TOP)),
}


def choices(plan: Plan) -> Iterator[Figure]:
    """Measure distinct and the top 10 at two batch sizes."""
    for reducer in REDUCERS:
        for batch in (plan.batches[1], plan.batches[1] // 10):
            how = {"docs": plan.docs // 10, "keys": plan.keys // 2, "batch": batch, "reducer": reducer}
            rounds = [child.run("bench.choices:load", 1, folder=plan.at("choices"), **how) for _ in range(plan.rounds)]
            case = f"{reducer}, batches of {batch:,}"
            yield cpu_rate("choices", case, rounds, "Python", [r["python"] for r in rounds])


def load(folder: str, docs: int, keys: int, batch: int, reducer: str) -> dict[str, Any]:
    """Return the CPU seconds of upserts into a store, and of plain Python for the same work."""
    work = Workload(keys)
    lines = work.upserts(docs)
    root = fresh(folder)
    value, make = REDUCERS[reducer]
    app = ps.App("bench")
    app.table(TABLE, key="id", ts="ts").view("chosen", key="city", value=value, reduce=make())
    with ps.open(app, root / "store") as engine:
        began = time.process_time()
        for part in cut(lines, batch):
            engine.put_many(TABLE, part, batch=batch)
        cpu = time.process_time() - began
        began = time.process_time()
        expected = (_names if reducer == "distinct" else _greatest)(lines)
        python = time.process_time() - began
        with engine.snapshot() as snap:
            assert dict(snap.view("chosen").items()) == expected, "the view differs from the input"
    shutil.rmtree(root)
    return {"docs": docs, "cpu": cpu, "python": python}


def _names(lines: list[bytes]) -> dict[str, int]:
    decode, last = msgspec.json.Decoder().decode, dict[int, tuple[str, str]]()
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        doc = decode(line)
        if (old := last.get(doc["id"])) is not None:
            names[old[0]][old[1]] -= 1
            if not names[old[0]][old[1]]:
                del names[old[0]][old[1]]
        last[doc["id"]] = doc["city"], doc["name"]
        names[doc["city"]][doc["name"]] += 1
    return {city: len(own) for city, own in names.items() if own}


def _greatest(lines: list[bytes]) -> dict[str, list[int]]:
    decode, last = msgspec.json.Decoder().decode, dict[int, tuple[str, int]]()
    amounts: defaultdict[str, list[int]] = defaultdict(list)
    for line in lines:
        doc = decode(line)
        if (old := last.get(doc["id"])) is not None:
            del amounts[old[0]][bisect_left(amounts[old[0]], old[1])]
        last[doc["id"]] = doc["city"], doc["amount"]
        insort(amounts[doc["city"]], doc["amount"])
    return {city: own[: -TOP - 1 : -1] for city, own in amounts.items() if own}
