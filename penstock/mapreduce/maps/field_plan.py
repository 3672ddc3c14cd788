"""The fields, groups and conditions that the views of one source need, each listed once.

Views that group by the same fields share one dictionary of groups and one column of codes. Views that read the same
field share one column of values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.mapreduce.columns.group_codes import Codes, Groups, TupleGroups
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.views import (
    TS,
    Cell,
    FieldForm,
    FieldMap,
    FilteredField,
    FunctionMap,
    Key,
    Need,
    Path,
    SideView,
    View,
    Where,
    filtered_of,
    is_accumulator,
    is_tree_cell,
    plain_fields,
    under,
)

_KNOWN = 256
"""The number of views with cached needs. Each opening uses the same view objects, and they never change."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """The fields to decode from the documents of a source, and their uses."""

    key: Key
    ts: Path | None
    groups: tuple[Key, ...]
    group_paths: tuple[Path, ...]
    inputs: dict[Path, bool]  # path -> whether values that are no numbers are kept
    wheres: tuple[Where, ...]
    functions: bool
    paths: tuple[Path, ...]

    @property
    def whole(self) -> bool:
        """Return True if a view reads whole documents as values."""
        return () in self.inputs

    @classmethod
    def of(cls, key: Key, ts: Path | None, views: Iterable[View]) -> FieldPlan:
        """Make the plan for a source with this key and these views."""
        return _plan_of(key, ts, tuple(views))


@lru_cache(maxsize=_KNOWN)
def _plan_of(key: Key, ts: Path | None, views: tuple[View, ...]) -> FieldPlan:
    groups: dict[Key, None] = {}
    inputs: dict[Path, bool] = {}
    wheres: dict[Where, None] = {}
    functions = False
    for view in views:
        if isinstance(view.map, FunctionMap):
            functions = True
            continue
        groups[view.map.key] = None
        if isinstance(view, SideView) and view.checked is not None:
            groups[view.checked] = None
        if view.map.where is not None:
            wheres[view.map.where] = None
        wheres.update((own.where, None) for own in filtered_reads(view, view.map).values() if own.where is not None)
        for path, keep in field_inputs(view, view.map).items():
            inputs[path] = inputs.get(path, False) or keep
    group_paths = tuple(dict.fromkeys(path for group in groups for path in group.paths))
    where_paths = [path for where in wheres for path in where.paths()]
    own = [] if ts is None else [ts]
    paths = tuple(dict.fromkeys([*key.paths, *own, *group_paths, *inputs, *where_paths]))
    return FieldPlan(key, ts, tuple(groups), group_paths, inputs, tuple(wheres), functions, paths)


def cell_fields(cell: Cell) -> tuple[Path | None, ...]:
    """Return the fields of a value that a cell reads, without the ts of the document."""
    beside = cell.beside if is_tree_cell(cell) else ()
    return (cell.field, *(path for path in beside if path != TS))


@lru_cache(maxsize=_KNOWN)
def keeps_contributions(view: View) -> bool:
    """Return True if a view keeps contributions: by its definition, or if a reducer has no inverse."""
    cells = [cell for reducer in resolved(view.reducers) for cell in reducer.cells]
    return view.sources or view.index or not all(is_accumulator(cell) for cell in cells)


@lru_cache(maxsize=_KNOWN)
def value_fields(view: View) -> tuple[Path | None, ...]:
    """Return the plain fields of values that contributions carry, and None (the whole value) if they keep values.

    Kept contributions carry all plain fields of filtered ones. Others carry the filtered fields alone.
    """
    if isinstance(view, SideView):
        return view.projection
    fields: dict[Path | None, None] = {}
    kept = keeps_contributions(view)
    for field in _all_fields(view):
        if kept or filtered_of(field) is None:
            fields.update(dict.fromkeys(plain_fields(field)))
    if isinstance(view.map, FieldMap) and view.map.value is not None and kept:
        fields[None] = None
    return tuple(fields)


def _all_fields(view: View) -> dict[Path | None, None]:
    """Return all fields that cells read, plain and filtered ones."""
    cells = [cell for reducer in resolved(view.reducers) for cell in reducer.cells]
    return dict.fromkeys(field for cell in cells for field in cell_fields(cell))


def filtered_reads(view: View, fields: FieldMap) -> dict[Path, FilteredField]:
    """Return the filtered fields that cells of a field view read, each as a filtered field of the document."""
    out: dict[Path, FilteredField] = {}
    for field in _all_fields(view):
        own = filtered_of(field)
        if field is None or own is None:
            continue
        path = None if own.reads_nothing else fields.path_of(own.field)
        out[field] = FilteredField(path, None if own.where is None else under(own.where, fields.value or ()), own.form)
    return out


def field_inputs(view: View, fields: FieldMap) -> dict[Path, bool]:
    """Return the document paths of the values of a field view, and for each if non-numbers are kept."""
    out: dict[Path, bool] = {}
    kept = keeps_contributions(view)
    cells = [cell for reducer in resolved(view.reducers) for cell in reducer.cells if cell.need is Need.VALUE]
    wants = {field for cell in cells for field in cell_fields(cell)}
    for field in value_fields(view):
        path = fields.path_of(field)
        assert path is not None, "checked when the view was defined"
        out[path] = out.get(path, False) or kept or field in wants
    for field, own in filtered_reads(view, fields).items():
        if own.field is not None:
            out[own.field] = out.get(own.field, False) or kept or field in wants or own.form is not FieldForm.VALUE
    return out


class Spaces:
    """The dictionaries of groups of the field views of one source."""

    __slots__ = ("_parts", "_tuples")

    def __init__(self) -> None:
        self._parts: dict[Path, Groups] = {}
        self._tuples: dict[Key, TupleGroups] = {}

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        parts, tuples = list(self._parts.values()), list(self._tuples.values())  # others may add to them meanwhile
        return sum(g.nbytes for g in parts) + sum(t.nbytes for t in tuples)

    def part(self, path: Path) -> Groups:
        """Return the dictionary of one field."""
        groups = self._parts.get(path)
        if groups is None:
            groups = self._parts[path] = Groups()
        return groups

    def groups(self, key: Key) -> Groups:
        """Return the dictionary of the groups of a view."""
        return self.part(key.paths[0]) if key.single else self.tuples(key).groups

    def codes(self, key: Key, parts: dict[Path, Codes], n: int) -> Codes:
        """Return the codes of the groups of a view, from the codes of the fields."""
        if key.single:
            return parts[key.paths[0]]
        if not key.paths:
            return np.full(n, self.tuples(key).groups.code(()), np.int32)
        return self.tuples(key).combine([parts[path] for path in key.paths])

    def tuples(self, key: Key) -> TupleGroups:
        """Return the dictionary of groups of several fields."""
        found = self._tuples.get(key)
        if found is None:
            found = self._tuples[key] = TupleGroups([self.part(path) for path in key.paths])
        return found
