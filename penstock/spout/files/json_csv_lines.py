"""Convert lines to records: lines of JSON stay unchanged, rows of CSV become documents.

A shape gets complete lines and reports how many of them it used. Invariants:

- each record is parsed alone. A broken record is refused with its line, and does not affect the lines after it;
- a row of CSV may span lines. Its place is the line where it begins;
- a block of lines without such rows is converted by columns, to the same documents.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from penstock.cache import MAX_DIGITS, PenstockError, RowPacker, TooManyDigits, decode_json, pack_document
from penstock.gateway import Form, ReceivedRecord
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.csv_columns import BLOCK, MOST_CELLS, CellValues, cells_of
from penstock.spout.files.streams import packing_in

_BOM = b"\xef\xbb\xbf"
_ZIP = b"PK\x03\x04"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON_FIRST = frozenset('0123456789-"[{tfn')
_DELIMITERS = ",\t;|"
_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class LineRecords:
    """The records from `used` lines. The lines in `skips` gave no record."""

    lines: list[bytes]
    used: int
    skips: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    received: dict[int, ReceivedRecord] = field(default_factory=dict)  # the bytes of refused lines
    columns: list[list[Any]] | None = field(default_factory=list)  # the values of all records, or None


class LineFormat(Protocol):
    """A format of lines."""

    raw: bool
    columns: tuple[str, ...] | None

    def begin(self, first: list[bytes]) -> None:
        """Read the first lines of the file, if reading starts after them."""
        ...

    def shape(self, lines: list[bytes], last: bool) -> LineRecords:
        """Convert lines to records. If these are the `last` lines of the file, all of them are used."""
        ...

    def ends_whole(self, lines: list[bytes], shaped: LineRecords) -> bool:
        """Return whether the last of these lines, which has no line feed, may be complete."""
        ...


class JsonLines:
    """One JSON object per line."""

    raw = True
    columns: tuple[str, ...] | None = None

    def __init__(self, name: str, arrays: bool = False) -> None:
        self._name = name
        self._arrays = arrays  # whether a line may be a JSON array
        self._begun = False

    def begin(self, first: list[bytes]) -> None:
        """Note that the file has begun. JSON lines have no header."""
        self._begun = True

    def shape(self, lines: list[bytes], last: bool) -> LineRecords:
        """Return the lines unchanged."""
        if not self._begun and lines:
            self._begun = True
            first = text_of_first(self._name, lines[0])
            opening = next((line for line in map(bytes.strip, (first, *lines[1:])) if line), b"")
            if opening.startswith(b"[") and not self._arrays:
                remedy = "write each document on a line of its own, as `jq -c '.[]'` does"
                raise SourceUnreadable(self._name, "it is one JSON array and not JSON lines", remedy)
            if first is not lines[0]:
                lines = [first, *lines[1:]]
        return LineRecords(lines, len(lines))

    def ends_whole(self, lines: list[bytes], shaped: LineRecords) -> bool:
        """Return whether the last line is valid JSON."""
        try:
            _decode(lines[-1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        return True


def text_of_first(name: str, line: bytes) -> bytes:
    """Return the first line without its byte order mark. Raise SourceUnreadable if the file is no UTF-8 text."""
    if line.startswith(_UTF16):
        raise SourceUnreadable(name, "it is UTF-16 text", "make UTF-8 of it, as `iconv -f UTF-16 -t UTF-8` does")
    packing = packing_in(line)
    if line.startswith(_ZIP):
        remedy = f"unpack it, as in `unzip -p {name} | penstock load TABLE -`"
        raise SourceUnreadable(name, "it is a zip archive", remedy)
    kind = "parquet" if line.startswith(b"PAR1") else packing and f"jsonl.{packing}"
    if kind:
        raise SourceUnreadable(name, "it is no text", f"it may be read with --format-in {kind}")
    return line.removeprefix(_BOM)


class Csv:
    """Comma-separated values. The first row names the fields.

    A cell that is JSON has that value (7, 1.5, true, null, "07", [1, 2]). An empty cell is null. Any other cell is
    text. So 007 and 2024-01-31 are text, and text that looks like a number is written as JSON text. A cell in `nulls`
    is null too. Without `delimiter` the first of comma, tab, semicolon and bar in the first row is used.
    """

    raw = False

    def __init__(self, name: str, delimiter: str | None = None, nulls: Collection[str] = ()) -> None:
        self._name = name
        self._delimiter = delimiter
        self._nulls = frozenset(nulls)
        self._sample: list[list[Any]] = []  # the values of the first rows
        self._packer: RowPacker | None = None
        self._values: list[CellValues] = []
        self.columns: tuple[str, ...] | None = None

    def begin(self, first: list[bytes]) -> None:
        """Read the names of the fields."""
        self._head(first, last=True)

    def shape(self, lines: list[bytes], last: bool) -> LineRecords:
        """Convert rows to documents."""
        out = LineRecords([], 0)
        if self.columns is None:
            out.used = self._head(lines, last)
            out.skips += range(out.used)
            if not out.used:
                return out
        while out.used < len(lines):
            until = min(out.used + BLOCK, len(lines))
            if not self._block(lines[out.used : until], out) and not self._rows(lines, last, out, until):
                break
        return out

    def ends_whole(self, lines: list[bytes], shaped: LineRecords) -> bool:
        """Return whether the last row has a cell for each field."""
        return shaped.used == len(lines) and shaped.used - 1 not in shaped.refused

    def odd_columns(self) -> list[tuple[str, str]]:
        """Return the columns whose first values are numbers except for one text, each with that text."""
        out: list[tuple[str, str]] = []
        for name, values in zip(self.columns or (), zip(*self._sample, strict=True), strict=False):
            texts = {value for value in values if type(value) is str}
            kinds = set(map(type, values)) - {str, type(None)}
            if len(texts) == 1 and kinds and kinds <= {int, float}:
                out.append((name, texts.pop()))
        return out

    def _head(self, lines: list[bytes], last: bool) -> int:
        if not lines:
            return 0
        first = text_of_first(self._name, lines[0])
        if self._delimiter is None:
            self._delimiter = next((d for d in _DELIMITERS if d.encode() in first), ",")
        feed = _Feed([first, *lines[1:]], 0)
        try:
            row = next(csv.reader(feed, delimiter=self._delimiter, strict=True))
            "".join(row).encode()
        except csv.Error as error:
            if not last and feed.at == len(lines):
                return 0
            raise SourceUnreadable(self._name, f"its first row can't be read ({error})", _HEAD) from error
        except UnicodeEncodeError as error:
            raise SourceUnreadable(self._name, "its first row is no UTF-8", _HEAD) from error
        twice = next((name for name, times in Counter(row).items() if times > 1), None)
        if twice is not None:
            raise SourceUnreadable(self._name, f"two of its columns are named {twice!r}", "give each a name of its own")
        if not row:
            raise SourceUnreadable(self._name, "its first row is empty", _HEAD)
        self.columns = tuple(row)
        return feed.at

    def _block(self, lines: list[bytes], out: LineRecords) -> bool:
        """Convert lines as columns. Return False if they must be converted row by row."""
        assert self.columns is not None
        assert self._delimiter is not None
        cells = cells_of(lines, self._delimiter, len(self.columns))
        if cells is None:
            return False
        if self._packer is None:
            self._packer = RowPacker(self.columns)
            self._values = [CellValues(self._value) for _ in self.columns]
        try:
            values = [known.of(column, self._nulls) for known, column in zip(self._values, cells, strict=True)]
        except (PenstockError, TooManyDigits):
            return False
        packed = self._packer.lines(values)
        if packed is None:
            return False
        if len(self._sample) < _SAMPLE:
            self._sample += map(list, zip(*values, strict=True))
        if out.columns is not None:
            out.columns = out.columns or [[] for _ in values]
            if (len(out.lines) + len(packed)) * len(values) > MOST_CELLS or len(out.columns[0]) < len(out.lines):
                out.columns = None
            else:
                for column, more in zip(out.columns, values, strict=True):
                    column += more
        out.lines += packed
        out.used += len(lines)
        return True

    def _value(self, cell: str) -> Any:
        return None if cell in self._nulls else _cell(cell)

    def _rows(self, lines: list[bytes], last: bool, out: LineRecords, until: int) -> bool:
        """Convert rows up to a broken one, or up to this line. Return False if the last row has no end yet."""
        out.columns = None
        columns, start = self.columns, out.used
        assert columns is not None
        assert self._delimiter is not None
        feed, n = _Feed(lines, start), len(columns)
        add = out.lines.append
        try:
            for row in csv.reader(feed, delimiter=self._delimiter, strict=True):
                if len(row) == n:
                    values = list(map(self._value, row))
                    add(pack_document(dict(zip(columns, values))))
                    if len(self._sample) < _SAMPLE:
                        self._sample.append(values)
                    if feed.at > start + 1:
                        out.skips += range(start + 1, feed.at)
                elif row:
                    self._refuse(out, lines, f"it has {len(row)} cells, and the first row has {n}")
                    return True
                else:
                    out.skips.append(start)
                start = out.used = feed.at
                if start >= until:
                    break
        except csv.Error as error:
            if feed.at == len(lines) and not last and "unexpected end" in str(error):
                return False
            self._refuse(out, lines, f"it is no row of CSV: {error}")
        except (PenstockError, TooManyDigits) as error:
            self._refuse(out, lines, "it is no UTF-8" if _is_undecoded(lines[start : feed.at]) else str(error), feed.at)
            out.skips += range(start + 1, feed.at)
            out.used = feed.at
        return True

    @staticmethod
    def _refuse(out: LineRecords, lines: list[bytes], reason: str, end: int | None = None) -> None:
        """Refuse only the line where a broken row begins, because the lines that it swallowed may be valid rows."""
        start = out.used
        out.refused[start] = reason
        out.received[start] = ReceivedRecord.made(Form.TEXT, b"\n".join(lines[start : end or start + 1]))
        out.skips.append(start)
        out.used = start + 1


_SAMPLE = 10_000  # rows
_HEAD = "the first row names the columns"


class _Feed:
    """Lines as text. `at` counts the lines that were taken."""

    def __init__(self, lines: list[bytes], at: int) -> None:
        self._lines = lines
        self.at = at

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.at >= len(self._lines):
            raise StopIteration
        line = self._lines[self.at]
        self.at += 1
        return line.decode("utf-8", "surrogateescape") + "\n"


def _cell(text: str) -> Any:
    if not text:
        return None
    if text[0] in _JSON_FIRST:
        try:
            return _decode(text) if len(text) <= MAX_DIGITS else decode_json(text)
        except msgspec.ValidationError:  # a number that msgspec refuses
            return _number(text)
        except TooManyDigits:
            raise
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return text
    return text


def _number(text: str) -> Any:
    """Parse a JSON int beyond 64 bits. A float out of range stays text."""
    try:
        return decode_json(text)
    except TooManyDigits:
        raise
    except ValueError:
        return text


def _is_undecoded(lines: list[bytes]) -> bool:
    try:
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return True
    return False
