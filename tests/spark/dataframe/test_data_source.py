"""Views and tables as DataFrames: every row and its types, ranges of keys, one position, and writes.

The tests need pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.spark import register
from penstock.spark.dataframe.filters import keys_asked, narrowed
from penstock.spark.verify_job.spans import Span, spans_of


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    users.view("names", key="name", reduce=ps.count())
    users.view(
        "cities", key=("city", "name"), reduce={"n": ps.count(), "mean": ps.mean("amount"), "top": ps.top(2, "amount")}
    )
    users.view("listed", key="name", value="amount", reduce=None)
    users.view("prices", key="id", value="price", reduce=ps.sum())
    return app


def users(n: int) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": f"n{i % 7:02}", "city": "é" if i % 2 else None, "amount": i, "price": Decimal(i) / 4, "ts": i}
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store without a writer."""
    path = tmp_path_factory.mktemp("source") / "store"
    with ps.open(shop(), path) as engine:
        for at in range(0, 200, 40):
            engine.put_many("users", users(200)[at : at + 40])
        engine.delete("users", 199)
    return path


@pytest.fixture(scope="module")
def read(spark: Any, store: Path) -> Any:
    """Return a reader of the data source for a store."""
    register(spark)
    return lambda: spark.read.format("penstock").option("store", str(store)).option("partitions", "4")


def test_every_row_of_a_view_in_parts(read: Any, store: Path) -> None:
    frame = read().option("view", "cities").load()
    assert frame.schema.simpleString() == "struct<key_1:string,key_2:string,n:bigint,mean:double,top:string>"
    got = sorted((tuple(row) for row in frame.collect()), key=repr)
    with ps.open(shop(), store, readonly=True) as engine, engine.snapshot() as snap:
        rows = [
            (*row.key, row.value["n"], row.value["mean"], str(row.value["top"]).replace(" ", ""))
            for row in snap.view("cities")
        ]
    assert got == sorted(rows, key=repr)
    assert read().option("view", "names").load().agg({"value": "sum"}).collect()[0][0] == 199
    listed = read().option("view", "listed").load()
    assert (listed.columns, listed.where("rank = 0").count()) == (["key", "source", "rank", "value"], 199)
    assert read().option("view", "prices").load().where("key = 6").collect()[0]["value"] == Decimal("1.5")


def test_filters_give_the_rows_that_spark_would_keep(read: Any) -> None:
    frame = read().option("view", "names").load()
    every = {row["key"]: row["value"] for row in frame.collect()}
    for condition in (
        "key = 'n03'",
        "key > 'n02' and key <= 'n05'",
        "key like 'n0%'",
        "key < 'n01'",
        "value > 28",
        "key is null",
    ):
        got = {row["key"]: row["value"] for row in frame.where(condition).collect()}
        assert got == {k: v for k, v in every.items() if eval(_python(condition), {"key": k, "value": v})}, condition


def _python(condition: str) -> str:
    said = {" = ": " == ", "key like 'n0%'": "key.startswith('n0')", "key is null": "key is None"}
    for sql, python in said.items():
        condition = condition.replace(sql, python)
    return condition


def test_documents_of_a_table(read: Any) -> None:
    frame = read().option("table", "users").load()
    assert frame.count() == 199
    assert dict(frame.dtypes)["price"] == "decimal(38,18)"
    assert [row["id"] for row in frame.where("id in (7, 199, 3)").orderBy("id").collect()] == [3, 7]
    assert frame.where("id = 7").collect()[0]["name"] == "n00"


def test_a_schema_of_ones_own_and_what_does_not_fit(read: Any) -> None:
    frame = read().option("view", "names").schema("value double, key string").load()
    assert {type(row["value"]) for row in frame.collect()} == {float}
    wrong = read().option("view", "names").schema("key bigint, value bigint").load()
    with pytest.raises(Exception, match=r"view 'names', column 'key': 'n00' \(str\) is no int64"):
        wrong.collect()


def test_a_store_that_is_written_meanwhile_is_told_or_copied(spark: Any, tmp_path: Path) -> None:
    register(spark)
    with ps.open(shop(), tmp_path / "store") as engine:
        engine.put_many("users", users(10))
        base = spark.read.format("penstock").option("store", str(tmp_path / "store")).option("view", "names")
        copied = base.option("snapshot", str(tmp_path / "copy")).load()
        engine.put("users", {"id": 1000, "name": "later", "ts": 1})
        assert copied.where("key = 'later'").count() == 0
        assert base.option("snapshot", str(tmp_path / "copy2")).load().where("key = 'later'").count() == 1


def test_a_dataframe_is_put_through_the_gateway(spark: Any, tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "store"
    register(spark, app)
    frame = spark.createDataFrame(
        [(i, f"n{i % 3}", i, i) for i in range(30)], "id int, name string, amount int, ts int"
    )
    with ps.open(app, path) as engine:
        frame.write.format("penstock").option("store", str(path)).option("table", "users").mode("append").save()
        frame.write.format("penstock").option("store", str(path)).option("table", "users").mode("append").save()
        with engine.snapshot() as snap:
            assert [tuple(row) for row in snap.view("names")] == [("n0", 10), ("n1", 10), ("n2", 10)]
    assert not list(tmp_path.glob("*.incoming"))


def test_changes_as_a_stream_and_a_stream_taken_once(spark: Any, tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "store"
    register(spark, app)
    taken = ps.App("taken")
    changes = taken.table("changes", key=("position", "key"))
    changes.view("by_key", key="key", reduce=ps.count())
    with ps.open(app, path) as engine:
        engine.put_many("users", users(20))
        engine.put("users", {"id": 0, "name": "moved", "ts": 99})

    def run(checkpoint: str) -> None:
        register(spark)
        source = (
            spark.readStream.format("penstock").option("store", str(path)).option("view", "names").option("stream", "1")
        )
        frame = source.load()
        register(spark, taken)
        sink = frame.writeStream.format("penstock").option("store", str(tmp_path / "out")).option("table", "changes")
        query = sink.option("source", "spark:names").option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    with ps.open(taken, tmp_path / "out"):
        pass
    run("one")
    run("two")  # the checkpoint is lost: the batches come again, with their numbers
    with ps.open(taken, tmp_path / "out", readonly=True) as engine, engine.snapshot() as snap:
        assert snap.sources == {"spark:names": 1}
        assert {row.key: row.value for row in snap.view("by_key")} == {f"n{i:02}": 1 + (i == 0) for i in range(7)} | {
            "moved": 1
        }


def test_spans_are_all_rows_once() -> None:
    from penstock.cache import MemoryStore

    store = MemoryStore()
    keys = [b"", b"a", b"ab", b"abc", *(b"abc%03d" % i for i in range(50)), b"abd", b"\xff\xff"][1:]
    with store.write() as txn:
        txn.put_many("rows", [(key, b"") for key in sorted(keys)])
    with store.read() as reader:
        for many in (1, 2, 3, 7, 100):
            spans = spans_of(reader, "rows", many)
            found = [key for span in spans for key, _ in reader.scan("rows", span.start, span.stop)]
            assert found == sorted(keys), many
        assert len(spans_of(reader, "rows", 7)) > 1
        assert spans_of(reader, "none", 7) == [Span(b"", None)]


class EqualTo:
    """A stand-in for Spark's filter of that name."""

    def __init__(self, name: str, value: Any) -> None:
        self.attribute = (name,)
        self.value = value


def test_filters_that_say_nothing_of_keys_narrow_nothing() -> None:
    assert narrowed([EqualTo("value", 1), EqualTo("key", [1])], "key") == Span(b"", None)
    assert keys_asked([EqualTo("a", 1)], ["a", "b"]) is None
    assert keys_asked([EqualTo("a", 1), EqualTo("b", "x")], ["a", "b"]) == [(1, "x")]
