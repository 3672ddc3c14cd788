"""The measurements of reduce trees, each in a process of its own. Only calls of the engine are timed.

CPU time is returned beside wall time. It shows the cost of the work itself if others use the machine.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from numpy.typing import NDArray

import penstock as ps
from bench import limits
from bench.limits import SmallestCommit
from bench.load import Clock, fresh
from bench.report import median
from bench.workload import CITIES, TABLE, Workload, cut
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter

TOP = 10
TOGETHER = 1_000
_RANGE = 10**9
Ints = NDArray[np.int64]


def greatest(folder: str, keys: int, docs: int, batch: int, heavy: bool = False) -> dict[str, Any]:
    """Return seconds, CPU seconds and decode-only of upserts under a view of the greatest amount by city."""
    work = Workload(keys, heavy=heavy)
    lines = work.upserts(docs)
    before = limits.decode_only(lines)
    root = fresh(folder)
    app = ps.App("trees")
    app.table(TABLE, key="id", ts="ts").view("greatest", key="city", value="amount", reduce=ps.max())
    clock = Clock()
    engine = ps.open(app, root / "store")
    cpu = time.process_time()
    for part in cut(lines, batch):
        clock.time(engine.put_many, TABLE, part, batch=batch)
    cpu = time.process_time() - cpu
    after = limits.decode_only(lines)
    with engine.snapshot() as snap:
        assert dict(snap.view("greatest").items()) == work.greatest(), "the view differs from the input"
    clock.time(engine.close)
    synced = limits.synced(cut(lines, batch), root)
    shutil.rmtree(root)
    return {"docs": docs, "seconds": clock.seconds, "cpu": cpu, "decode": (before + after) / 2, **synced}


class _Ranked:
    """Amounts by id in arrays, and the ids at the top of their city."""

    def __init__(self, keys: int) -> None:
        self.random = np.random.default_rng(5)
        self.city = self.random.integers(0, CITIES, keys)
        self.amount = self.random.integers(0, _RANGE, keys)

    def top(self) -> Ints:
        """Return the ids of the top of every city, in any order."""
        order = np.lexsort((-self.amount, self.city))
        city = self.city[order]
        first = np.flatnonzero(np.concatenate((np.ones(1, bool), city[1:] != city[:-1])))
        rank = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
        return self.random.permutation(order[rank < TOP])

    def lines(self, ids: Ints) -> list[bytes]:
        """Return the current documents of these ids."""
        rows = zip(ids.tolist(), self.city[ids].tolist(), self.amount[ids].tolist())
        return [b'{"id": %d, "city": "c%d", "amount": %d}' % row for row in rows]

    def tops(self) -> dict[str, list[int]]:
        """Return the expected rows of the view."""
        ids = self.top()
        out: dict[str, list[int]] = {}
        for city, amount in sorted(zip(self.city[ids].tolist(), (-self.amount[ids]).tolist())):
            out.setdefault(f"c{city}", []).append(-amount)
        return out


def retractions(folder: str, keys: int, rounds: int) -> dict[str, Any]:
    """Return the seconds per document for batches in which all top 10 amounts of every city fall."""
    root = fresh(folder)
    app = ps.App("trees")
    app.table(TABLE, key="id").view("top", key="city", value="amount", reduce=ps.top(TOP))
    ranked, clock, cpu, moved = _Ranked(keys), Clock(), 0.0, 0
    with ps.open(app, root / "store") as engine:
        for ids in np.array_split(np.arange(keys), max(1, keys // 50_000)):
            engine.put_many(TABLE, ranked.lines(ids), batch=50_000)
        for _ in range(rounds):
            ids = ranked.top()
            ranked.amount[ids] = ranked.random.integers(0, _RANGE // 2, ids.size)
            lines = ranked.lines(ids)
            cpu -= time.process_time()
            clock.time(engine.put_many, TABLE, lines, batch=len(lines))
            cpu += time.process_time()
            moved += ids.size
        with engine.snapshot() as snap:
            assert dict(snap.view("top").items()) == ranked.tops(), "the view differs from the input"
    shutil.rmtree(root)
    return {"docs": moved, "seconds": clock.seconds, "cpu": cpu}


def updates(folder: str, sizes: Sequence[int], count: int, small: int = 0) -> dict[str, Any]:
    """Return the seconds of single updates in groups of these sizes, and of a smallest commit.

    The store also has `small` groups of one document each.
    """
    root = fresh(folder)
    app = ps.App("trees")
    app.table(TABLE, key="id").view("greatest", key="city", value="amount", reduce=ps.max())
    choose = np.random.default_rng(7)
    starts = np.cumsum([0, *sizes]).tolist()
    out: dict[str, Any] = {"wall": [], "cpu": [], "commit": []}
    with ps.open(app, root / "store") as engine, SmallestCommit(root) as smallest:
        for start, size in [*zip(starts, sizes), (starts[-1], small)]:
            many = [
                b'{"id": %d, "city": %d, "amount": %d}' % (i, i if start == starts[-1] else -size, i * 7919 % _RANGE)
                for i in range(start, start + size)
            ]
            for part in cut(many, 50_000):
                engine.put_many(TABLE, part, batch=50_000)
        for start, size in zip(starts, sizes):
            wall, cpu = [], []
            for key, amount in zip(choose.integers(start, start + size, count).tolist(), range(count)):
                out["commit"].append(smallest.once())
                began, spent = time.perf_counter(), time.process_time()
                engine.put(TABLE, {"id": key, "city": -size, "amount": amount})
                cpu.append(time.process_time() - spent)
                wall.append(time.perf_counter() - began)
            out["wall"].append(median(wall))
            out["cpu"].append(median(cpu))
        one, many = starts[-1], starts[-2]
        out["rows"] = {
            "a group of one": _rows(engine, [{"id": one, "city": one, "amount": 0}]),
            f"{TOGETHER} groups of one": _rows(engine, [{"id": i, "city": i, "amount": 1} for i in _span(one, small)]),
            f"a group of {sizes[-1]:,}": _rows(engine, [{"id": many, "city": -sizes[-1], "amount": -1}]),
            f"{TOGETHER} of {sizes[-1]:,}": _rows(
                engine, [{"id": i, "city": -sizes[-1], "amount": -2} for i in _span(many, sizes[-1])]
            ),
        }
    shutil.rmtree(root)
    return {**out, "commit": median(out["commit"])}


def _span(start: int, size: int) -> range:
    return range(start, start + min(size, TOGETHER))


def _rows(engine: ps.Engine, docs: list[dict[str, Any]]) -> list[int]:
    """Return the rows read and written, and the nodes read and written, in the view by one batch of these documents."""
    counts: Counter[tuple[str, str]] = Counter()

    def noted(name: str) -> Callable[..., Any]:
        known = getattr(LmdbWriter, name)

        def call(writer: LmdbWriter, db: str, keys: Sequence[Any], *more: Any, **named: Any) -> Any:
            counts[name, db.partition(":")[0]] += len(keys)
            return known(writer, db, keys, *more, **named)

        return call

    with ExitStack() as stack:
        for name in ("get_many", "put_many", "delete_many"):
            stack.enter_context(mock.patch.object(LmdbWriter, name, noted(name)))
        engine.put_many(TABLE, docs)
    each = [[counts[name, db] for name in ("get_many", "put_many", "delete_many")] for db in ("view", "tree")]
    return [n for read, put, deleted in each for n in (read, put + deleted)]


REDUCERS: dict[str, Callable[[], Any]] = {
    "distinct": ps.distinct,
    "quantiles": lambda: ps.quantiles([0.5, 0.99]),
}


def spread(folder: str, reducer: str, values: int, count: int) -> dict[str, Any]:
    """Measure a reducer over one group of this number of different values: the load, and single updates."""
    root = fresh(folder)
    app = ps.App("trees")
    app.table(TABLE, key="id").view("spread", key=(), value="v", reduce=REDUCERS[reducer]())
    random = np.random.default_rng(11)
    held = random.permutation(values) * 10
    clock, cpu = Clock(), time.process_time()
    with ps.open(app, root / "store") as engine:
        lines = [b'{"id": %d, "v": %d}' % row for row in enumerate(held.tolist())]
        for part in cut(lines, 50_000):
            clock.time(engine.put_many, TABLE, part, batch=50_000)
        cpu = time.process_time() - cpu
        wall, spent = [], []
        for i, key in enumerate(random.integers(0, values, count).tolist()):
            held[key] = 10 * i + 1
            doc = msgspec.json.decode(b'{"id": %d, "v": %d}' % (key, held[key]))
            began, before = time.perf_counter(), time.process_time()
            engine.put(TABLE, doc)
            spent.append(time.process_time() - before)
            wall.append(time.perf_counter() - began)
        with engine.snapshot() as snap:
            wanted = np.unique(held).size if reducer == "distinct" else _quantiles(held)
            assert snap.view("spread")[()] == wanted, "the view differs from the input"
    shutil.rmtree(root)
    return {"docs": values, "seconds": clock.seconds, "cpu": cpu, "wall": median(wall), "update cpu": median(spent)}


def _quantiles(values: Ints) -> list[int]:
    ordered = np.sort(values)
    return [int(ordered[-(-share * ordered.size // 100) - 1]) for share in (50, 99)]
