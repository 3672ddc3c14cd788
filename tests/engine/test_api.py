"""The public API as users see it: the shop of the README, on both stores, with every call at least once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from tests.harness.checks import counts_of
from tests.waiting import PATIENCE

SUE = {"id": 7, "name": "Sue", "address": {"city": "Bern"}, "amount": 5, "ts": 1}
JOE = {"id": 8, "name": "Joe", "address": {"city": "Bern"}, "amount": 2, "ts": 1}
ORDERS = [
    {"order_id": 1, "country": "CH", "day": "mon", "amount": 10, "paid": True},
    {"order_id": 2, "country": "CH", "day": "tue", "amount": 20, "paid": True},
    {"order_id": 3, "country": "DE", "day": "mon", "amount": 40, "paid": True},
    {"order_id": 4, "country": "DE", "day": "mon", "amount": 80, "paid": False},
]


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    orders = app.table("orders", key="order_id", merge="patch")
    namecount = users.view("namecount", key="name", reduce=ps.count())
    orders.view(
        "revenue",
        key=("country", "day"),
        where="paid",
        reduce={"n": ps.count(), "total": ps.sum("amount"), "avg": ps.mean("amount")},
    )
    users.view("cities", key="address.city", value="amount", reduce=ps.sum())

    @users.view(reduce=ps.count())
    def initials(user: dict[str, Any]) -> Iterator[Any]:
        yield user["name"][0]

    @namecount.view(reduce=ps.sum())
    def by_length(row: ps.Row) -> Iterator[Any]:
        yield len(row.key), row.value

    return app


@pytest.fixture
def engine(place: Path | None) -> Iterator[Any]:
    with ps.open(shop(), place) as opened:
        yield opened


def rows(engine: Any, view: str, **asked: Any) -> list[tuple[Any, Any]]:
    with engine.snapshot() as snap:
        return [(key, value) for key, value in snap.view(view).items(**asked)]


def test_the_shop(engine: Any):
    assert counts_of(engine.put("users", SUE)).applied == 1
    assert counts_of(engine.put_many("users", [JOE, json.dumps(SUE | {"id": 9}).encode()])).applied == 2
    engine.put_many("orders", ORDERS)
    assert rows(engine, "namecount") == [("Joe", 1), ("Sue", 2)]
    assert rows(engine, "cities") == [("Bern", 12)]
    assert rows(engine, "initials") == [("J", 1), ("S", 2)]
    assert rows(engine, "by_length") == [(3, 3)]
    assert rows(engine, "revenue", prefix=("CH",)) == [
        (("CH", "mon"), {"n": 1, "total": 10, "avg": 10.0}),
        (("CH", "tue"), {"n": 1, "total": 20, "avg": 20.0}),
    ]
    with engine.snapshot() as snap:
        by_country = [(prefix, row["total"]) for prefix, row in snap.view("revenue").rollup(level=1)]
    assert by_country == [(("CH",), 30), (("DE",), 40)]
    assert counts_of(engine.delete("users", 7, ts=2)).applied == 1
    assert rows(engine, "namecount") == [("Joe", 1), ("Sue", 1)]


def test_reading_a_table(engine: Any):
    engine.put_many("users", [SUE, JOE])
    with engine.snapshot() as snap:
        users = snap.table("users")
        assert users[7] == users.get(7) == users.row(7).value == SUE
        assert users.get_many([8, 9, 7]) == [JOE, None, SUE]
        assert (users.get(9), users.get(9, default="none")) == (None, "none")
        assert (7 in users, 9 in users, True in users, len(users)) == (True, False, False, 2)
        assert sorted((row.key, row.value["name"]) for row in users.items()) == [(7, "Sue"), (8, "Joe")]
        with pytest.raises(KeyError):
            users[9]


def test_reading_a_view(engine: Any):
    engine.put_many("users", [SUE | {"id": i, "name": n} for i, n in enumerate(["Ann", "Bob", "Bo", "Bob", "Cy"])])
    with engine.snapshot() as snap:
        names = snap.view("namecount")
        assert names["Bob"] == names.get("Bob") == names.row("Bob").value == 2
        assert names.get_many(["Cy", "Di"]) == [1, None]
        assert names.get("Di", default=0) == 0
        assert ("Bo" in names, "B" in names, len(names)) == (True, False, 4)
        row = names.row("Bob")
        assert (row.key, row.value, bool(row.held), tuple(row)) == ("Bob", 2, False, ("Bob", 2))
        assert dict(names.items(prefix="Bo")) == {"Bo": 1, "Bob": 2}
        assert [r.key for r in names.items(start="Bo", stop="Cy")] == ["Bo", "Bob"]
        assert [r.key for r in names.items(start="Bo", stop="Cy", reverse=True)] == ["Bob", "Bo"]
        assert [r.key for r in names.items(limit=2)] == ["Ann", "Bo"]
        assert [r.key for r in names.items(reverse=True, limit=1)] == ["Cy"]
        assert list(names.items(limit=0)) == []
        with pytest.raises(KeyError):
            names["Di"]


def test_a_view_as_a_table_of_columns(engine: Any):
    engine.put_many("orders", ORDERS)
    engine.put_many("users", [SUE, JOE])
    with engine.snapshot() as snap:
        revenue = snap.view("revenue").to_arrow()
        assert isinstance(revenue, pa.Table)
        assert revenue.num_rows == 3
        frame = snap.view("namecount").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_numpy().tolist() in ([["Joe", 1], ["Sue", 1]], [[1], [1]])


def test_a_row_that_is_null_is_a_row(engine: Any):
    engine.put("users", {"id": 1, "name": "Sue", "ts": 1})
    with engine.snapshot() as snap:
        cities = snap.view("cities")
        assert list(cities.items()) == [(None, None)]
        assert None in cities
        assert cities[None] is cities.get(None, default="none") is None


def test_a_batch_over_several_tables(engine: Any):
    with engine.batch() as batch:
        batch.put("users", SUE)
        batch.put_many("orders", ORDERS[:2])
        batch.delete("orders", 1)
    assert (batch.counts.applied, batch.counts.rejected) == (4, 0)
    assert len(rows(engine, "revenue")) == 1
    with engine.snapshot() as snap:
        before = snap.position
    with pytest.raises(RuntimeError, match="undo"):
        undone(engine)
    with engine.snapshot() as snap:
        assert snap.position == before
        assert 8 not in snap.table("users")


def undone(engine: Any) -> None:
    with engine.batch() as batch:
        batch.put("users", JOE)
        raise RuntimeError("undo")


def test_a_spout_commits_its_offset_with_the_data(engine: Any):
    records = [ps.Record("users", 7, SUE, offset=4), ps.Record("users", 8, JOE, offset=5)]
    counts_of(engine.ingest(records, source="file:a", resume=6))
    counts = counts_of(engine.ingest([ps.Record("users", 7, None, offset=6)], source="file:a", resume=7))
    assert counts.applied == 1
    with engine.snapshot() as snap:
        assert dict(snap.sources) == {"file:a": 7}
        assert [key for key, _ in snap.table("users").items()] == [8]


def test_a_snapshot_stands_still(engine: Any):
    engine.put("users", SUE)
    with engine.snapshot() as snap:
        position = snap.position
        engine.put("users", JOE)
        engine.delete("users", 7, ts=3)
        assert dict(snap.view("namecount").items()) == {"Sue": 1}
        assert snap.table("users")[7] == SUE
        assert (snap.position, len(snap.table("users"))) == (position, 1)
        assert json.loads(json.dumps(position)) == position
    assert rows(engine, "namecount") == [("Joe", 1)]


def test_tables_of_columns(engine: Any):
    columns = {"order_id": [1, 2, 3], "country": ["CH", "CH", None], "amount": [1, 2, 4], "paid": [True] * 3}
    frame = pd.DataFrame(columns | {"day": pd.to_datetime(["2024-01-01", None, "2024-01-03"])})
    for table in (pa.table(columns), frame, pl.DataFrame(columns)):
        counts = counts_of(engine.put_many("orders", table))
        assert (counts.applied + counts.equal, counts.rejected) == (3, 0)
        by_country: dict[Any, int] = {}
        for (country, _), row in rows(engine, "revenue"):
            by_country[country] = by_country.get(country, 0) + row["total"]
        assert by_country == {None: 4, "CH": 3}
    with engine.snapshot() as snap:
        assert snap.table("orders")[2]["day"] is None


def test_an_iterable_of_any_length(engine: Any):
    counts = counts_of(engine.put_many("users", (SUE | {"id": i, "name": f"n{i % 9}"} for i in range(25_000))))
    assert (counts.applied, counts.rejected) == (25_000, 0)
    assert sum(n for _, n in rows(engine, "namecount")) == 25_000
    assert rows(engine, "cities") == [("Bern", 125_000)]


def test_status_and_digest_are_data(engine: Any):
    empty = engine.digest()
    engine.put("users", SUE)
    status = json.loads(json.dumps(engine.status()))
    assert isinstance(status, dict)
    assert "users" in json.dumps(status)
    assert isinstance(engine.digest(), str)
    assert engine.digest() != empty
    engine.flush()


def test_names_that_nothing_has(engine: Any):
    with pytest.raises(ps.UnknownName, match="users"):
        engine.put("usres", SUE)
    with engine.snapshot() as snap:
        with pytest.raises(ps.UnknownName, match="namecount"):
            snap.view("namecounts")
        with pytest.raises(ps.UnknownName, match="orders"):
            snap.table("order")


def test_a_closed_engine(place: Path | None):
    engine = ps.open(shop(), place)
    engine.close()
    with pytest.raises(ps.Closed):
        engine.put("users", SUE)
    for call in (engine.snapshot, engine.settle, engine.flush):
        with pytest.raises(ps.Closed):
            call()


@pytest.mark.parametrize("partitions", [1, 2])
def test_records_without_offsets_are_redeliveries_unless_the_source_moves_on(tmp_path: Path, partitions: int):
    with ps.open(shop(), tmp_path / "state", partitions=partitions, processes=False) as engine:
        assert engine.ingest([ps.Record("users", 7, SUE)], source="file:a", resume=1).applied == 1
        other = [ps.Record("users", 7, SUE | {"name": "Ann"}), ps.Record("users", 8, JOE)]
        assert engine.ingest(other, source="file:a", resume=1) == ps.Counts(late=2)
        assert engine.ingest(other, source="file:a", resume=2).applied == 2
        assert rows(engine, "namecount") == [("Ann", 1), ("Joe", 1)]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_record_below_the_offset_is_late_also_if_its_table_is_unknown(tmp_path: Path, partitions: int):
    with ps.open(shop(), tmp_path / "state", partitions=partitions, processes=False) as engine:
        engine.ingest([ps.Record("users", 7, SUE, offset=0)], source="file:a", resume=1)
        assert engine.ingest([ps.Record("guests", 7, SUE, offset=0)], source="file:a", resume=1).late == 1
        with pytest.raises(ps.UnknownName, match="guests"):
            engine.ingest([ps.Record("guests", 7, SUE, offset=1)], source="file:a", resume=2)
        with pytest.raises(ps.DefinitionError, match=r"^batches= is 5 \(int\); give the batches that a spout returns$"):
            next(iter(engine.load("users", iter([5]))))  # type: ignore[list-item]


def test_puts_from_many_threads(engine: Any):
    def put(worker: int) -> None:
        for i in range(20):
            engine.put("users", SUE | {"id": worker * 100 + i, "name": f"n{i % 3}"})

    threads = [threading.Thread(target=put, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(engine, "namecount") == [("n0", 28), ("n1", 28), ("n2", 24)]


def test_a_ticket_answers_later(store_path: Path):
    with ps.open(shop(), store_path, durability="group") as engine:
        tickets = [engine.put("users", SUE | {"id": i}) for i in range(50)]
        tickets.append(engine.delete("users", 0, ts=5))
        engine.flush()
        assert all(ticket.done() for ticket in tickets)
        assert [ticket.result().applied for ticket in tickets] == [1] * 51
        assert rows(engine, "namecount") == [("Sue", 49)]
        waited = engine.put("users", {"name": "no key"}).result(timeout=PATIENCE)
        assert (waited.rejected, waited.rejections[0].table) == (1, "users")


def test_a_store_is_read_while_it_is_written(store_path: Path):
    with ps.open(shop(), store_path) as engine:
        engine.put("users", SUE)
        with ps.open(shop(), store_path, readonly=True) as reader:
            assert rows(reader, "namecount") == [("Sue", 1)]
            engine.put("users", JOE)
            assert rows(reader, "namecount") == [("Joe", 1), ("Sue", 1)]
            assert reader.digest() == engine.digest()
            with pytest.raises(ps.ReadOnly):
                reader.put("users", JOE)
        assert other_process(store_path, readonly=True) == "{'Joe': 1, 'Sue': 1}"
        with pytest.raises(ps.StoreInUse, match=str(os.getpid())):
            ps.open(shop(), store_path)
        assert f"process {os.getpid()}" in other_process(store_path, readonly=False)
    assert other_process(store_path, readonly=False) == "{'Joe': 1, 'Sue': 1}"


def other_process(path: Path, readonly: bool) -> str:
    """Open the store in another process. Return the names that it prints, or the error."""
    code = """
import sys, penstock as ps
from tests.engine.test_api import shop
try:
    with ps.open(shop(), sys.argv[1], readonly=sys.argv[2] == "True") as engine, engine.snapshot() as snap:
        print(dict(snap.view("namecount").items()))
except ps.StoreInUse as error:
    print(error)
"""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, str(path), str(readonly)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def test_a_store_is_not_inherited_by_a_fork(store_path: Path):
    code = """
import os, sys, penstock as ps
from tests.engine.test_api import shop
with ps.open(shop(), sys.argv[1]) as engine:
    child = os.fork()
    if not child:
        try:
            engine.put("users", {"id": 1, "name": "Sue", "ts": 1})
        except ps.ForkedStore:
            os._exit(7)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    engine.put("users", {"id": 1, "name": "Sue", "ts": 1})
"""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, str(store_path)]
    assert subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip() == "7"


def test_a_store_that_is_not_there_is_not_made_by_a_reader(store_path: Path):
    with pytest.raises(ps.StoreMissing, match=store_path.name):
        ps.open(shop(), store_path, readonly=True)
    assert not store_path.exists()


def test_a_path_or_its_text(store_path: Path):
    with ps.open(shop(), str(store_path)) as engine:
        engine.put("users", SUE)
    with ps.open(shop(), store_path) as engine:
        assert rows(engine, "namecount") == [("Sue", 1)]
