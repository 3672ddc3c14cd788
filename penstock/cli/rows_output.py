"""Rows on standard output: as a table, JSON, JSON lines or CSV, streamed.

Without --format it is a table on a terminal and JSON lines elsewhere. Rows are written as they come. A table takes the
widths of its columns from its first rows, and holds no more rows than those. Invariants:

- JSON has a name for each column, in order. In tables and CSV text is unchanged, and all other values are JSON.
- A CSV cell reads back as its value: a JSON text as JSON, an empty cell as null, any other cell as text.
- With --safe a spreadsheet takes no text of CSV for a formula: such a text has a quote before it.
- No control character of a document reaches a terminal.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, wraps
from itertools import chain, islice
from typing import Any, TextIO, TypeVar, cast

import click

from penstock.cache import TooManyDigits
from penstock.cli.context import DONE, NO, Context
from penstock.cli.json_values import dumps, loads
from penstock.views import Counts

FORMATS = ("table", "json", "jsonl", "csv")
_F = TypeVar("_F", bound=Callable[..., Any])
SAFE_CSV = "safe csv"
"""The format of --format csv --safe, as commands get it."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a formula begins so in some spreadsheet
_LOOK_AHEAD = 100
_WIDEST = 60
_OF_JSON = (*'-0123456789"[{', "")  # first characters of JSON texts, and the empty text


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column. If `fields` is set, its values are maps, and tables and CSV show a column for each field.

    With `empty`, tables show null as an empty cell.
    """

    name: str
    fields: tuple[str, ...] = ()
    empty: bool = False

    @property
    def flat(self) -> tuple[str, ...]:
        """Return the names of its columns in tables and CSV."""
        return self.fields or (self.name,)

    def cells(self, value: Any) -> Iterable[Any]:
        """Return the values in these columns."""
        return [value.get(field) for field in self.fields] if isinstance(value, dict) and self.fields else (value,)


safe_option = click.option(
    "--safe", is_flag=True, help="In CSV write a quote before text that a spreadsheet takes for a formula."
)


def must_be_csv(kind: str | None) -> None:
    """Raise UsageError if --safe comes with another format."""
    if kind != "csv":
        raise click.UsageError("--safe is for CSV; add --format csv")


def formats(text: str) -> Callable[[_F], _F]:
    """Add the options --format and --safe to a command, as the parameter `format` of `emit`."""

    def add(function: _F) -> _F:
        @wraps(function)
        def call(*args: Any, format: str | None, safe: bool, **kwargs: Any) -> Any:
            if safe:
                must_be_csv(format)
            return function(*args, format=SAFE_CSV if safe else format, **kwargs)

        choice = click.option("--format", "format", type=click.Choice(FORMATS), help=text)
        return choice(safe_option(cast(_F, call)))

    return add


format_option = formats("The format of rows (a table on a terminal, else jsonl: a JSON object per line).")


def safe_text(text: str) -> str:
    """Return a text with a quote before it where a spreadsheet would take it for a formula.

    >>> safe_text("=1+1"), safe_text("Sue")
    ("'=1+1", 'Sue')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def emit(
    ctx: Context,
    rows: Iterable[Sequence[Any]],
    columns: Sequence[str | OutputColumn],
    format: str | None = None,
    out: TextIO | None = None,
) -> int:
    """Write rows, each with one value per column. Return the number of rows."""
    known = [OutputColumn(column) if isinstance(column, str) else column for column in columns]
    kind = format or ("table" if ctx.terminal else "jsonl")
    if kind == "table":
        return _table(rows, known, out or sys.stdout, ctx.color)
    return _WRITERS[kind](rows, known, out or sys.stdout)


def _json_lines(rows: Iterable[Sequence[Any]], columns: Sequence[OutputColumn], out: TextIO) -> int:
    return _write((text + "\n" for text in _objects(rows, columns)), out)


def _json(rows: Iterable[Sequence[Any]], columns: Sequence[OutputColumn], out: TextIO) -> int:
    return write_array(_objects(rows, columns), out)


def write_array(texts: Iterable[str], out: TextIO) -> int:
    """Write JSON texts as one array, one element per line. Return their number."""
    n = _write((f"{',' if i else '['}\n  {text}" for i, text in enumerate(texts)), out)
    out.write("\n]\n" if n else "[]\n")
    return n


def _write(parts: Iterable[str], out: TextIO) -> int:
    n = 0
    for part in parts:
        out.write(part)
        n += 1
    return n


def _objects(rows: Iterable[Sequence[Any]], columns: Sequence[OutputColumn]) -> Iterator[str]:
    names = [column.name for column in columns]
    for row in rows:
        yield dumps(dict(zip(names, row, strict=False)))


def _csv(rows: Iterable[Sequence[Any]], columns: Sequence[OutputColumn], out: TextIO, safe: bool = False) -> int:
    line, cell = _CsvLine(), _safe_cell if safe else _csv_cell
    writer = csv.writer(line, lineterminator="\n")

    def written(cells: Iterable[str]) -> str:
        writer.writerow(cells)
        return line.text

    names = [name for column in columns for name in column.flat]
    out.write(written(map(safe_text, names) if safe else names))
    body = (written(map(cell, _flat(row, columns))) for row in rows)
    return _write(body, out)


def _csv_cell(value: Any) -> str:
    """Return the cell of a value: null is empty, and text that would read back as another value is JSON.

    All values that aren't text are JSON too.
    """
    if value is None:
        return ""
    if type(value) is not str:
        return dumps(value)
    if value.strip()[:1] not in _OF_JSON and value not in ("null", "true", "false"):
        return value
    try:
        loads(value)
    except TooManyDigits:
        return dumps(value)
    except ValueError:
        return value if value else dumps(value)
    return dumps(value)


def _safe_cell(value: Any) -> str:
    return _csv_cell(safe_text(value) if type(value) is str else value)


class _CsvLine:
    """The last line that a CSV writer wrote."""

    text = ""

    def write(self, text: str) -> int:
        self.text = text
        return len(text)


def plain(value: Any) -> str:
    """Return a value as the text of a cell: text unchanged, else JSON."""
    return value if type(value) is str else dumps(value)


def _flat(row: Sequence[Any], columns: Sequence[OutputColumn]) -> list[Any]:
    out: list[Any] = []
    for column, value in zip(columns, row, strict=False):
        cells = list(column.cells(value))
        out += cells + [None] * (len(column.flat) - len(cells))
    return out


def _table(rows: Iterable[Sequence[Any]], columns: Sequence[OutputColumn], out: TextIO, color: bool) -> int:
    from rich.cells import cell_len

    names = [name for column in columns for name in column.flat]
    empty = [column.empty for column in columns for _ in column.flat]
    coming = (_flat(row, columns) for row in rows)
    first = list(islice(coming, _LOOK_AHEAD))
    right = [_is_numeric([row[i] for row in first]) for i in range(len(names))]
    texts = [_row_text(row, empty) for row in first]
    widths = [min(_WIDEST, max(map(cell_len, (name, *(row[i] for row in texts))))) for i, name in enumerate(names)]

    def line(cells: Sequence[str]) -> str:
        parts = [_padded(cell, widths[i] - cell_len(cell), right[i]) for i, cell in enumerate(cells)]
        return "  ".join(parts).rstrip() + "\n"

    out.write(click.style(line(names).rstrip(), bold=True) + "\n" if color else line(names))
    out.write("  ".join("─" * width for width in widths) + "\n")
    return _write(map(line, chain(texts, (_row_text(row, empty) for row in coming))), out)


def _row_text(row: Sequence[Any], empty: Sequence[bool]) -> list[str]:
    return ["" if value is None and empty[i] else cell_text(value) for i, value in enumerate(row)]


def _padded(cell: str, room: int, right: bool) -> str:
    space = " " * max(0, room)
    return space + cell if right else cell + space


def _is_numeric(values: Iterable[Any]) -> bool:
    """Test whether the values are numbers and nulls, with at least one number."""
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float, Decimal}


def cell_text(value: Any) -> str:
    """Return a value as people see it: text unchanged, else JSON. Characters that aren't printable are escaped."""
    text = plain(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def print_outcome(ctx: Context, counts: Counts) -> int:
    """Print the outcomes of records that were written. Return the exit code: NO if some were rejected."""
    ctx.say(str(replace(counts, rejections=())))
    for rejection in counts.rejections:
        click.echo(f"rejected: {cell_text(str(rejection))}", err=True)
    more = counts.rejected - len(counts.rejections)
    if counts.rejections and more > 0:
        click.echo(f"rejected: and {more:,} more", err=True)
    if counts.held:
        ctx.note("held: a view can't accept a stored document; `penstock status` shows the view and the reason")
    return NO if counts.rejected else DONE


_WRITERS: dict[str, Callable[[Iterable[Sequence[Any]], Sequence[OutputColumn], TextIO], int]] = {
    "json": _json,
    "jsonl": _json_lines,
    "csv": _csv,
    SAFE_CSV: partial(_csv, safe=True),
}
