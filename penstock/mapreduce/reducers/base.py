"""The base of all reducers: the field they read, their description, and their result over plain values.

A reducer is a plain description: frozen, comparable, and rebuilt from `describe()`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.cache import DefinitionError, PenstockError, ValueKind, encode_key, key_text, normalise
from penstock.mapreduce.columns.column import Column, Ints, LaneKind
from penstock.views import (
    TS,
    Accumulator,
    Cell,
    Field,
    FieldForm,
    FilteredField,
    GroupTotals,
    Need,
    Path,
    State,
    ValueCell,
    Where,
    as_where,
    is_accumulator,
    is_tree_cell,
    is_value_cell,
    parse_path,
    read_fields,
)


@dataclass(frozen=True, slots=True)
class BaseReducer(ABC):
    """A built-in reducer."""

    name: ClassVar[str]
    field: Path | None
    where: Where | None = dataclasses.field(default=None, kw_only=True)

    @property
    @abstractmethod
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells, which hold the state of a group."""

    @abstractmethod
    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the result of a group of n contributions from one state per cell."""

    def results(self, n: Ints, lanes: Sequence[Ints]) -> list[Any]:
        """Return the results of many groups without spills. `lanes` has for each cell one row per group."""
        size = len(n)
        cells = [list(map(tuple, cell.tolist())) if cell.shape[1] else [()] * size for cell in lanes]
        return [self.result(count, [(cell[i], None) for cell in cells]) for i, count in enumerate(n.tolist())]

    def describe(self) -> dict[str, object]:
        """The reducer as plain data, for `reducer_from`."""
        out: dict[str, object] = {"reducer": self.name, "field": None if self.field is None else list(self.field)}
        return out if self.where is None else {**out, "where": self.where.describe()}

    @property
    def reads(self) -> Path | None:
        """Return the field that cells read, which is null where the condition is false."""
        if self.where is None and self.form is FieldForm.VALUE:
            return self.field
        return FilteredField(self.field, self.where, self.form).path

    @property
    def form(self) -> FieldForm:
        """Return the form in which cells read values."""
        return FieldForm.VALUE

    def over(self, values: Iterable[object]) -> Any:
        """Return the result over these values, or over this reducer's field of these documents.

        The documents count as having the keys 0, 1, 2 … and no ts.

        >>> import penstock as ps
        >>> ps.mean("amount").over([{"amount": 1}, {"amount": 2}, {}])
        1.5
        """
        node = _Node([normalise(v) for v in values])
        return self.result(node.n, [self._state(cell, node) for cell in self.cells])

    def _state(self, cell: Cell, node: _Node) -> State:
        column = node.column(cell.field)
        if cell.need is Need.NUMBER and column.kind is not None and (column.kind == LaneKind.OTHER).any():
            wrong = column.objs[int(np.argmax(column.kind == LaneKind.OTHER))]
            if self.form is FieldForm.FLAG:
                raise ValueKind(wrong[0], ".".join(self.field or ()), f"{self.name} takes true and false")
            raise ValueKind(wrong, ".".join(self.field or ()), f"{self.name} takes int, float and Decimal")
        if is_accumulator(cell):
            return _accumulated(cell, column)
        if is_value_cell(cell):
            return (), _answered(cell, column)
        assert is_tree_cell(cell), "there are three kinds of cells"
        partial = cell.fold(node).values()[0] if node.n else None
        error = cell.failed(partial)
        if error is not None:
            raise PenstockError(f"{self.name}: {error}")
        return (), cell.state(partial)


class _Node:
    """Values in the form of the contributions of a single tree node."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.n = len(values)

    @property
    def starts(self) -> Ints:
        return np.zeros(1, np.int64)

    def column(self, field: Path | None) -> Column:
        if field == TS:
            return Column.nulls(self.n)
        return Column.of(read_fields(self._values, field))

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        return [(encode_key(i), 0) for i in at.tolist()]

    def groups(self) -> list[Any]:
        return [None]


def _accumulated(cell: Accumulator, column: Column) -> State:
    none = cell.batch(np.zeros(0, np.int64), 1, Column.nulls(0))
    plus = cell.batch(np.zeros(len(column), np.int64), 1, column)
    totals = cell.update(GroupTotals.none(cell.lanes, 1), plus, none)
    for error in totals.errors.values():
        raise error
    return totals.state(0)


def _answered(cell: ValueCell, column: Column) -> list[Any] | None:
    found = [entry for entry in cell.entries(column) if entry is not None]
    if cell.tallies:
        return cell.answer(len(found), len(set(found)), [cell.tallied([data for _, data in set(found)])])
    found.sort(key=lambda entry: (entry[0], cell.sort_key(entry[1])))
    places = cell.asked(len(found))
    return cell.answer(len(found), len(set(found)), [found[place][1] for place in places])


Condition = str | Where | Field
"""A condition of a reducer: a path whose field must be true, or an expression."""


def where_of(where: Condition | None) -> Where | None:
    """Return the condition under which a reducer reads values."""
    return None if where is None else as_where(where)


def nulls_of(nulls: object, reducer: str) -> bool:
    """Check the option that makes null count."""
    if not isinstance(nulls, bool):
        raise DefinitionError(f"nulls= of {reducer}() is {key_text(nulls)}; write True to count nulls, or leave it out")
    return nulls


def by_of(by: str | None, reducer: str) -> Path | None:
    """Parse the name of the field that orders the values of a reducer."""
    return None if by is None else parse_path(by, f"by= of {reducer}()")


def field_of(f: str | None, reducer: str) -> Path | None:
    """Parse the name of the field that a reducer reads."""
    return None if f is None else parse_path(f, f"the field of {reducer}()")
