"""Columns of filtered fields, computed from the columns of plain fields.

Invariant: the column of a filtered field has the values that `FilteredField.of` gives one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.value_columns import condition
from penstock.views import FieldForm, FilteredField, Path, filtered_of, read_fields

Field = Path | None
Mask = NDArray[np.bool_]


def filtered_column(own: FilteredField, base: Column | None, kept: Mask | None, n: int) -> Column:
    """Return a filtered field from the column of its field and the rows that its condition keeps (None: all)."""
    if own.form is FieldForm.ONE or base is None:
        base = Column(np.ones(n, np.int64))
    elif own.form is not FieldForm.VALUE:
        rows: Any = zip(base.values(), [True] * n if kept is None else kept.tolist(), strict=True)
        return Column.of([own.formed(value) if here else None for value, here in rows])
    if kept is None or kept.all():
        return base
    kind = np.where(kept, base.kinds(), np.uint8(LaneKind.NULL)).astype(np.uint8, copy=False)
    objs = {i: value for i, value in base.objs.items() if kept[i]} if base.objs else {}
    return Column(np.where(kept, base.lane, 0), kind, objs)


def read_column(field: Field, fields: Container[Field], column_of: Callable[[Field], Column], n: int) -> Column:
    """Return a field of n contributions that keep the plain `fields`, None for their whole values among them.

    >>> amounts, paid = Column.of([5, 7]), Column.of([True, None])
    >>> kept = {("amount",): amounts, ("paid",): paid}
    >>> from penstock.views import field
    >>> where = FilteredField(("amount",), field("paid") == True)
    >>> read_column(where.path, kept, kept.__getitem__, 2).values()
    [5, None]
    """
    if field in fields:
        return column_of(field)
    own = filtered_of(field)
    if own is None or not all(plain in fields for plain in own.fields):
        return Column.of(read_fields(column_of(None).values(), field))
    kept = None if own.where is None else condition(own.where, lambda path: column_of(path).values(), n)
    return filtered_column(own, None if own.form is FieldForm.ONE else column_of(own.field), kept, n)
