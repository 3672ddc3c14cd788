"""Documents and rows as columns of CSV and Parquet, written as a stream.

A first pass over the same snapshot finds the columns, so that only a few rows are in memory. Invariants:

- CSV reads back as the same values, with three exceptions. An absent field becomes null, Decimals become numbers, and
  with `safe` some texts have a quote before them.
- A column of Parquet has a type if all its values have one. A column with several types, lists or maps is JSON.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, BinaryIO

from penstock.cache import MissingExtra, TooManyDigits
from penstock.cli.context import WRONG
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, loads
from penstock.cli.rows_output import safe_text

__all__ = ["FileColumns", "write_csv", "write_parquet"]

_MOST = 10_000  # columns
_ROWS = 4096  # that are written together
_EXACT = 1 << 53  # up to which a float holds every int
_DIGITS = 38
_JSON_FIRST = frozenset(' -0123456789"[{tfn')  # first characters of JSON texts
Row = dict[str, Any]


@dataclass(slots=True)
class ColumnKinds:
    """The kinds of values in a column."""

    kinds: set[type] = field(default_factory=set)
    whole: int = 0  # digits before the point of its numbers
    part: int = 0  # and after it
    wide: bool = False  # an int that no float holds
    huge: bool = False  # an int of more than 64 bits

    def see(self, value: Any) -> None:
        """Add a value."""
        kind = type(value)
        self.kinds.add(kind)
        if kind is int:
            self.wide = self.wide or not -_EXACT <= value <= _EXACT
            self.huge = self.huge or not -(1 << 63) <= value < 1 << 63
            self.whole = max(self.whole, len(str(value)) if not self.huge else _DIGITS + 1)
        elif kind is Decimal:
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int), "Decimals are finite"
            self.part = max(self.part, -exponent)
            self.whole = max(self.whole, value.adjusted() + 1, 1)


@dataclass(slots=True)
class FileColumns:
    """The columns of the rows, in order of first use. The given ones come first."""

    seen: dict[str, ColumnKinds]

    @classmethod
    def of(cls, rows: Iterable[Row], first: Iterable[str], typed: bool) -> FileColumns:
        """Return the columns of these rows. Values are examined only if the columns are `typed`."""
        columns = cls({name: ColumnKinds() for name in first})
        for row in rows:
            for name, value in row.items():
                known = columns.seen.get(name)
                if known is None:
                    known = columns.seen[name] = ColumnKinds()
                    if len(columns.seen) > _MOST:
                        raise ExitError(
                            f"there are more than {_MOST:,} different fields; export with --format jsonl", WRONG
                        )
                if typed:
                    known.see(value)
        return columns


def write_csv(
    out: BinaryIO, columns: FileColumns, rows: Iterable[Row], tell: Callable[[int], None], safe: bool = False
) -> None:
    """Write rows with a header. With `safe` a spreadsheet takes no text for a formula."""
    cell = _safe_cell if safe else _cell
    text = io.TextIOWrapper(out, "utf-8", newline="", write_through=False)
    writer = csv.writer(text, lineterminator="\n")
    names = list(columns.seen)
    writer.writerow(map(safe_text, names) if safe else names)
    for part in _parts(rows):
        writer.writerows([[cell(row.get(name)) for name in names] for row in part])
        tell(len(part))
    text.flush()
    text.detach()


def _cell(value: Any) -> str:
    """Return the cell that reads back as this value: text is unchanged unless it would read back as another value.

    >>> _cell("Sue"), _cell("7"), _cell(7), _cell(""), _cell(None)
    ('Sue', '"7"', '7', '""', '')
    """
    if value is None:
        return ""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return str(value)
    if type(value) is not str:
        return dumps(value)
    if value and value.isprintable():
        if value[0] not in _JSON_FIRST:
            return value
        try:
            loads(value)
        except TooManyDigits:
            return dumps(value)
        except (ValueError, RecursionError):
            return value
    return dumps(value)


def _safe_cell(value: Any) -> str:
    """Return the cell of a value, with a quote before text that a spreadsheet would take for a formula.

    >>> _safe_cell("=1+1"), _safe_cell(-1), _safe_cell("Sue"), _safe_cell([-1])
    ("'=1+1", '-1', 'Sue', '[-1]')
    """
    return _cell(safe_text(value) if type(value) is str else value)


def write_parquet(out: BinaryIO, columns: FileColumns, rows: Iterable[Row], tell: Callable[[int], None]) -> None:
    """Write rows in row groups, each column with its type."""
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
    kinds = {name: _arrow_type(arrow, seen) for name, seen in columns.seen.items()}
    schema = arrow.schema([(name, kind or arrow.string()) for name, kind in kinds.items()])
    with parquet.ParquetWriter(out, schema) as writer:
        for part in _parts(rows):
            arrays = [
                arrow.array([_value(row.get(name), kind is None) for row in part], schema.field(name).type)
                for name, kind in kinds.items()
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
            tell(len(part))


def _arrow_type(arrow: Any, seen: ColumnKinds) -> Any:
    """Return the type of a column, or None if it is JSON."""
    kinds = seen.kinds - {type(None)}
    if kinds == {bool}:
        return arrow.bool_()
    if kinds == {int} and not seen.huge:
        return arrow.int64()
    if kinds == {float} or (kinds == {int, float} and not seen.wide):
        return arrow.float64()
    if kinds in ({Decimal}, {Decimal, int}) and seen.whole + seen.part <= _DIGITS:
        return arrow.decimal128(max(1, seen.whole + seen.part), seen.part)
    if kinds == {bytes}:
        return arrow.binary()
    return arrow.string() if kinds <= {str} else None


def _value(value: Any, json: bool) -> Any:
    return dumps(value) if json and value is not None else value


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    source = iter(rows)
    while part := list(islice(source, _ROWS)):
        yield part
