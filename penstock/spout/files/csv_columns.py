"""Blocks of CSV as columns of cells and of values, if each line of a block is one whole row.

Any other block gives None, and is read row by row. Both ways give the same documents. Invariants:

- a block is valid UTF-8, and each of its lines has the same number of cells;
- numbers of a column are decoded together, as one JSON array. A cell can't join or split elements of it, since it holds
  only characters of numbers, and the number of elements is checked.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.cache import MAX_DIGITS

BLOCK = 1024
"""The number of lines of a block."""
MOST_CELLS = 1 << 19
"""The number of cells of a batch up to which their values are kept for the decoder."""
_NUMERIC = b"0123456789-+.eE,"
_KNOWN = 1 << 16  # cells that are remembered with their values
_LONG = 64  # characters of a cell that is not remembered
_SCALARS = frozenset({str, int, float, bool, type(None)})
_decode = msgspec.json.Decoder().decode


def cells_of(lines: Sequence[bytes], delimiter: str, n: int) -> list[Sequence[str]] | None:
    """Return the cells of these lines by column. Return None unless each line is a row of n cells."""
    if max(map(len, lines)) > csv.field_size_limit():
        return None
    try:
        text = b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return None
    if '"' in text or "\r" in text or delimiter == "\n":
        try:
            rows = list(csv.reader(text.split("\n"), delimiter=delimiter, strict=True))
        except (csv.Error, ValueError, TypeError):
            return None
        if len(rows) != len(lines) or set(map(len, rows)) != {n}:
            return None
        return list(zip(*rows, strict=True))
    cells = text.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
    step = n + 1
    if len(cells) != step * len(lines) - 1 or cells[n::step].count("\n") != len(lines) - 1:
        return None
    if n == 1 and "" in cells:
        return None  # a blank line is no row
    return [cells[i::step] for i in range(n)]


class CellValues(dict[str, Any]):
    """The values of the cells of one column: `value_of` converts a cell that is not remembered."""

    __slots__ = ("_value_of",)

    def __init__(self, value_of: Callable[[str], Any]) -> None:
        self._value_of = value_of

    def __missing__(self, cell: str) -> Any:
        value = self._value_of(cell)
        if len(self) < _KNOWN and len(cell) <= _LONG and type(value) in _SCALARS:
            self[cell] = value
        return value

    def of(self, cells: Sequence[str], nulls: frozenset[str]) -> list[Any]:
        """Return the values of cells. Raise an error of `value_of`."""
        if cells[0][:1] in _STARTS and nulls.isdisjoint(cells):
            numbers = _numbers(cells)
            if numbers is not None:
                return numbers
        return list(map(self.__getitem__, cells))


_STARTS = frozenset("0123456789-") | {""}


def _numbers(cells: Sequence[str]) -> list[Any] | None:
    """Decode cells that are numbers or empty. Return None if they are anything else."""
    joined = ",".join(cells)
    if not joined.isascii() or joined.encode().translate(None, _NUMERIC):
        return None
    if len(joined) > MAX_DIGITS and max(map(len, cells)) > MAX_DIGITS:
        return None
    if "" in cells:
        joined = ",".join([cell or "null" for cell in cells])
    try:
        values: list[Any] = _decode(f"[{joined}]")
    except msgspec.MsgspecError:
        return None
    return values if len(values) == len(cells) else None
