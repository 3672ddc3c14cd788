"""A backfill from files and DataFrames: records, winning versions, rejections, held documents, and its files.

The tests need pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

import datetime
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.cache import CopyFailed, DefinitionError
from penstock.spark import backfill
from penstock.spark.backfill_job import table_inputs
from penstock.spout import Standing, UriError, open_file
from tests.partitions.copies.copied import mark_again
from tests.spark import usersown
from tests.spark.both import one_by_one, same, stored, topic


def shop(ts: str | None = "ts") -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts=ts)
    users.view("namecount", key="name", reduce=ps.count())
    users.view("largest", key="name", value="amount", reduce=ps.max())
    return app


def write(path: Path, docs: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def users(n: int) -> list[dict[str, Any]]:
    return [{"id": i % (n // 2 + 1), "name": f"n{i % 17}", "amount": i * 7 % 101, "ts": i * 3 % 40} for i in range(n)]


def loaded(app: ps.App, path: Path, table: str = "users", **how: Any) -> Any:
    """Return an engine that loaded a file."""
    engine: Any = ps.open(app, None)
    spout = open_file(os.fspath(path), table, **how)

    def batches() -> Iterator[Any]:
        while not spout.ended:
            batch = spout.next_batch(100)
            if batch is not None:
                yield batch

    for _ in engine.load(table, batches()):
        pass
    spout.close()
    return engine


def test_parts_of_a_file_of_lines_are_its_lines_in_order(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_inputs, "PART", 2_000)
    file, app = write(tmp_path / "users.jsonl", users(300)), shop()
    with file.open("a") as out:
        out.write('\nnot json\n{"id": 7, "ts": 99, "name": "last"}')
    with loaded(app, file) as engine:
        done = backfill(app, tmp_path / "store", spark=spark, users=file)
        assert done.rejected == 1
        same(app, engine, tmp_path / "store")
        with ps.open(app, tmp_path / "store") as bulk:
            [one] = bulk.quarantine()
            [wanted] = engine.quarantine()
            assert (one.place, one.reason, one.data) == (wanted.place, wanted.reason, wanted.data)
            with bulk.snapshot() as snap, engine.snapshot() as other:
                [(source, offset)] = snap.sources.items()
                assert other.sources[source] == offset
                assert snap.remembered(source) == other.remembered(source)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_of_rows(spark: Any, tmp_path: Path, kind: str) -> None:
    app, docs = shop(), users(200)
    file = tmp_path / f"users.{kind}"
    if kind == "csv":
        file.write_text("id,name,amount,ts\n" + "".join(",".join(map(str, doc.values())) + "\n" for doc in docs))
    else:
        pq.write_table(pa.Table.from_pylist(docs), file, row_group_size=64)
    with loaded(app, file) as engine:
        backfill(app, tmp_path / "store", spark=spark, users=[os.fspath(file)])
        same(app, engine, tmp_path / "store")


def test_nothing_in_a_file_is_nothing_in_the_store(spark: Any, tmp_path: Path) -> None:
    app, file = shop(), tmp_path / "users.jsonl"
    file.write_text("")
    done = backfill(app, tmp_path / "store", spark=spark, users=file)
    assert (done.documents, done.rows) == ({"users": 0}, {"namecount": 0, "largest": 0})
    write(file, users(9))
    with loaded(app, file) as engine, ps.open(app, tmp_path / "store") as bulk:
        bulk.put_many("users", users(9))
        assert bulk.digest() == engine.digest()


def test_files_have_the_order_in_which_they_are_named(spark: Any, tmp_path: Path) -> None:
    app = shop(ts=None)
    one = write(tmp_path / "one.jsonl", [{"id": 1, "name": "old"}, {"id": 2, "name": "kept"}])
    two = write(tmp_path / "two.jsonl", [{"id": 1, "name": "new"}])
    for order, name in (([one, two], "new"), ([two, one], "old")):
        store = tmp_path / name
        backfill(app, store, spark=spark, users=order)
        with ps.open(app, store, readonly=True) as engine, engine.snapshot() as snap:
            assert snap.table("users")[1]["name"] == name


def test_a_folder_has_no_order_and_ties_go_to_the_greater_bytes(spark: Any, tmp_path: Path) -> None:
    folder, app = tmp_path / "dump", shop()
    folder.mkdir()
    write(folder / "a.jsonl", [{"id": 1, "ts": 5, "name": "b"}, {"id": 2, "ts": 1, "name": "x"}])
    write(folder / "b.jsonl", [{"id": 1, "ts": 5, "name": "a"}, {"id": 2, "ts": 2, "name": "a"}, {"id": 3, "ts": 1}])
    write(folder / "_SUCCESS", [])
    done = backfill(app, tmp_path / "store", spark=spark, users=folder)
    assert done.ties == 1
    with ps.open(app, tmp_path / "store", readonly=True) as engine, engine.snapshot() as snap:
        assert [snap.table("users")[key].get("name") for key in (1, 2, 3)] == ["b", "a", None]


def test_every_type_of_a_dataframe(spark: Any, tmp_path: Path) -> None:
    app = ps.App("types")
    kinds = app.table("kinds", key=("id", "part.a"))
    kinds.view("sums", key="id", reduce={"d": ps.sum("price"), "f": ps.mean("share"), "n": ps.count("note")})
    kinds.view("days", key=("day", "part.b"), reduce=ps.count())
    docs = [
        {
            "id": i % 3,
            "part": {"a": f"k{i}", "b": None if i % 2 else i},
            "price": Decimal(i) / 4,
            "share": [0.5, math.nan, None, -0.0][i % 4],
            "note": None if i % 3 else "é日",
            "day": datetime.date(2024, 1, 1 + i % 5),
            "raw": bytes([i]),
            "many": [i, None],
            "named": {"x": i},
        }
        for i in range(40)
    ]
    schema = (
        "id int, part struct<a: string, b: int>, price decimal(10,2), share double, note string, day date, raw binary, "
        "many array<int>, named map<string,int>"
    )
    frame = spark.createDataFrame([{**doc, "raw": bytearray(doc["raw"])} for doc in docs], schema)
    with ps.open(app, None) as engine:
        engine.put_many("kinds", [doc | {"price": doc["price"].quantize(Decimal("0.01"))} for doc in docs])
        backfill(app, tmp_path / "store", spark=spark, kinds=frame)
        same(app, engine, tmp_path / "store")


def raises(doc: dict[str, Any]) -> Iterator[Any]:
    """A map in a module of the user's own. It fails on values that are not text."""
    yield usersown.shout(doc["name"]), doc.get("amount")


def test_what_a_map_raises_holds_the_document_and_fails_no_job(spark: Any, tmp_path: Path) -> None:
    app = ps.App("held")
    table = app.table("users", key="id")
    table.view("shouted", reduce=ps.sum())(raises)
    table.view("sums", key="name", value="amount", reduce=ps.sum())
    docs = [{"id": i, "name": i if i % 10 == 3 else "sue", "amount": "much" if i % 10 == 4 else i} for i in range(50)]
    records = [ps.Record("users", doc["id"], doc, offset=i) for i, doc in enumerate(docs)]
    with one_by_one(app, records) as engine:
        done = backfill(app, tmp_path / "store", spark=spark, users=topic(spark, records))
        assert done.held == {"shouted": 10, "sums": 5}
        with ps.open(app, tmp_path / "store") as bulk:
            wanted, got = stored(engine), stored(bulk)
            assert {name: rows.keys() for name, rows in got.items()} == {
                name: rows.keys() for name, rows in wanted.items()
            }
            assert {name: rows for name, rows in got.items() if "held" not in name} == {
                name: rows for name, rows in wanted.items() if "held" not in name
            }
            assert bulk.digest() == engine.digest()
            with bulk.snapshot() as snap:
                assert snap.holds_any("shouted")
                assert "'int' object" in snap.holds("shouted")[0]["reason"]
            bulk.put("users", {"id": 3, "name": "joe", "amount": 1})
            engine.put("users", {"id": 3, "name": "joe", "amount": 1})
            assert bulk.digest() == engine.digest()


def test_a_module_that_only_this_process_loaded_goes_along(spark: Any, tmp_path: Path) -> None:
    helper = tmp_path / "beside" / "ownhelper.py"
    helper.parent.mkdir()
    helper.write_text("def first(text):\n    return text[:1]\n")
    source = tmp_path / "beside" / "app.py"
    source.write_text(
        "import penstock as ps\nfrom ownhelper import first\napp = ps.App('own')\n"
        "users = app.table('users', key='id')\n"
        "@users.view(reduce=ps.count())\ndef initials(user):\n    yield first(user['name'])\n"
    )
    from penstock.cli.app_file import load

    before = list(sys.path)
    try:
        app = load(os.fspath(source))
        file = write(tmp_path / "users.jsonl", [{"id": i, "name": f"{'ab'[i % 2]}x"} for i in range(9)])
        backfill(app, tmp_path / "store", spark=spark, users=file)
        with ps.open(app, tmp_path / "store", readonly=True) as engine, engine.snapshot() as snap:
            assert [tuple(row) for row in snap.view("initials")] == [("a", 5), ("b", 4)]
    finally:
        sys.path[:] = before


def test_half_of_all_documents_in_one_group_and_wide_ones(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["penstock.spark.backfill_job.backfill_driver"]
    monkeypatch.setattr(module, "BUCKET", 20_000)
    monkeypatch.setattr(module, "_RANGE", 64)
    app = shop()
    docs = [
        {
            "id": f"k{i}",
            "name": "hot" if i % 2 else f"n{i}",
            "amount": i,
            "ts": i,
            "wide": "w" * (30_000 if i % 100 == 0 else 5),
        }
        for i in range(600)
    ]
    file = write(tmp_path / "users.jsonl", docs)
    with loaded(app, file) as engine:
        backfill(app, tmp_path / "store", spark=spark, users=file)
        same(app, engine, tmp_path / "store")


def test_a_store_that_is_there_is_left_alone(spark: Any, tmp_path: Path) -> None:
    app, file = shop(), write(tmp_path / "users.jsonl", users(3))
    with ps.open(app, tmp_path / "store") as engine:
        engine.put("users", {"id": 1, "ts": 1})
        with pytest.raises(ps.CopyFailed, match="it is there already and not empty"):
            backfill(app, tmp_path / "store", spark=spark, users=file)
        assert engine.status()["tables"]["users"]["documents"] == 1


def test_a_live_store_is_refilled_while_it_is_written_and_a_run_that_is_killed_leaves_it_as_it_was(
    spark: Any, tmp_path: Path
) -> None:
    """At each stage the folders are copied, as a kill of the driver at that moment would leave them."""
    app, file, live = shop(), tmp_path / "users.jsonl", tmp_path / "live"
    write(file, users(60))
    images: dict[str, Path] = {}
    seen: dict[str, str] = {}
    written: list[dict[str, Any]] = []
    (tmp_path / "again").symlink_to(live)
    with ps.open(app, live) as engine:
        engine.put_many("users", [{"id": 5, "name": "wrong", "ts": 1}, {"id": 5000, "name": "orphan", "ts": 1}])
        own: Any = engine

        def tell(what: str, done: int, total: int) -> None:
            if what in images:
                return
            if what != "switching":
                written.append({"id": 6000 + len(written), "name": "meanwhile", "amount": 1, "ts": 1})
                own.put("users", written[-1])
            if not images:  # a second start would omit the record that was just put
                with pytest.raises(CopyFailed, match="another process is copying to it"):
                    backfill(app, tmp_path / "again", spark=spark, refill=True, users=file)
            images[what] = tmp_path / f"killed-{len(images)}"
            images[what].mkdir()
            shutil.copytree(live, images[what] / "live", ignore=lambda _, names: [n for n in names if n == "socket"])
            if (tmp_path / "live.refill.partial").exists():
                shutil.copytree(tmp_path / "live.refill.partial", images[what] / "live.refill.partial")
            seen[what] = own.digest()

        backfill(app, live, spark=spark, progress=tell, refill=True, users=file)
        assert {"looking", "documents", "loading documents", "views", "loading views", "copying"} <= images.keys()
        after = engine.digest()
    for what, image in images.items():
        with ps.open(app, image / "live") as engine:
            assert engine.digest() == seen[what], what
            assert (seen[what] == after) is (what == "switching")
    last = images["loading views"]
    mark_again(last)
    backfill(app, last / "live", spark=spark, refill=True, users=file)
    assert sorted(os.listdir(last)) == ["live"]
    with loaded(app, file) as wanted:
        same(app, wanted, last / "live")
        wanted.put_many("users", written)
        same(app, wanted, live)


def test_load_goes_on_from_the_offsets_of_a_refill(spark: Any, tmp_path: Path) -> None:
    app, file, docs = shop(), tmp_path / "users.jsonl", users(90)
    write(file, docs[:60])
    with ps.open(app, tmp_path / "live") as engine:
        engine.put_many("users", [{"id": 5, "name": "wrong", "ts": 1}, {"id": 5000, "name": "orphan", "ts": 1}])
    backfill(app, tmp_path / "live", spark=spark, refill=True, offsets={"kafka:t/0": 17}, users=file)
    write(file, docs)
    with ps.open(app, tmp_path / "live") as engine:
        spout = open_file(os.fspath(file), "users")
        with engine.snapshot() as snap:
            assert snap.sources["kafka:t/0"] == 17
            spout.begin(snap.remembered)
        assert spout.standing is Standing.GROWN
        batches = iter([spout.next_batch(1000)])
        [(_, counts)] = list(engine.load("users", [batch for batch in batches if batch is not None]))
        assert counts.records == 30
        spout.close()
    with loaded(app, file) as engine:
        same(app, engine, tmp_path / "live")


def test_wrong_input_is_named(spark: Any, tmp_path: Path) -> None:
    app, store = shop(), tmp_path / "store"
    assert ps.spark.backfill is backfill
    with pytest.raises(DefinitionError, match="write backfill"):
        backfill(app, store, spark=spark)
    with pytest.raises(ps.UnknownName, match="did you mean 'users'"):
        backfill(app, store, spark=spark, usres="x")
    with pytest.raises(DefinitionError, match="got int; give it a DataFrame"):
        backfill(app, store, spark=spark, users=7)
    with pytest.raises(UriError, match=r"hand its DataFrame to ps.spark.backfill"):
        backfill(app, store, spark=spark, users="s3://bucket/users")
    with pytest.raises(DefinitionError, match="has no column 'id' but name, ts"):
        backfill(app, store, spark=spark, users=spark.createDataFrame([("Sue", 1)], "name string, ts int"))
    with pytest.raises(ps.StoreMissing):
        backfill(app, store, spark=spark, refill=True, users=spark.createDataFrame([(1, 1)], "id int, ts int"))
    assert not store.exists()
    assert not (tmp_path / "store.partial").exists()
