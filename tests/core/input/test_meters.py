"""The meters of a store: each record of each call counts once, by table and outcome."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core.input.meters import BucketCounts, Meters
from penstock.engine.writers.open_writer import writer
from penstock.remote.operation_writer import OperationWriter
from penstock.remote.operations import METERS

APP = ps.App("shop")
USERS = APP.table("users", key="id", ts="ts")
ORDERS = APP.table("orders", key="id")
USERS.view("names", key="name", reduce=ps.count())

STORES = [
    pytest.param({}, id="one"),
    pytest.param({"durability": "group"}, id="group"),
    pytest.param({"partitions": 3}, id="three"),
    pytest.param({"partitions": 2, "durability": "group"}, id="two, group"),
]


def opened(path: Path | None, settings: dict[str, Any]) -> ps.Engine:
    return ps.open(APP, None if path is None else str(path), **settings)


def counted(result: Any) -> ps.Counts:
    return result if isinstance(result, ps.Counts) else result.result()


def outcomes(engine: ps.Engine, table: str) -> tuple[int, ...]:
    meter = engine.meters.tables[table]
    return (meter.applied, meter.equal, meter.late, meter.held, meter.rejected)


def of_counts(*counts: ps.Counts) -> tuple[int, ...]:
    total = sum(counts, ps.Counts())
    return (total.applied, total.equal, total.late, total.held, total.rejected)


@pytest.mark.parametrize("settings", STORES)
def test_meters_agree_with_the_counts_of_calls(settings: dict[str, Any]) -> None:
    with opened(None, settings) as engine:
        done = [
            engine.put("users", {"id": 1, "ts": 2, "name": "a"}),
            engine.put("users", {"id": 1, "ts": 1, "name": "late"}),
            engine.put("users", {"ts": 1}),
            engine.put_many("users", [{"id": i, "ts": 5, "name": "b"} for i in range(40)]),
            engine.put_many("users", [{"id": i, "ts": 5, "name": "b"} for i in range(20)] + [b"no json"]),
            engine.put("users", {"id": 50, "ts": 1, "name": ["held", {}]}),
            engine.delete("users", 3),
        ]
        counts = [counted(one) for one in done]
        assert of_counts(*counts)[2:] == (1, 1, 2)
        assert outcomes(engine, "users") == of_counts(*counts)
        assert outcomes(engine, "orders") == (0, 0, 0, 0, 0)
        assert engine.meters.batch_records.total == sum(one.records for one in counts)
        assert sum(engine.meters.commit_ns.counts) == sum(engine.meters.batch_records.counts)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_batch_of_two_tables_counts_by_table(partitions: int) -> None:
    lines = [b'{"id":%d,"ts":1,"name":"a"}' % i for i in range(30)]
    with opened(None, {"partitions": partitions}) as engine:
        with engine.batch() as batch:
            batch.put_many("users", lines)
            batch.put("orders", {"id": 1})
            batch.put("orders", {"wrong": 1})
        assert outcomes(engine, "users") == (30, 0, 0, 0, 0)
        assert outcomes(engine, "orders") == (1, 0, 0, 0, 1)
        assert engine.meters.commits == partitions
        assert sum(engine.meters.commit_ns.counts) == 1
        assert engine.meters.tables["users"].bytes == sum(map(len, lines))


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_batch_that_was_undone_does_not_count(partitions: int) -> None:
    with opened(None, {"partitions": partitions}) as engine:
        with pytest.raises(ps.BatchRejected):
            engine.put_many("orders", [{"id": i} for i in range(9)] + [{"wrong": 1}], strict=True)
        assert outcomes(engine, "orders") == (0, 0, 0, 0, 0)
        assert engine.meters.commits == 0


@pytest.mark.parametrize("partitions", [1, 2])
def test_redelivered_records_are_counted_apart(partitions: int) -> None:
    records = [ps.Record("orders", i, {"id": i}, offset=i) for i in range(10)]
    with opened(None, {"partitions": partitions}) as engine:
        first = engine.ingest(records, source="s", resume=10)
        again = engine.ingest(records, source="s", resume=10)
        assert (first.applied, again.late) == (10, 10)
        assert outcomes(engine, "orders") == (10, 0, 0, 0, 0)
        assert engine.meters.redelivered == 10


def test_a_client_of_the_holder_gets_its_meters(store_path: Path) -> None:
    with opened(store_path, {}) as engine:
        with writer(store_path, APP) as client:
            assert isinstance(client, OperationWriter)
            client.put_many("users", [{"id": i, "ts": 1, "name": "a"} for i in range(100)])
            seen = client.call(METERS)
        assert seen["tables"]["users"]["applied"] == 100
        assert seen == engine.meters.data()


def test_meters_are_read_while_a_thread_has_the_lock() -> None:
    with opened(None, {}) as engine:
        engine.put("orders", {"id": 1})
        taken, go = threading.Event(), threading.Event()

        def hold() -> None:
            with engine.store.state.lock:
                taken.set()
                go.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        taken.wait()
        assert engine.meters.data()["tables"]["orders"]["applied"] == 1
        go.set()
        thread.join()


def test_durations_use_the_clock_of_the_meters() -> None:
    times = iter([1_000, 1_000 + (1 << 20), 0, 1 << 60])
    meters = Meters(["t"], lambda: next(times))
    meters.add(meters.clock(), [{}], {})
    meters.add(meters.clock(), [{}], {})
    assert meters.commit_ns.counts[6] == 1
    assert meters.commit_ns.counts[-1] == 1
    assert meters.commit_ns.bounds[6] == 1 << 20
    assert meters.commit_ns.total == (1 << 20) + (1 << 60)


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (1, 0), (8, 0), (9, 1), (16, 1), (17, 2), (10**9, 3)])
def test_a_value_is_in_the_first_bucket_that_has_room(value: int, bucket: int) -> None:
    histogram = BucketCounts(8, 4)
    histogram.add(value)
    assert histogram.counts.index(1) == bucket
    assert histogram.bounds == [8, 16, 32]
