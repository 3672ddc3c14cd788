"""Views on joins and side indexes are verified from a copy. Damage is found and repaired, and so are planted bugs.

The documents have condition values that hold them, and one value passes the limit of a join.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from examples.wholesale.app import app as wholesale
from examples.wholesale.data import TABLES, changes
from penstock.join import Entries
from penstock.mapreduce import Column, SourceKeys, Writes
from penstock.spark import verify
from tests.harness.planting import Bug
from tests.join.engine_histories import chained, layered, records, shop
from tests.recovery import damage
from tests.spark.inprocess import InProcess

ORDERS = [
    {"id": i, "customer": (i % 9, "a" if i % 2 else None), "to": i % 4, "amount": i, "tags": ["x"] * (i % 3)}
    for i in range(70)
]
CUSTOMERS = [{"id": i, "kind": "a" if i % 3 else None, "city": f"c{i % 4}"} for i in range(9)]


def sales() -> ps.App:
    """Return an app whose joins have a composite condition, filters, a limit, and views of each kind."""
    app = ps.App("sales")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join(
        "sold",
        order=orders.where(ps.field("amount") != 5),
        customer=customers,
        on=[("order.customer", "customer.both"), ("order.to", "customer.to")],
        where=ps.field("order.amount") > 3,
    )
    sold.view("amounts", key="customer.city", value="order.amount", reduce={"n": ps.count(), "max": ps.max()})
    sold.view("listed", key="customer.city", value="order.amount", reduce=None)
    sold.view(reduce=ps.count())(tags)
    pairs = app.join("pairs", one=orders, other=orders, on={"one.to": "other.to"}, limit=300)
    pairs.view("pair_sums", key="other.amount", value="one.amount", reduce=ps.sum())
    return app


def tags(row: dict[str, Any]) -> Iterator[Any]:
    """Yield a group for each tag of an order. Fail on the tag 7."""
    for tag in row["order"]["tags"]:
        yield tag + row["customer"]["city"]


def fill(engine: ps.Engine) -> None:
    """Put documents, then versions that a join or a view holds."""
    engine.put_many("orders", [{**doc, "customer": doc["id"] % 9} for doc in ORDERS])
    engine.put_many("customers", [{**doc, "both": doc["id"], "to": doc["id"] % 4} for doc in CUSTOMERS])
    engine.put_many("orders", [{**ORDERS[9], "customer": Decimal(1), "amount": 1000}])
    engine.put_many("orders", [{"id": 90, "customer": {"a": 1}, "to": 1, "amount": 1}])
    engine.put("orders", {**ORDERS[10], "customer": 1, "to": Decimal(1), "amount": 1000})
    engine.put("orders", {**ORDERS[40], "customer": 4, "to": 0, "tags": [7]})
    engine.delete("customers", 2)


@pytest.mark.parametrize("seed", [*range(5), 6])
def test_nothing_is_wrong_with_joins_that_the_engine_keeps(seed: int, tmp_path: Path) -> None:
    app, draw = (shop, layered, shop, chained)[seed // 2](filtered=seed % 2 == 1), Random(seed)
    with ps.open(app, tmp_path / "store", partitions=3 if seed == 4 else None, processes=False) as engine:
        for step in range(6):
            engine.ingest(records(draw, 2 * step, 50), "spout", step + 1)
    found = verify(app, tmp_path / "store", spark=InProcess())
    assert found.ok, found.wrong


def check_holds(path: Path, partitions: int | None = None) -> None:
    """Verify a store with documents, rows and a condition value that are held."""
    with ps.open(sales(), path, partitions=partitions, processes=False) as engine:
        fill(engine)
        assert len(list(engine.quarantine())) > 3
    found = verify(sales(), path, spark=InProcess())
    assert found.wrong == []
    assert found.held == {"tags": 1}
    assert found.documents == 71 + 8


def check_damage(path: Path, spark: Any) -> None:
    """Damage views and a side index. Each difference is found, and repaired."""
    with ps.open(sales(), path) as engine:
        fill(engine)
        right = engine.digest()
        damage.add_to_lane(engine, "pair_sums", 2, 0, 3)
        exchange_entries(engine)
        found = verify(sales(), path, spark=spark, fix=True)
        assert {(one.view, one.group) for one in found.wrong} == {
            ("pair_sums", 2),
            ("sold:order", ((4, 3), 31)),
            ("pairs:other", (2, 777)),
        }
        [entry] = [one for one in found.wrong if one.view == "sold:order"]
        assert (entry.stored, entry.by) == (ps.ABSENT, (31,))
        assert engine.digest() == right
    assert verify(sales(), path, spark=InProcess()).ok


def exchange_entries(engine: Any) -> None:
    """Remove the entry of a document from a side index, and put one that no document has into another."""
    core = engine.store.core

    def lose(writer: Any, writes: Writes) -> None:
        index = core.joins.sides["sold:order"].index
        [entries] = index.all(writer)
        index.stage(writer, entries.take(entries.keys().lane == 31), Entries.none(entries.width), writes)
        writes.changed = True

    def put(writer: Any, writes: Writes) -> None:
        index = core.joins.sides["pairs:other"].index
        other = Entries.of(SourceKeys.of([2]), SourceKeys.of([777]), [Column.of([1000])])
        index.stage(writer, Entries.none(other.width), other, writes)
        writes.changed = True

    core.amend(lose)
    core.amend(put)


@pytest.mark.parametrize("partitions", [None, 3])
def test_held_documents_take_part_with_their_last_accepted_version(partitions: int | None, tmp_path: Path) -> None:
    check_holds(tmp_path / "store", partitions)


def test_damage_of_views_and_side_indexes_is_found_and_repaired(tmp_path: Path) -> None:
    check_damage(tmp_path / "store", InProcess())


def test_a_verification_on_spark_joins_the_sides(spark: Any, tmp_path: Path) -> None:
    with ps.open(sales(), tmp_path / "store") as engine:
        fill(engine)
        damage.add_to_lane(engine, "pair_sums", 2, 0, 3)
    found = verify(sales(), tmp_path / "store", ["pair_sums"], spark=spark)
    assert [(one.view, one.group) for one in found.wrong] == [("pair_sums", 2)]


def test_another_emission_of_a_row_is_counted_apart(tmp_path: Path) -> None:
    with ps.open(sales(), tmp_path / "store") as engine:
        fill(engine)
        damage.yield_otherwise(engine, "tags", lambda pairs: [[(b"\x05x", None)], *pairs[1:]])
    found = verify(sales(), tmp_path / "store", ["tags"], spark=InProcess())
    assert (found.wrong, found.told) == ([], {"tags": 11})


TASKS = "spark.verify_job.joined_rows:"
BUGS = [
    Bug("a held document takes part with its last version", f"{TASKS}_held", "if pairs else None", "and None"),
    Bug("a held entry lacks its condition value", f"{TASKS}_projected", "_put(document, path, part)", "pass"),
    Bug(
        "entries of one condition value go to several tasks",
        f"{TASKS}_SentEntries.add",
        "encode_entry(value) if matching",
        "repr(value).encode() + repr(entry.keys).encode() if matching",
    ),
    Bug("the last entries are not sent", f"{TASKS}SideTask.__call__", "yield from sent.blobs()", "pass"),
    Bug("the last facts are not sent", f"{TASKS}JoinTask.__call__", "yield from facts.last()", "pass"),
    Bug("both inputs of a step are its new side", f"{TASKS}SideTask.__call__", "self.input.side is not None", "True"),
    Bug("no emission is remembered", f"{TASKS}_RowMapper._emission", "if found is not None", "if False"),
    Bug("entries of an index are not read", "spark.verify_job.side_facts:_entries", "Fact.SHOWN", "Fact.HELD"),
    Bug("entries are not compared", "spark.verify_job.verify_driver:_compared_entry", "expected == stored", "True"),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - any error shows the bug
        check_all(tmp_path)


def check_all(path: Path) -> None:
    check_holds(path / "holds")
    check_damage(path / "damage", InProcess())
    test_another_emission_of_a_row_is_counted_apart(path)


def test_documents_of_an_app_with_joins_are_compared_with_their_source(tmp_path: Path) -> None:
    file = tmp_path / "customers.jsonl"
    file.write_text("".join(json.dumps({**doc, "both": doc["id"], "to": doc["id"] % 4}) + "\n" for doc in CUSTOMERS))
    with ps.open(sales(), tmp_path / "store") as engine:
        fill(engine)
        source = {"customers": str(file)}
        found = verify(sales(), tmp_path / "store", ["amounts"], spark=InProcess(), against=source, fix=True)
        assert [(one.table, one.key, one.stored) for one in found.stale] == [("customers", 2, ps.ABSENT)]
        with engine.snapshot() as snap:
            assert 2 in snap.table("customers")


def test_a_join_of_three_sides_is_verified_step_by_step(tmp_path: Path) -> None:
    coming = list(changes(300))
    with ps.open(wholesale, tmp_path / "store") as engine:
        for table in TABLES:
            engine.put_many(table, [document for name, document in coming if name == table])
        assert verify(wholesale, tmp_path / "store", spark=InProcess()).ok
        damage.add_to_lane(engine, "pieces", ("NO", "tea"), 0, 3)
        found = verify(wholesale, tmp_path / "store", spark=InProcess(), fix=True)
        assert [(one.view, one.group) for one in found.wrong] == [("pieces", ("NO", "tea"))]
    assert verify(wholesale, tmp_path / "store", spark=InProcess()).ok
