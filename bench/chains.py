"""Figures of views on views: the rows of a count by (city, name) give a sum by city.

The chained view is a Python function or a field view. Beside both, the parent view alone takes the same documents.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, cpu_rate
from bench.workload import TABLE, Workload, cut

KINDS = ("none", "function", "fields")


def chains(plan: Plan) -> Iterator[Figure]:
    """Measure the function and the field view on rows, in turns with the parent view alone."""
    how = {"docs": plan.docs // 5, "keys": plan.keys, "batch": plan.batches[1]}
    rounds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(plan.rounds):
        for kind in KINDS:
            rounds[kind].append(child.run("bench.chains:load", 1, folder=plan.at("chains"), kind=kind, **how))
    alone = [r["cpu"] for r in rounds["none"]]
    for kind in KINDS[1:]:
        yield cpu_rate("chains", f"rows, {kind}", rounds[kind], "parent view alone", alone)


def load(folder: str, docs: int, keys: int, batch: int, kind: str) -> dict[str, Any]:
    """Return the CPU seconds of upserts under these views."""
    work = Workload(keys)
    root = fresh(folder)
    app = ps.App("bench")
    rows = app.table(TABLE, key="id", ts="ts").view("by_both", key=("city", "name"), reduce=ps.count())
    if kind == "function":
        rows.view("by_city", reduce=ps.sum())(_city)
    elif kind == "fields":
        rows.view("by_city", key="key.0", value="value", reduce=ps.sum())
    lines = work.upserts(docs)
    with ps.open(app, root / "store") as engine:
        began = time.process_time()
        for part in cut(lines, batch):
            engine.put_many(TABLE, part, batch=batch)
        cpu = time.process_time() - began
        if kind != "none":
            with engine.snapshot() as snap:
                _check(dict(snap.view("by_city").items()), work)
    shutil.rmtree(root)
    return {"docs": docs, "cpu": cpu}


def _city(row: Any) -> Iterator[Any]:
    yield row.key[0], row.value


def _check(found: dict[str, int], work: Workload) -> None:
    expected = Counter({city: row["n"] for city, row in work.expected()[1].items()})
    assert Counter(found) == expected, "the view differs from the input"
