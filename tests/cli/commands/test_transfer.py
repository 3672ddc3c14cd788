"""Export and import: every exported value is imported unchanged. The form of the files."""

from __future__ import annotations

import csv as csv_module
import gzip
import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import canonical, pack_document, parse_rfc3339
from penstock.cli.app_file import load as load_app
from penstock.cli.commands import load as load_module
from penstock.cli.files import csv_parquet_export, lossless_json
from penstock.gateway import TableBatch
from penstock.spout import SpoutBatch
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal

APP = """
import penstock as ps

app = ps.App("everything")
numbers = app.table("numbers", key="id", ts="ts")
instants = app.table("instants", key=("a.b", "id"), ts="at.ts")
patched = app.table("patched", key="id", ts="ts", merge="patch")
instants_patched = app.table("instants_patched", key="meta.id", ts="meta.at", merge="patch")
brokered = app.table("brokered", key="id", ts="@kafka")
brokered_patched = app.table("brokered_patched", key="id", ts="@kafka", merge="patch")
plain = app.table("plain", key="id")
merged = app.table("merged", key="id", merge="patch")
for table in app.tables():
    table.view(f"{table.name}_by_g", key="g", reduce=ps.count())


@numbers.view(reduce={"n": ps.count(), "total": ps.sum("v")})
def sizes(doc):
    if isinstance(doc.get("g"), int):
        yield (len(doc), "x"), {"v": doc["g"]}


names = app.table("names", key="key")
"""
TABLES = [
    "numbers", "instants", "patched", "instants_patched", "brokered", "brokered_patched", "plain", "merged",
]  # fmt: skip
ODD: list[Any] = [
    1,
    1.0,
    -0.0,
    0.1,
    1e308,
    5e-324,
    math.nan,
    -math.inf,
    1 << 63,
    -(1 << 200),
    Decimal("1.50"),
    Decimal("-1E+300"),
    b"",
    b"\0\xff\n",
    "",
    '\n\r\x00\u2028\U0001f600"\\$',
    "$5",
    None,
    True,
    [],
    {},
    [1, [b"x", {"a": Decimal("0")}]],
    {"$bytes": "AA=="},
    {"$bytes": "not base64"},
    {"$decimal": "1"},
    {"$float": 1},
    {"$map": {"$bytes": "AA=="}},
    {"$map": 1},
    {"$bytes": "AA==", "and": 1},
    {"$delete": 1},
    {"$other": {"$map": {}}},
]


@pytest.fixture
def everything(workdir: Path) -> Path:
    (workdir / "app.py").write_text(APP)
    return workdir


def opened(store: str = "penstock-state", **options: Any) -> ps.Engine:
    return ps.open(load_app("app.py"), store, **options)


def instant(n: int) -> str:
    """Return a ts in one of several spellings."""
    day, zone = [("2024-01-01T00", "Z"), ("2024-01-01 02", ".250+02:00"), ("2023-12-31t23", ".000000001-00:30")][n % 3]
    return f"{day}:{n // 60 % 60:02}:{n % 60:02}{zone}"


def fill(engine: Any, seed: int, count: int = 250) -> None:
    """Write a history to all tables, with odd values, deletions and late records."""
    random = Random(seed)
    for n in range(count):
        name = random.choice(TABLES)
        key, when = random.randrange(12), n + random.choice([0, 0, 1, -3, -30])
        doc: dict[str, Any] = {"id": key, "g": random.choice([1, 2.5, None, b"x", Decimal, "a"])}
        if doc["g"] is Decimal:
            del doc["g"]
        for field in random.sample(["v", "w", "x", "$delete", "$doc", "$ts"], random.randrange(4)):
            doc[field] = random.choice(ODD)
        options: dict[str, Any] = {}
        if name in ("numbers", "patched"):
            doc["ts"] = when if n % 3 else when + 0.5
        elif name == "instants":
            doc |= {"a": {"b": random.choice([None, "x"])}, "at": {"ts": instant(n), "more": 1}}
            doc["a"]["b"] = "x"
        elif name == "instants_patched":
            doc = {**doc, "meta": {"id": key, "at": instant(n)}}
        elif name.startswith("brokered"):
            options["ts"] = when
        if random.random() < 0.3:
            named: Any = ("x", key) if name == "instants" else key
            late = {"instants": instant(n), "instants_patched": instant(n), "plain": None, "merged": None}
            engine.delete(name, named, ts=late.get(name, when))
        elif random.random() < 0.3 and "plain" in name:
            engine.put(name, json.dumps({"id": key, "v": 1}, indent=random.choice([None, 2])).encode())
        else:
            engine.put(name, doc, **options)


# -- what goes out comes in again


@pytest.mark.parametrize("seed", range(3))
def test_a_store_is_the_same_after_export_and_import(seed: int, everything: Path, run: Run) -> None:
    with opened() as engine:
        fill(engine, seed)
        digest, status = engine.digest(), engine.status()["tables"]
    assert sum(about["tombstones"] for about in status.values()) > 10
    for name in TABLES:
        run("export", name, "-o", f"{name}.jsonl")
        with mock.patch.object(load_module, "LIMIT", 7):
            run("--store", "other", "import", name, f"{name}.jsonl")
    with opened("other") as engine:
        assert engine.digest() == digest
    for name in TABLES:
        assert "in already" in run("--store", "other", "import", name, f"{name}.jsonl").stdout
        again = run("--store", "other", "import", name, f"{name}.jsonl", "--again").stdout
        assert "applied" not in again or status[name]["documents"] == 0 or "patched" in name, again
    with opened("other") as engine:
        assert engine.digest() == digest


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sampled_from(ODD),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(["$bytes", "$map", "$doc"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(docs=st.lists(st.dictionaries(st.text(max_size=4) | st.sampled_from(["$delete", "$doc"]), _values), max_size=4))
@settings(max_examples=50)
def test_any_document_goes_out_and_comes_in(docs: list[dict[str, Any]]) -> None:
    table = ps.App("a").table("t", key="id")
    docs = [doc | {"id": i} for i, doc in enumerate(docs)]
    lines = [line for doc in docs for line in lossless_json.portable_lines(table, pack_document(doc), False)]
    assert not any(b"\n" in line for line in lines)
    with ps.open(table.app, None) as engine:
        batch = lossless_json.read_portable(SpoutBatch(TableBatch(lines)))
        for _, counts in engine.load("t", [batch]):
            assert counts.applied == len(docs)
        with engine.snapshot() as snap:
            found = snap.table("t").get_many(range(len(docs)))
    assert list(map(canonical, found)) == list(map(canonical, docs))


@given(st.integers(parse_rfc3339("0001-01-01T00:00:00+23:59"), parse_rfc3339("9999-12-31T23:59:59.999999999-23:59")))
def test_an_instant_is_written_as_it_is_read(ns: int) -> None:
    assert parse_rfc3339(lossless_json._ts(ns, True)) == ns


def test_the_first_and_the_last_instant() -> None:
    for text in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59"):
        assert lossless_json._ts(parse_rfc3339(text), True) == text


def test_lines_of_people_are_imported_as_they_are_loaded(everything: Path, run: Run) -> None:
    lines = ['{"id": 1, "v": 1.50}', "", " no", '{"id": 2, "v": "$5"}', '{"id": 3', '{"$delete": 1}', '["$x"]']
    lines += ['{"id": 4, "v": {"$bytes": "?"}}', '{"id": null, "v": "$"}', '{"$doc": 7}']
    (everything / "a.jsonl").write_text("\n".join(lines))
    done = run("import", "plain", "a.jsonl", code=1)
    assert done.stdout == "a.jsonl: 3 applied, 6 rejected\n"
    assert done.stderr.splitlines() == [
        "rejected: a.jsonl, line 3: it is no JSON object",
        "rejected: a.jsonl, line 5: not a document: its JSON can't be taken: Input data was truncated",
        "rejected: a.jsonl, line 7: it is no JSON object",
        'rejected: a.jsonl, line 8: {"$bytes": "?"} has no meaning',
        "rejected: a.jsonl, line 9: no key in field 'id': it is null",
        "rejected: and 1 more",
    ]
    with opened() as engine, engine.snapshot() as snap:
        assert dict(snap.table("plain").items()) == {2: {"id": 2, "v": "$5"}}


def test_rows_of_a_view_are_documents_of_a_table_by_key(everything: Path, run: Run) -> None:
    with opened() as engine:
        engine.put_many("numbers", [{"id": i, "g": i / 4, "ts": 1} for i in range(3)])
    run("export", "numbers_by_g", "-o", "rows.jsonl")
    assert (everything / "rows.jsonl").read_text() == (
        '{"key": 0, "value": 1}\n{"key": 0.25, "value": 1}\n{"key": 0.5, "value": 1}\n'
    )
    assert run("import", "names", "rows.jsonl").stdout == "rows.jsonl: 3 applied\n"
    assert "there is no table named 'numbers_by_g'" in run("import", "numbers_by_g", "rows.jsonl", code=2).stderr


def test_through_a_pipe_and_packed(everything: Path, run: Run) -> None:
    with opened() as engine:
        fill(engine, 1)
        want = engine.status()["tables"]["numbers"]
    shown = run("export", "numbers").stdout_bytes
    packed = {"a.jsonl.gz": gzip.decompress, "a.jsonl.zst": lambda data: zstandard.decompress(data, 1 << 20)}
    for name, unpack in packed.items():
        run("export", "numbers", "-o", name)
        assert unpack((everything / name).read_bytes()) == shown
        run("--store", name + "-state", "import", "numbers", name)
        with opened(name + "-state") as engine:
            got = engine.status()["tables"]["numbers"]
            assert (got["documents"], got["tombstones"]) == (want["documents"], want["tombstones"])
    command = [sys.executable, "-m", "penstock", "--store", "piped", "import", "numbers", "-"]
    subprocess.run(command, input=shown, check=True, capture_output=True)
    with opened("piped") as engine:
        assert engine.status()["tables"]["numbers"]["documents"] == want["documents"]


# -- what a file looks like


DOCS = [
    {"id": 1, "name": "Sue", "age": 40, "ts": 1, "tags": ["a"], "pay": Decimal("1.50"), "big": 1 << 70, "raw": b"\0"},
    {"id": 2, "name": "7", "age": 1.5, "ts": 1, "tags": {}, "pay": 3, "mixed": "x"},
    {"id": 3, "name": "", "age": None, "ts": 2, "ok": True, "mixed": 1, "line": "a\nb", "far": 1 << 60},
    {"id": 4, "name": 'a,"b"', "far": 0.5, "ts": 2},
]


@pytest.fixture
def documents(everything: Path) -> Path:
    with opened() as engine:
        engine.put_many("numbers", DOCS)
        engine.delete("numbers", 9, ts=1)
    return everything


def test_csv(documents: Path, run: Run) -> None:
    done = run("export", "numbers", "--format", "csv")
    assert done.stderr == "standard output: 4 documents; 1 deletions are not in it\n"
    rows = list(csv_module.reader(done.stdout.splitlines()))
    assert rows[0] == ["id", "ts", "name", "age", "tags", "pay", "big", "raw", "mixed", "ok", "line", "far"]
    assert rows[1][:8] == ["1", "1", "Sue", "40", '["a"]', "1.50", str(1 << 70), '{"$bytes": "AA=="}']
    assert rows[2][:9] == ["2", "1", '"7"', "1.5", "{}", "3", "", "", "x"]
    assert rows[3][2:4] == ['""', ""]
    assert rows[3][10] == '"a\\nb"'
    run("export", "numbers", "-o", "a.csv")
    assert (documents / "a.csv").read_text() == done.stdout
    run("--store", "other", "import", "numbers", "a.csv")
    with opened("other") as engine, engine.snapshot() as snap:
        found = {key: {k: v for k, v in doc.items() if v is not None} for key, doc in snap.table("numbers").items()}
    assert found[2] == DOCS[1] | {"pay": 3}
    assert found[3] == {k: v for k, v in DOCS[2].items() if v is not None}
    assert found[4] == DOCS[3]
    assert found[1]["big"] == 1 << 70
    assert found[1]["pay"] == 1.5


def test_parquet(documents: Path, run: Run) -> None:
    run("export", "numbers", "-o", "a.parquet")
    table = pq.read_table(documents / "a.parquet")
    assert {name: str(table.schema.field(name).type) for name in table.column_names} == {
        "id": "int64",
        "ts": "int64",
        "name": "string",
        "age": "double",
        "tags": "string",
        "pay": "decimal128(3, 2)",
        "big": "string",
        "raw": "binary",
        "mixed": "string",
        "ok": "bool",
        "line": "string",
        "far": "string",
    }
    rows = table.to_pylist()
    assert [row["name"] for row in rows] == ["Sue", "7", "", 'a,"b"']
    assert [row["pay"] for row in rows] == [Decimal("1.50"), Decimal("3.00"), None, None]
    assert rows[0]["raw"] == b"\0"
    assert [rows[0]["tags"], rows[0]["big"], rows[1]["mixed"], rows[2]["mixed"]] == ['["a"]', str(1 << 70), '"x"', "1"]
    run("--store", "other", "import", "numbers", "a.parquet")
    with opened("other") as engine, engine.snapshot() as snap:
        assert len(snap.table("numbers")) == 4


def test_more_rows_than_are_written_at_once(everything: Path, run: Run) -> None:
    with opened() as engine:
        engine.put_many("plain", [{"id": i, "v": i} for i in range(1_000)])
    with mock.patch.object(csv_parquet_export, "_ROWS", 64):
        run("export", "plain", "-o", "a.parquet")
        run("export", "plain", "-o", "a.csv")
    assert sorted(pq.read_table("a.parquet")["v"].to_pylist()) == list(range(1_000))
    assert len((everything / "a.csv").read_text().splitlines()) == 1_001


def test_a_view_with_fields(everything: Path, run: Run) -> None:
    with opened() as engine:
        engine.put_many("numbers", [{"id": i, "g": i, "ts": 1} for i in range(3)])
    assert run("export", "sizes").stdout == '{"key": [3, "x"], "value": {"n": 3, "total": 3}}\n'
    assert run("export", "sizes", "--format", "csv").stdout == 'key,n,total\n"[3, ""x""]",3,3\n'
    run("export", "sizes", "-o", "a.parquet")
    assert pq.read_table("a.parquet").to_pylist() == [{"key": '[3, "x"]', "n": 3, "total": 3}]


def test_a_view_that_holds_something_says_so(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 1, "country": "NO", "ts": 9}')  # initials() needs a name
    assert '{"key": "S", "value": 1, "held": true}' in run("export", "initials").stdout.splitlines()
    assert run("export", "initials", "--format", "csv").stdout == "key,value,held\nJ,2,false\nS,1,true\n"


def test_nothing_is_a_file_too(everything: Path, run: Run) -> None:
    opened().close()
    assert run("export", "numbers").stdout == ""
    assert run("export", "numbers", "--format", "csv").stdout == "id,ts\n"
    run("export", "numbers", "-o", "a.parquet")
    assert pq.read_table("a.parquet").num_rows == 0


# -- what can be wrong


def test_what_was_typed_wrong(documents: Path, run: Run) -> None:
    assert "did you mean 'numbers'?" in run("export", "numbres", code=2).stderr
    assert "write -o FILE.parquet" in run("export", "numbers", "--format", "parquet", code=2).stderr
    assert "packed by itself" in run("export", "numbers", "-o", "a.parquet.gz", code=2).stderr
    assert "no such file" in run("import", "numbers", "nothing.jsonl", code=2).stderr
    assert "there is no store" in run("--store", "nowhere", "export", "numbers", code=2).stderr
    with mock.patch.object(csv_parquet_export, "_MOST", 3):
        assert "more than 3 different fields" in run("export", "numbers", "--format", "csv", code=2).stderr


def test_a_file_that_can_t_be_written_leaves_the_old_one(documents: Path, run: Run) -> None:
    (documents / "a.jsonl").write_text("mine")
    with mock.patch.object(os, "fsync", side_effect=OSError(28, "No space left on device")):
        done = run("export", "numbers", "-o", "a.jsonl", code=3)
    assert done.stderr == "penstock: a.jsonl: no space left on device; free some space and run this again\n"
    assert (documents / "a.jsonl").read_text() == "mine"
    assert [name for name in os.listdir() if "partial" in name] == []
    failed = run("export", "numbers", "-o", "nowhere/a.jsonl", code=2).stderr
    assert failed == "penstock: nowhere/a.jsonl: no such file or directory; check the path\n"


def test_who_has_read_enough_is_no_failure(everything: Path) -> None:
    with opened() as engine:
        engine.put_many("plain", [{"id": i, "v": "x" * 100} for i in range(20_000)])
    script = f"{sys.executable} -m penstock export plain | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert [line[:7] for line in done.stdout.splitlines()] == ['{"id": ', "0"]
    assert done.stderr == ""


def test_an_export_shows_how_far_it_is(everything: Path) -> None:
    with opened() as engine:
        engine.put_many("plain", [{"id": i, "v": "x" * 10} for i in range(50_000)])
    with Terminal("export", "plain", "-o", "a.jsonl", cwd=everything) as terminal:
        terminal.until("plain")
        terminal.until("%")
        assert terminal.end() == 0
        assert "a.jsonl: 50,000 documents" in terminal.plain()
