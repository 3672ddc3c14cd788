"""Rows in every format."""

import csv
import json
from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.context import Context
from penstock.cli.json_values import loads
from penstock.cli.rows_output import FORMATS, OutputColumn, emit, print_outcome
from penstock.views import Counts, Rejection

TERMINAL = Context(terminal=True)


def written(rows: Any, columns: Any, format: str | None = None, ctx: Context | None = None) -> str:
    out = StringIO()
    assert emit(ctx or Context(), rows, columns, format, out) == len(rows)
    return out.getvalue()


ROWS = [("Joe", {"n": 2, "mean": 1.5}), (None, {"n": 1, "mean": None}), (("NO", 1), {"n": 30, "mean": 2.0})]
COLUMNS = ["key", OutputColumn("value", ("n", "mean"))]


def test_json_lines() -> None:
    assert written(ROWS, COLUMNS) == (
        '{"key": "Joe", "value": {"n": 2, "mean": 1.5}}\n'
        '{"key": null, "value": {"n": 1, "mean": null}}\n'
        '{"key": ["NO", 1], "value": {"n": 30, "mean": 2.0}}\n'
    )


def test_json_is_one_document() -> None:
    assert [list(row.values()) for row in json.loads(written(ROWS, COLUMNS, "json"))] == json.loads(json.dumps(ROWS))
    assert written([], COLUMNS, "json") == "[]\n"


def test_csv_has_a_header_and_a_column_for_each_field() -> None:
    assert written(ROWS, COLUMNS, "csv") == 'key,n,mean\nJoe,2,1.5\n,1,\n"[""NO"", 1]",30,2.0\n'
    assert written([], COLUMNS, "csv") == "key,n,mean\n"


def test_a_table_has_aligned_columns() -> None:
    shown = written(ROWS, COLUMNS, ctx=TERMINAL)
    assert shown == written(ROWS, COLUMNS, "table")
    assert shown.splitlines() == [
        "key         n  mean",
        "─────────  ──  ────",
        "Joe         2   1.5",
        "null        1  null",
        '["NO", 1]  30   2.0',
    ]
    assert written([], ["a", "b"], "table").splitlines() == ["a  b", "─  ─"]


def test_nothing_is_nothing_in_a_table_where_null_means_that() -> None:
    rows, columns = [("a", None), (None, 7)], ["group", OutputColumn("old", empty=True)]
    assert written(rows, columns, "table").splitlines()[2:] == ["a", "null     7"]
    assert written(rows, columns, "jsonl").splitlines()[0] == '{"group": "a", "old": null}'


def test_wide_characters_and_control_characters_in_a_table() -> None:
    shown = written([("日本", 1), ("\x1b[31mred\n", 2)], ["key", "n"], "table").splitlines()
    assert shown[2] == "日本" + " " * 11 + "1"
    assert shown[3] == "\\x1b[31mred\\n  2"


def test_a_long_cell_is_not_cut_and_widens_no_column() -> None:
    shown = written([("x" * 100, 1), ("y", 2)], ["key", "n"], "table").splitlines()
    assert shown[2] == "x" * 100 + "  1"
    assert shown[3] == "y" + " " * 59 + "  2"


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_written_as_they_come(format: str) -> None:
    out = StringIO()

    def rows() -> Iterator[tuple[int]]:
        for i in range(1000):
            if i > 200:
                assert str(i - 150) in out.getvalue(), "rows are gathered"
            yield (i,)

    assert emit(Context(), rows(), ["n"], format, out) == 1000


CELLS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]))
    | st.sampled_from(["7", "null", "-1", '"x"', "[1]", "{", "007", " 7", "true", ""])
    | st.lists(st.integers(), max_size=2)
)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_csv_comes_back_by_its_rule(rows: list[tuple[Any, Any]]) -> None:
    def value(cell: str) -> Any:
        if not cell:
            return None
        try:
            return loads(cell)
        except ValueError:
            return cell

    _, *back = csv.reader(StringIO(written(rows, ["a", "b"], "csv"), newline=""))
    assert [tuple(map(value, row)) for row in back if row] == rows


def test_decimals_and_bytes_in_cells() -> None:
    assert written([(Decimal("1.50"), b"\0")], ["a", "b"], "csv") == 'a,b\n1.50,"{""$bytes"": ""AA==""}"\n'


def test_counts_are_told_and_rejections_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_outcome(Context(), Counts(applied=1200, late=1)) == 0
    rejections = (Rejection("users", "line 3", "no key\x1b"),)
    assert print_outcome(Context(), Counts(rejected=5, held=1, rejections=rejections)) == 1
    out, err = capsys.readouterr()
    assert out == "1,200 applied, 1 late\n5 rejected; 1 held\n"
    assert err.splitlines()[:2] == ["rejected: users, line 3: no key\\x1b", "rejected: and 4 more"]
    assert err.splitlines()[2].startswith("held: ")
