"""CSV gives the same records by columns and row by row, Parquet the documents of its rows; planted bugs are found."""

from __future__ import annotations

import csv
import datetime
import io
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.cache import pack_document, unpack_document
from penstock.mapreduce import Decoder, FieldPlan, Spaces
from penstock.spout import open_file
from penstock.spout.files import json_csv_lines
from penstock.spout.files.json_csv_lines import Csv, LineRecords
from tests.harness.planting import Bug
from tests.mapreduce.decode.test_decoder import SEED, _shown

CELLS = [
    "7", "-1.5", "1e3", "1E400", "-0", "007", "+1", "1.", "-", "1,5", "1;5", ",", "NA", "", " 7", "7 ", "true", "true ",
    "null", "nope", "[1, 2]", '{"a": 1}', '"7"', "é", "a\nb", "a\r", "x" * 90, "NaN", "12345678901234567890123",
    "9" * 400, "9" * 10_001,
]  # fmt: skip
LINES = [b"", b"1", b"1,2,3,4", b'1,"2', b'"a"b,1,2', b"\xff,1,2", b"1,\xed\xa0\x80,2", b"1\r2,3,4", b"\x00,1,2"]
CSV_COLUMNS = "spout.files.csv_columns:"
BUGS = [
    Bug("a row that lacks a cell takes one of the next", f"{CSV_COLUMNS}cells_of", "!= len(lines) - 1:", "== -1:"),
    Bug("rows over several lines count as rows", f"{CSV_COLUMNS}cells_of", "len(rows) != len(lines) or ", ""),
    Bug("a cell with a comma is two numbers", f"{CSV_COLUMNS}_numbers", "if len(values) == len(cells) else None", ""),
    Bug("a text that means null is a number", f"{CSV_COLUMNS}CellValues.of", "and nulls.isdisjoint(cells)", ""),
    Bug(
        "values of blocks before one that is read by rows are kept",
        "spout.files.json_csv_lines:Csv._rows",
        "out.columns = None",
        "pass",
    ),
    Bug("values are not normalised", "spout.files.parquet:_values_of", "map(normalise, values)", "values"),
    Bug(
        "rows are refused at the place of their column",
        "spout.files.parquet:ParquetSpout.next_batch",
        "refused[place + i], received[place + i]",
        "refused[i], received[i]",
    ),
]  # fmt: skip


def csv_of(seed: int) -> tuple[list[bytes], dict[str, Any]]:
    """Return the lines of a CSV file: columns of numbers and of text, with odd cells and broken lines among them."""
    draw = random.Random(seed)
    out = io.StringIO()
    delimiter = draw.choice([",", ",", ";", "\t"])
    writer = csv.writer(out, delimiter=delimiter, lineterminator=draw.choice(["\n", "\n", "\r\n"]))
    odd = draw.choice([0.0, 0.03, 0.2])
    writer.writerow(["id", "name", "amount"])
    for i in range(40):
        row = [str(i), f"name{i % 3}", draw.choice(["", str(i / 4)])]
        writer.writerow([draw.choice(CELLS) if draw.random() < odd else cell for cell in row])
    lines = out.getvalue().encode().split(b"\n")[:-1]
    for _ in range(draw.choice([0, 0, 1, 3])):
        lines.insert(draw.randrange(1, len(lines)), draw.choice(LINES))
    if draw.random() < 0.2:
        at = draw.randrange(1, len(lines))
        lines[at:at] = [delimiter.join(["1"] * n).encode() for n in (2, 4)]
    return lines, {"delimiter": delimiter, "nulls": draw.choice([(), ("NA",), ("7", "0")])}


def check_csv(seeds: range) -> int:
    """Compare both ways. Return the number of files whose values came by column."""
    whole = 0
    for seed in seeds:
        lines, options = csv_of(seed)
        by_columns, by_rows = Csv("a.csv", **options), Csv("a.csv", **options)
        with mock.patch.object(json_csv_lines, "BLOCK", 8):
            shaped = _shaped(by_columns, lines)
        with mock.patch.object(json_csv_lines, "cells_of", return_value=None):
            expected = _shaped(by_rows, lines)
        columns, shaped.columns, expected.columns = shaped.columns, None, None
        assert shaped == expected, seed
        assert by_columns.odd_columns() == by_rows.odd_columns()
        if columns:
            whole += 1
            docs = list(map(unpack_document, shaped.lines))
            assert repr([[doc[name] for doc in docs] for name in by_columns.columns or ()]) == repr(columns)
    return whole


def _shaped(of: Csv, lines: list[bytes]) -> LineRecords:
    return of.shape(lines, True)


def table_of(seed: int, n: int = 30) -> pa.Table:
    """Return a table with columns of many types, and nulls in some."""
    draw = random.Random(seed)
    makers: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
        "id": (pa.int64(), lambda i: i),
        "big": (pa.uint64(), lambda i: 2**64 - 1 - i),
        "ratio": (pa.float64(), lambda i: draw.choice([i / 3, float("nan"), float("inf"), -0.0, 1.0])),
        "single": (pa.float32(), lambda i: i / 3),
        "paid": (pa.bool_(), lambda i: i % 2 == 0),
        "name": (pa.string(), lambda i: f"é{i % 3}"),
        "kind": (pa.dictionary(pa.int32(), pa.string()), lambda i: f"k{i % 3}"),
        "raw": (pa.binary(), lambda i: bytes([i])),
        "price": (pa.decimal128(20, 2), lambda i: Decimal(i) / 4),
        "day": (pa.date32(), lambda i: datetime.date(2024, 1, 1 + i % 28)),
        "at": (pa.timestamp("us", "UTC"), lambda i: datetime.datetime(2024, 1, 1, 1, i, tzinfo=datetime.UTC)),
        "who": (pa.struct([("city", pa.string()), ("n", pa.int32())]), lambda i: {"city": f"c{i % 2}", "n": i}),
        "tags": (pa.list_(pa.string()), lambda i: ["a", None][: i % 3]),
        "took": (pa.duration("ms"), lambda i: None if i % 10 else datetime.timedelta(1)),
    }
    chosen = ["id", *draw.sample(list(makers)[1:], draw.randrange(1, 6))]
    columns = {}
    for name in chosen:
        kind, make = makers[name]
        some = 0.2 if name != "id" and draw.random() < 0.5 else 0.0
        columns[name] = pa.array([None if draw.random() < some else make(i) for i in range(n)], kind)
    return pa.table(columns)


def check_parquet(seeds: range, folder: Path) -> int:
    """Compare the documents and values of Parquet with its rows. Return the number of files whose values came along."""
    whole = 0
    for seed in seeds:
        table, path = table_of(seed), folder / f"{seed}.parquet"
        pq.write_table(table, path, row_group_size=7)
        spout = open_file(str(path), "t")
        lines, refused = list[bytes](), dict[int, str]()
        limits = cycle((4, 13))  # a later batch has several slices of the file
        while (batch := spout.next_batch(next(limits))) is not None:
            refused |= {batch.start + place: reason for place, reason in batch.refused.items()}
            assert batch.skips == [*batch.refused] == [*batch.received]
            lines += batch.records.lines
            if batch.records.fields is not None:
                whole += 1
                check_decoder(batch.records.lines, batch.records.fields)
        spout.close()
        rows = pq.ParquetFile(path).read().to_pylist()
        bad = [i for i, row in enumerate(rows) if row.get("took") is not None]
        assert [*refused] == bad
        assert lines == [pack_document(row) for i, row in enumerate(rows) if i not in bad]
    return whole


def check_decoder(lines: list[bytes], fields: Any) -> None:
    """Compare the columns of values with those of the lines."""
    table = ps.App("shop").table("t", key="id")
    views = [
        table.view("names", key="name", reduce=ps.sum("price")),
        table.view("cities", key=("who.city", "kind"), reduce=ps.last("ratio", by="id"), where="paid"),
        table.view("days", key="day", reduce=ps.max("big")),
    ]
    plan = FieldPlan.of(table.key, table.ts, views)
    shown = []
    for given in (fields, None):
        spaces = Spaces()
        columns = Decoder(plan, spaces, SEED).columns(lines, fields=given)
        shown.append(repr([_shown(columns, spaces, i) for i in range(len(lines))]))
    assert shown[0] == shown[1]


def check(folder: Path) -> None:
    """Check both formats."""
    check_csv(range(120))
    check_parquet(range(30), folder)


def test_csv_by_columns_and_by_rows_agree() -> None:
    assert check_csv(range(120)) > 20


def test_values_of_parquet_are_those_of_its_rows(tmp_path: Path) -> None:
    assert check_parquet(range(30), tmp_path) > 60


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        check(tmp_path)


@pytest.mark.parametrize("names", [1, 3, 15, 16, 17, 70])
def test_a_row_has_the_bytes_of_its_document(names: int) -> None:
    columns = [f'field {i} "é"' if i % 5 == 0 else f"f{i}" for i in range(names)]
    values = [7, "Sue", None, 1.5, True, b"x", -1, "é", 2**63, ""]
    row = [values[i % len(values)] for i in range(names)]
    lines = json_csv_lines.RowPacker(columns).lines([[value] for value in row])
    assert lines in (None, [pack_document(dict(zip(columns, row, strict=True)))])


def test_wide_batches_keep_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_csv_lines, "MOST_CELLS", 100)
    shaped = Csv("a.csv").shape([b"a,b", *[b"1,2"] * 51], True)
    assert (len(shaped.lines), shaped.columns) == (51, None)
    assert Csv("a.csv").shape([b"a,b", *[b"1,2"] * 50], True).columns == [[1] * 50, [2] * 50]
