"""The folding of a view's tries: contributions to partials of tree cells, values to their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.filtered_column import read_column
from penstock.mapreduce.columns.items import Ints, Items
from penstock.views import Path, TreeCell, ValueCell, Values

Field = Path | None
GroupOf = Callable[[int], Any]


def field_of(items: Items, fields: Sequence[Field], field: Field) -> Column:
    """Return one field of contributions. A field without its own column is read from others, or the whole value."""
    return read_column(field, fields, lambda own: items.columns[fields.index(own)], len(items))


class LeafItems:
    """The contributions of leaves, in the form in which tree cells read them."""

    def __init__(self, items: Items, starts: Ints, places: Ints, fields: Sequence[Field], group_of: GroupOf) -> None:
        self._items = items
        self._starts = starts
        self._places = places
        self._columns: dict[Field, Column] = dict(zip(fields, items.columns))
        self._group_of = group_of

    @property
    def starts(self) -> Ints:
        """Return the index of the first contribution of each leaf."""
        return self._starts

    def column(self, field: Field) -> Column:
        """Return the values of a field."""
        found = self._columns.get(field)
        if found is None:
            found = self._columns[field] = read_column(
                field, self._columns, self._columns.__getitem__, len(self._items)
            )
        return found

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Return the sources of the contributions at these indexes."""
        return self._items.take(at).sources()

    def groups(self) -> list[Any]:
        """Return the group of each leaf."""
        return [self._group_of(place) for place in self._places.tolist()]


class CellFolding:
    """The folding of contributions by a view's tree cells."""

    def __init__(self, cells: Sequence[TreeCell], fields: Sequence[Field], group_of: GroupOf) -> None:
        self._cells = tuple(cells)
        self._fields = tuple(fields)
        self._group_of = group_of

    @property
    def partials(self) -> int:
        """Return the number of partials: one per cell."""
        return len(self._cells)

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Fold leaves to partials."""
        leaves = LeafItems(items, starts, places, self._fields, self._group_of)
        return tuple(_column(cell.fold(leaves)) for cell in self._cells)

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Join the partials of children to those of inner nodes."""

        def groups() -> list[Any]:
            return [self._group_of(place) for place in places.tolist()]

        return tuple(_column(cell.join(starts, column, groups)) for cell, column in zip(self._cells, columns))


class ValueTally:
    """The folding of values: the sum of their counts per node, and the tally of a cell that has one."""

    def __init__(self, cell: ValueCell | None = None) -> None:
        self._cell = cell if cell is not None and cell.tallies else None

    @property
    def partials(self) -> int:
        """Return the number of partials."""
        return 1 if self._cell is None else 2

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Fold leaves: the values of one code are in one leaf."""
        count = Column(np.add.reduceat(items.columns[0].lane, starts))
        if self._cell is None:
            return (count,)
        values: list[bytes] = [] if items.text is None else items.text.tolist()
        ends = [*starts.tolist(), len(values)]
        return count, Column.of([self._cell.tallied(values[a:b]) for a, b in pairwise(ends)])

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Add the partials of children."""
        count = Column(np.add.reduceat(columns[0].lane, starts))
        if self._cell is None:
            return (count,)
        tallies = columns[1].values()
        ends = [*starts.tolist(), len(tallies)]
        return count, Column.of([self._cell.added(tallies[a:b]) for a, b in pairwise(ends)])


def _column(values: Values) -> Column:
    assert isinstance(values, Column), "cells fold columns to columns"
    return values
