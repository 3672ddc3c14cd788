"""Figures of TPC-H queries under refreshes: CPU seconds of a refresh, beside those of DuckDB's whole query.

Both have the same documents, and their results are compared after each refresh. DuckDB's own changes are not timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import duckdb

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.tpch.data import TABLES, Document, Refresh, Warehouse
from bench.tpch.queries import QUERIES, VIEW, app

SCALE, REFRESHES, LOAD = 0.1, 5, 10_000
SHARE = 0.001  # of the orders that a refresh adds, and as many that it deletes


def tpch(plan: Plan) -> Iterator[Figure]:
    """Measure each query in a process of its own."""
    scale = SCALE if plan.judged else 0.0
    for query in QUERIES if plan.judged else ("q05", "q18"):
        found = child.run("bench.tpch.refreshes:load", 1, folder=plan.at("tpch"), query=query, scale=scale)
        own, whole, n = found["refresh"], found["recompute"], found["orders"]
        detail = {"orders of a refresh": n, "crossover, orders": round(n * whole / own), "load": found["load"]}
        limits: dict[str, float | None] = {"DuckDB's whole query": 1e3 * whole}
        case = f"{query}, {found['lines']:,} lines, {n:,} orders come and go"
        yield Figure("tpch", case, 1e3 * own, "ms of CPU", limits, found["idle"], ratio=own / whole, detail=detail)


def load(folder: str, query: str, scale: float) -> dict[str, Any]:
    """Return the CPU seconds of the first load, and the medians of a refresh and of the whole query."""
    root, house, db = fresh(folder), Warehouse(scale), _Duck(query)
    n = max(20, int(house.first * SHARE))
    with ps.open(app(query), root / "store") as engine:
        first = house.orders(house.first)
        for name, doc in house.base():
            first.new[name].append(doc)
        began = time.process_time()
        for name in TABLES:
            for at in range(0, len(first.new[name]), LOAD):
                engine.put_many(name, first.new[name][at : at + LOAD], batch=LOAD)
        loaded = time.process_time() - began
        db.change(first)
        own, whole = [], []
        _compare(engine, db.result()[0])
        for i in range(REFRESHES):
            refresh = house.refresh(n)
            records = [ps.Record(name, _key(name, doc), doc) for name in TABLES for doc in refresh.new[name]]
            records += [ps.Record(name, key, None) for name, keys in refresh.gone.items() for key in keys]
            began = time.process_time()
            engine.ingest(records, "refreshes", i + 1)
            own.append(time.process_time() - began)
            db.change(refresh)
            expected, seconds = db.result()
            whole.append(seconds)
            _compare(engine, expected)
    found = {"load": loaded, "refresh": median(own), "recompute": median(whole)}
    return {**found, "lines": len(first.new["lines"]), "orders": n}


def _key(table: str, doc: Document) -> Any:
    return (doc["order"], doc["no"]) if table == "lines" else doc["id"]


def _compare(engine: ps.Engine, expected: dict[Any, Any]) -> None:
    with engine.snapshot() as snap:
        found = dict(snap.view(VIEW).items())
    assert found == expected, "the view is the result of the query"


class _Duck:
    """Tables with the same documents in DuckDB, on one thread."""

    def __init__(self, query: str) -> None:
        self._sql = QUERIES[query].sql
        self._db = duckdb.connect(config={"threads": 1})
        for name, columns in {
            "nations": "id INT, name TEXT, region TEXT",
            "suppliers": "id INT, nation INT",
            "customers": "id INT, name TEXT, nation INT, segment TEXT",
            "orders": "id INT, customer INT, date INT, total BIGINT",
            "lines": '"order" INT, no INT, supplier INT, quantity INT, price BIGINT, '
            "revenue BIGINT, shipped INT, flag TEXT",
        }.items():
            self._db.execute(f"CREATE TABLE {name} ({columns})")

    def change(self, refresh: Refresh) -> None:
        """Insert the new documents, and delete the old ones."""
        import pyarrow as pa

        for name, docs in refresh.new.items():
            if docs:
                self._db.register("new", pa.Table.from_pylist(docs))
                self._db.execute(f"INSERT INTO {name} BY NAME SELECT * FROM new")
        if refresh.gone["orders"]:
            self._db.register("gone", pa.table({"id": refresh.gone["orders"]}))
            self._db.execute("DELETE FROM orders WHERE id IN (SELECT id FROM gone)")
            self._db.execute('DELETE FROM lines WHERE "order" IN (SELECT id FROM gone)')

    def result(self) -> tuple[dict[Any, Any], float]:
        """Return the result of the whole query by group, and its CPU seconds."""
        began = time.process_time()
        rows = self._db.execute(self._sql).fetchall()
        seconds = time.process_time() - began
        return {row[0] if len(row) == 2 else row[:-1]: row[-1] for row in rows}, seconds
