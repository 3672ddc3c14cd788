"""How the tries of a view fold: contributions to the partials of its tree cells, values to how often they occur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Ints, Items
from penstock.views import Path, TreeCell, Values, reach

Field = Path | None
GroupOf = Callable[[int], Any]


def field_of(items: Items, fields: Sequence[Field], field: Field) -> Column:
    """A field of contributions that have these fields; those of a whole value are looked up in it."""
    if field in fields:
        return items.columns[fields.index(field)]
    assert field is not None, "what has no field is kept whole"
    return Column.of([reach(value, field) for value in items.columns[fields.index(None)].values()])


class LeafItems:
    """The contributions of leaves, as tree cells read them."""

    def __init__(self, items: Items, starts: Ints, places: Ints, fields: Sequence[Field], group_of: GroupOf) -> None:
        self._items = items
        self._starts = starts
        self._places = places
        self._columns: dict[Field, Column] = dict(zip(fields, items.columns))
        self._group_of = group_of

    @property
    def starts(self) -> Ints:
        """Where the contributions of each leaf begin."""
        return self._starts

    def column(self, field: Field) -> Column:
        """The values of a field."""
        found = self._columns.get(field)
        if found is None:
            found = self._columns[field] = field_of(self._items, tuple(self._columns), field)
        return found

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Who made the contributions at these indexes."""
        return self._items.take(at).sources()

    def groups(self) -> list[Any]:
        """The group of each leaf."""
        return [self._group_of(place) for place in self._places.tolist()]


class CellFolding:
    """Folds contributions by a view's tree cells."""

    def __init__(self, cells: Sequence[TreeCell], fields: Sequence[Field], group_of: GroupOf) -> None:
        self._cells = tuple(cells)
        self._fields = tuple(fields)
        self._group_of = group_of

    @property
    def partials(self) -> int:
        """One a cell."""
        return len(self._cells)

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The partials of leaves."""
        leaves = LeafItems(items, starts, places, self._fields, self._group_of)
        return tuple(_column(cell.fold(leaves)) for cell in self._cells)

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The partials of inner nodes."""

        def groups() -> list[Any]:
            return [self._group_of(place) for place in places.tolist()]

        return tuple(_column(cell.join(starts, column, groups)) for cell, column in zip(self._cells, columns))


class Tally:
    """Adds up how often the values of a node occur."""

    @property
    def partials(self) -> int:
        """The sum of the counts."""
        return 1

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The sums of leaves."""
        return (Column(np.add.reduceat(items.columns[0].lane, starts)),)

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The sums of inner nodes."""
        return (Column(np.add.reduceat(columns[0].lane, starts)),)


def _column(values: Values) -> Column:
    assert isinstance(values, Column), "cells fold columns to columns"
    return values
