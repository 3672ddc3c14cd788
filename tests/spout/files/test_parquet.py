"""Read Parquet files: rows as documents, from the stored offset on."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cache import MissingExtra, unpack_document
from penstock.spout import ParquetSpout, Remembered, SourceUnreadable, SpoutBatch, Standing, open_file


def begun(path: Path, memory: dict[str, Remembered], **options: Any) -> ParquetSpout:
    spout = open_file(str(path), "t", **options)
    assert isinstance(spout, ParquetSpout)
    spout.begin(memory.get)
    return spout


def write(path: Path, n: int, group: int = 7) -> None:
    pq.write_table(pa.table({"id": range(n), "x": [None, *map(str, range(1, n))]}), path, row_group_size=group)


def test_rows_are_documents(tmp_path: Path) -> None:
    row = {
        "id": 1,
        "name": "é",
        "amount": Decimal("1.50"),
        "day": datetime.date(2024, 1, 31),
        "tags": ["a", None],
        "at": {"city": "Oslo"},
        "raw": b"\x00",
        "none": None,
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([row]), path)
    batch = begun(path, {}).next_batch(10)
    assert batch is not None
    assert [unpack_document(line) for line in batch.records.lines] == [{**row, "day": "2024-01-31"}]


@pytest.mark.parametrize("limit", [1, 3, 7, 8, 100])
def test_a_file_is_continued_after_every_batch(tmp_path: Path, limit: int) -> None:
    path, memory, found = tmp_path / "a.pq", dict[str, Remembered](), list[Any]()
    write(path, 20)
    for _ in range(100):
        spout = begun(path, memory)
        left = spout.lag()
        batch = spout.next_batch(limit)
        spout.close()
        if batch is None:
            break
        assert left == 20 - len(found)
        assert (batch.start, batch.first) == (len(found), len(found) + 1)
        found += [unpack_document(line)["id"] for line in batch.records.lines]
        memory[str(batch.source)] = Remembered(batch.resume, batch.note)
    assert found == list(range(20))
    spout = begun(path, memory)
    assert (spout.standing, spout.ended, spout.lag()) == (Standing.FINISHED, True, 0)


def test_another_file_is_read_from_its_start(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.parquet", dict[str, Remembered]()
    write(path, 20)
    spout = begun(path, memory)
    batch = spout.next_batch(5)
    assert batch is not None
    memory[str(batch.source)] = Remembered(batch.resume, batch.note)
    assert begun(path, memory, again=True).next_batch(5) == begun(path, memory, again=True).next_batch(5)
    write(path, 21)
    spout = begun(path, memory)
    batch = spout.next_batch(5)
    assert batch is not None
    assert (spout.standing, batch.again, batch.start) == (Standing.REPLACED, True, 0)


def test_a_row_that_is_no_valid_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [{"id": Decimal(1)}, {"id": Decimal(2)}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    spout = begun(path, {})
    with mock.patch("penstock.spout.files.parquet.pack_document", _only_one):
        batch = spout.next_batch(10)
    assert batch is not None
    assert (batch.refused, batch.records.refused, batch.unit) == (
        {1: "record rejected: two; correct it and put it again"},
        1,
        f"{path}, row",
    )


def _only_one(row: dict[str, Any]) -> bytes:
    from penstock.cache import RecordError, pack_document

    if row["id"] == 2:
        raise RecordError("two")
    return pack_document(row)


def test_a_file_of_another_format_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for text in (b"", b"id,name\n1,Sue\n", b"PAR1" + b"x" * 100):
        path.write_bytes(text)
        with pytest.raises(SourceUnreadable, match="it is no Parquet file"):
            open_file(str(path), "t")


def test_damage_is_reported_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, 5_000, group=1_000)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 400] = b"\xff" * 400
    path.write_bytes(data)
    spout, batches = begun(path, {}), list[SpoutBatch | None]()
    with pytest.raises(SourceUnreadable, match=r"damaged after row [1-4],000 .*get the file anew"):
        batches.extend(iter(lambda: spout.next_batch(1_000), None))
    assert batches
    assert spout.number == 1_000 * len(batches)


def test_the_package_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, 3)
    with (
        mock.patch.dict("sys.modules", {"pyarrow.parquet": None}),
        pytest.raises(MissingExtra, match=r"penstock\[arrow\]"),
    ):
        open_file(str(path), "t")
