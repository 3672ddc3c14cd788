"""Write one history by both paths, record by record into an engine and in bulk, and compare the results."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import canonical, pack, unpack
from penstock.join import Entries
from penstock.mapreduce import FunctionMapper, TreeReduce, held_db
from penstock.spark import backfill
from penstock.spark.backfill_job.records_by_key import KafkaRows
from penstock.spark.backfill_job.table_inputs import TableInput
from penstock.spark.task_messages import Origin
from penstock.views import shown_join
from tests.spark.inprocess import InProcess

KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def topic(spark: Any, records: Sequence[ps.Record]) -> Any:
    """Return records as a DataFrame of a Kafka topic."""
    rows = []
    for record in records:
        key = json.dumps(record.key).encode()
        value = None if record.doc is None else json.dumps(record.doc).encode()
        stamp = _BEGIN + timedelta(milliseconds=record.ts or 0)
        rows.append((bytearray(key), None if value is None else bytearray(value), "t", 0, record.offset, stamp, 0))
    return spark.createDataFrame(rows, KAFKA)


def one_by_one(app: ps.App, records: Sequence[ps.Record], size: int = 7) -> Any:
    """Return an engine in memory with these records, written in small batches."""
    engine: Any = ps.open(app, None)
    for at in range(0, len(records), size):
        part = [
            ps.Record(r.table, r.key, None if r.doc is None else json.dumps(r.doc), ts=r.ts)
            for r in records[at : at + size]
        ]
        engine.ingest(part, source="test", resume=at + size)
    return engine


def stored(engine: Any) -> dict[str, dict[bytes, bytes]]:
    """Return all rows and nodes of views, remembered emissions of rows, and held documents, in stored form."""
    out: dict[str, dict[bytes, bytes]] = {}
    with engine.snapshot() as snap:
        reader = snap.reader()
        for name, view in engine.store.core.views.items():
            out[f"{name}, rows"] = dict(reader.scan(view.reduce.db))
            out[f"{name}, held"] = dict(reader.scan(held_db(view.number)))
            if isinstance(view.reduce, TreeReduce):
                out[f"{name}, nodes"] = dict(view.reduce.nodes(reader))
            if view.of_rows and isinstance(view.mapper, FunctionMapper):
                own = view.remembered(reader)
                out[f"{name}, told"] = {key: repr(e.pairs(0, own.groups)).encode() for key, e in own.all_emissions()}
        for join in engine.store.core.joins:
            out[f"{join.name}, limited"] = dict(reader.scan(held_db(join.number)))
            for side in join.sides:
                out[f"{side.name}, held"] = dict(reader.scan(held_db(side.number)))
                if side.index is not None:
                    entries = Entries.join(list(side.index.all(reader)) or [Entries.none(side.index.width)])
                    listed = entries.listed()
                    out[f"{side.name}, entries"] = {pack(list(e[:2])): canonical(e[2]) for e in listed}
    return out


def holds(engine: Any) -> dict[str, int]:
    """Return the number of holds by view and join. Holds of a side, and condition values, count for the join."""
    out = Counter[str]()
    for name, rows in stored(engine).items():
        source, _, kind = name.partition(", ")
        if kind in ("held", "limited") and rows:
            out[shown_join(source)] += len(rows)
    return dict(out)


def documents(engine: Any) -> dict[str, dict[Any, Any]]:
    """Return all documents, by table and key."""
    with engine.snapshot() as snap:
        return {
            table.name: {repr(row.key): canonical(row.value) for row in snap.table(table.name)}
            for table in engine.store.core.app.tables()
        }


def same(app: ps.App, engine: Any, path: Path) -> None:
    """Compare a store on disk with an engine, row by row. A check must find no fault in it."""
    with ps.open(app, path) as bulk:
        for table, wanted_docs in documents(engine).items():
            found = documents(bulk)[table]
            assert found.keys() == wanted_docs.keys()
            wrong = [key for key, doc in wanted_docs.items() if found[key] != doc]
            assert not wrong, f"{wrong[0]}: {unpack(found[wrong[0]])} should be {unpack(wanted_docs[wrong[0]])}"
        wanted, got = stored(engine), stored(bulk)
        for name, rows in wanted.items():
            differing = sorted(key for key in rows.keys() | got[name].keys() if rows.get(key) != got[name].get(key))
            assert not differing, f"{name} differs, at {differing[0]!r} of {len(differing)}"
        assert bulk.digest() == engine.digest()
        assert bulk.status()["tables"].keys() == engine.status()["tables"].keys()
        checked: Any = bulk.check()
        assert not checked.wrong, str(checked)
        assert not checked.damaged, str(checked)


TOPIC = "key binary, value binary, partition int, offset bigint, ts bigint"


def topics(records: list[ps.Record]) -> Callable[..., TableInput]:
    """Return a function that gives the records of each table as those of a topic."""

    def given_of(spark: Any, table: Any, source: Any, origin: int) -> TableInput:
        rows = [
            (json.dumps(r.key).encode(), None if r.doc is None else json.dumps(r.doc).encode(), 0, r.offset, r.ts or 0)
            for r in source
        ]
        size = sum(len(row[1] or b"") for row in rows)
        frame = spark.createDataFrame(rows, TOPIC)
        kind = "number" if table.has_ts else None
        taken = [(frame, KafkaRows(table.name, origin, table.broker_ts))]
        return TableInput(table, taken, [Origin("kafka", "offset", offsets=True)], size, True, kind)

    return given_of


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use many buckets and many ranges of a few records each."""
    module = sys.modules["penstock.spark.backfill_job.backfill_driver"]
    monkeypatch.setattr(module, "BUCKET", 2_000)
    monkeypatch.setattr(module, "_RANGE", 12)
    monkeypatch.setattr(sys.modules["penstock.spark.backfill_job.join_tasks"], "_ROWS", 4)


def agreed(monkeypatch: pytest.MonkeyPatch, folder: Path, app: ps.App, records: list[ps.Record]) -> None:
    """Write a history by both paths, with the tasks in this process, and compare."""
    tables = dict.fromkeys(record.table for record in records)
    given = {name: [r for r in records if r.table == name] for name in tables}
    monkeypatch.setattr(sys.modules["penstock.spark.backfill_job.backfill_driver"], "table_input", topics(records))
    with one_by_one(app, records) as engine:
        done = backfill(app, folder / "store", spark=InProcess(), tables=given)
        assert done.held == holds(engine)
        same(app, engine, folder / "store")
