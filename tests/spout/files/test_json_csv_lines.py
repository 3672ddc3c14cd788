"""Convert lines to records: the values of cells, and the handling of broken rows."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import unpack_document
from penstock.spout import SourceUnreadable
from penstock.spout.files.json_csv_lines import Csv, JsonLines, LineRecords


def rows(text: str | bytes, last: bool = True, delimiter: str | None = None) -> tuple[LineRecords, list[Any]]:
    """Return the shape of a CSV text, and its documents."""
    data = text.encode() if isinstance(text, str) else text
    lines = data.split(b"\n")
    shaped = Csv("a.csv", delimiter).shape(lines[:-1] if not lines[-1] else lines, last)
    return shaped, [unpack_document(line) for line in shaped.lines]


def test_a_json_cell_has_its_value() -> None:
    cells = {
        "7": 7, "-1.5": -1.5, "1e3": 1000.0, "true": True, "null": None, "": None, "007": "007", "NaN": "NaN", "x": "x",
        "2024-01-31": "2024-01-31", '"7"': "7", '""': "", "[1, 2]": [1, 2], '{"a": 1}': {"a": 1},
        "[1": "[1", " 7": " 7",
        "12345678901234567890123": 12345678901234567890123, "-": "-", "truey": "truey",
    }  # fmt: skip
    out = io.StringIO()
    csv.writer(out).writerows([["cell", "n"], *([cell, i] for i, cell in enumerate(cells))])
    _, found = rows(out.getvalue())
    assert [doc["cell"] for doc in found] == list(cells.values())


def test_the_first_row_names_the_fields() -> None:
    shaped, found = rows("id,name\r\n1,Sue\r\n2,\r\n")
    assert found == [{"id": 1, "name": "Sue"}, {"id": 2, "name": None}]
    assert (shaped.used, shaped.skips, shaped.refused) == (3, [0], {})


def test_a_row_may_span_lines_and_has_the_place_of_the_first() -> None:
    shaped, found = rows('id,name\n1,"two\nlines"\n\n2,"a ""b"""\n')
    assert found == [{"id": 1, "name": "two\nlines"}, {"id": 2, "name": 'a "b"'}]
    assert shaped.skips == [0, 2, 3], "lines that gave no record of their own"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("1", "it has 1 cells, and the first row has 2"),
        ("1,2,3", "it has 3 cells, and the first row has 2"),
        ('1,"a"b', "it is no row of CSV: ',' expected after '\"'"),
        ("1,\udcff", "it is no UTF-8"),
    ],
)
def test_only_the_line_of_a_broken_row_is_refused(bad: str, reason: str) -> None:
    text = f"id,name\n1,a\n{bad}\n2,b\n".encode("utf-8", "surrogateescape")
    shaped, found = rows(text)
    assert shaped.refused == {2: reason}
    assert [doc["id"] for doc in found] == [1, 2]
    assert shaped.used == 4


def test_a_stray_quote_affects_only_its_line() -> None:
    shaped, found = rows('id,name\n1,a\n2,"b\n3,c\n4,d\n')
    assert list(shaped.refused) == [2]
    assert [doc["id"] for doc in found] == [1, 3, 4]


def test_a_row_without_its_end_waits_for_it() -> None:
    shape = Csv("a.csv")
    first = shape.shape([b"id,name", b"1,a", b'2,"b'], False)
    assert (first.used, len(first.lines)) == (2, 1)
    then = shape.shape([b'2,"b', b'c"'], False)
    assert unpack_document(then.lines[0]) == {"id": 2, "name": "b\nc"}


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_is_found_in_the_first_row(delimiter: str) -> None:
    _, found = rows(f"id{delimiter}name\n1{delimiter}Sue\n")
    assert found == [{"id": 1, "name": "Sue"}]


def test_the_delimiter_can_be_given() -> None:
    _, found = rows("id;name,first\n1;Sue\n", delimiter=";")
    assert found == [{"id": 1, "name,first": "Sue"}]


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"id,id", "two of its columns are named 'id'"),
        (b"", "its first row is empty"),
        (b'id,"a"b', "its first row can't be read"),
        (b"id,\xff", "its first row is no UTF-8"),
        (b"\xff\xfei\0d\0", "it is UTF-16 text"),
        (b"\x1f\x8b\x08", "it is no text; it may be read with --format-in jsonl.gz"),
        (b"PAR1", "it is no text; it may be read with --format-in parquet"),
    ],
)
def test_a_header_without_names_is_refused(head: bytes, reason: str) -> None:
    with pytest.raises(SourceUnreadable, match=r"^a\.csv: ") as caught:
        Csv("a.csv").shape([head, b"1,2"], True)
    assert reason in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_name() -> None:
    _, found = rows(b"\xef\xbb\xbfid,name\n1,Sue\n")
    assert found == [{"id": 1, "name": "Sue"}]
    assert JsonLines("a").shape([b'\xef\xbb\xbf{"id": 1}'], True).lines == [b'{"id": 1}']


@given(st.lists(st.lists(st.text(st.sampled_from('a"\n,; \r'), max_size=5), min_size=2, max_size=2), max_size=8))
def test_the_csv_writers_output_is_read(table: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["x", "y"], *table])
    shaped, found = rows(out.getvalue())
    expected = [{"x": json.loads(x) if _is_json(x) else x or None, "y": json.loads(y) if _is_json(y) else y or None}
                for x, y in table]  # fmt: skip
    assert not shaped.refused
    assert found == expected


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return text[0] not in " \r\n"


@pytest.mark.parametrize("text", [b"[", b'[{"id": 1},', b"  [1]"])
def test_an_array_is_no_json_lines(text: bytes) -> None:
    with pytest.raises(SourceUnreadable, match=r"one JSON array and not JSON lines; .*jq -c"):
        JsonLines("a.json").shape([text, b"]"], True)
    with pytest.raises(SourceUnreadable, match="one JSON array"):
        JsonLines("a.json").shape([b"", text], True)


@pytest.mark.parametrize(("line", "whole"), [(b'{"id": 1}', True), (b'{"id": 1', False), (b'{"id": "\xff"}', False)])
def test_a_json_line_is_complete_if_it_is_valid(line: bytes, whole: bool) -> None:
    shape = JsonLines("a")
    assert shape.ends_whole([line], shape.shape([line], False)) is whole


@pytest.mark.parametrize(("line", "whole"), [(b"1,2", True), (b"1", False), (b'1,"2', False)])
def test_a_row_is_complete_if_it_has_all_cells(line: bytes, whole: bool) -> None:
    shape, lines = Csv("a.csv"), [b"x,y", line]
    assert shape.ends_whole(lines, shape.shape(lines, False)) is whole


def test_texts_that_are_null() -> None:
    lines = [b"id,v,w", b"1,NA,x", b'2,"NULL",NA', b"3,,NAN", b'4,"""NA""",7']
    shaped = Csv("a.csv", nulls=["NA", "NULL", "7"]).shape(lines, True)
    found = [unpack_document(line) for line in shaped.lines]
    assert [doc["v"] for doc in found] == [None, None, None, "NA"]
    assert [doc["w"] for doc in found] == ["x", None, "NAN", None]


def test_a_column_of_numbers_with_one_text_is_named() -> None:
    lines = [
        b"id,delay,name,code,flag,none",
        b"1,7,Sue,A,true,",
        b"2,NA,Joe,1,NA,",
        b"3,1.5,Sam,B,,",
        b"4,NA,,2,,",
        b"5,,,,,",
    ]
    shape = Csv("a.csv")
    shape.shape(lines, True)
    assert shape.odd_columns() == [("delay", "NA")]


@pytest.mark.parametrize("digits", [4_300, 4_301, 5_000, 10_000])
def test_a_cell_of_many_digits_is_an_int(digits: int) -> None:
    _, [row] = rows(f"id,v\n1,{'7' * digits}\n")
    assert row["v"] == (10**digits - 1) // 9 * 7


def test_a_cell_of_too_many_digits_is_refused_with_its_row() -> None:
    shaped, found = rows(f"id,v\n1,{'7' * 10_001}\n2,{'[' * 20_000}\n3,x\n")
    assert shaped.refused == {1: "a number has more than 10,000 digits"}
    assert [row["id"] for row in found] == [2, 3]
