"""A few documents as plain Python values: the counterpart of columns for small batches.

A column has a fixed cost: one row costs as much as a hundred, and a batch needs many columns. Invariant: the plain form
gives the same codes, in the same order, and the same values as the columnar form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import KeyKind, KeyTooLong
from penstock.mapreduce.columns.column import LaneKind, lane_of
from penstock.mapreduce.columns.group_codes import BAD, Groups, TupleGroups
from penstock.mapreduce.fold.small_fold import FewContributions
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.mapreduce.view_node import ViewNode
from penstock.views import FilteredField, Path, reach

_PLAIN = frozenset({int, str, type(None)})


@dataclass(slots=True)
class DocumentFields:
    """The inputs of field views from one document, in the order of the plan: group codes, values, conditions.

    True stands for a value that is not a number, if no view needs the value itself. Columns do the same.
    """

    codes: list[int]
    values: list[Any]
    conditions: list[bool]

    def may_equal(self, other: DocumentFields) -> bool:
        """Return False if an input of field views shows that the documents differ."""
        return (
            self.codes == other.codes
            and self.conditions == other.conditions
            and all(map(_may_equal, self.values, other.values))
        )


def _may_equal(a: Any, b: Any) -> bool:
    """Compare ints, texts and nulls; other values count as equal, and the documents must be compared."""
    return type(a) not in _PLAIN or type(b) not in _PLAIN or a == b


class DocumentReader:
    """The reader of documents, one by one, for the field views of one table."""

    def __init__(self, plan: FieldPlan, spaces: Spaces) -> None:
        self._parts = [(path, spaces.part(path)) for path in plan.group_paths]
        places = {path: i for i, path in enumerate(plan.group_paths)}
        self._groups: list[tuple[TupleGroups | None, tuple[int, ...]]] = [
            (None if key.single else spaces.tuples(key), tuple(places[path] for path in key.paths))
            for key in plan.groups
        ]
        self._inputs = tuple(plan.inputs.items())
        self._wheres = plan.wheres

    def read(self, documents: Sequence[dict[str, Any]]) -> list[DocumentFields]:
        """Return the inputs of field views from each of these documents.

        Groups of several fields get their codes in the same order as in columns, by the codes of their parts.
        """
        parts = [[_code(groups, _at(document, path)) for path, groups in self._parts] for document in documents]
        own: list[list[int]] = []
        for tuples, at in self._groups:
            if tuples is None:
                own.append([row[at[0]] for row in parts])
            else:
                rows = [tuple([row[i] for i in at]) for row in parts]
                known = {row: tuples.code(row) for row in sorted(set(rows))}
                own.append([known[row] for row in rows])
        codes = list(map(list, zip(*own, strict=True))) if own else [[] for _ in documents]
        return [
            DocumentFields(codes[i], self._values(document), self._conditions(document))
            for i, document in enumerate(documents)
        ]

    def _values(self, document: dict[str, Any]) -> list[Any]:
        out: list[Any] = []
        for path, keep in self._inputs:
            value = _at(document, path)
            out.append(value if keep or _kind(value) is not LaneKind.OTHER else True)
        return out

    def _conditions(self, document: dict[str, Any]) -> list[bool]:
        return [where.evaluate(lambda path: _at(document, path)) for where in self._wheres]


def _at(document: dict[str, Any], path: Path) -> Any:
    return document.get(path[0]) if len(path) == 1 else reach(document, path)


def _code(groups: Groups, value: Any) -> int:
    try:
        return groups[value] if type(value) is str else groups.code(value)
    except (KeyKind, KeyTooLong):
        return BAD


def _kind(value: Any) -> int:
    return lane_of(value)[1]


class FewFields:
    """The map of a field view over plain inputs."""

    def __init__(self, view: ViewNode, mapper: FieldMapper, plan: FieldPlan) -> None:
        self._inputs = list(plan.inputs)
        self._wheres = plan.wheres
        self._group = plan.groups.index(mapper.fields.key)
        self._checked = [plan.groups.index(key) for key in mapper.keys[1:]]
        self._values = [
            self._inputs.index(mapper.inputs[field]) for field in view.reduce.fields if field in mapper.inputs
        ]
        self._numbers = [self._inputs.index(path) for path in mapper.numbers]
        self._filtered_numbers = list(mapper.filtered_numbers)
        self._filtered = [
            (i, mapper.filtered[field])
            for i, field in enumerate(view.reduce.fields)
            if field is not None and field not in mapper.inputs
        ]
        self._where = None if mapper.fields.where is None else plan.wheres.index(mapper.fields.where)

    def passes(self, reading: DocumentFields) -> bool:
        """Return True if the condition of the view keeps the document."""
        return self._where is None or reading.conditions[self._where]

    def bad(self, reading: DocumentFields) -> bool:
        """Return True if the view would hold the document, provided its condition keeps it."""
        values = reading.values
        if reading.codes[self._group] == BAD:
            return True
        for i in self._checked:
            if reading.codes[i] == BAD:
                return True
        for i in self._numbers:
            if type(values[i]) is not int and _kind(values[i]) is LaneKind.OTHER:
                return True
        return any(_kind(self._read(own, reading)) is LaneKind.OTHER for own in self._filtered_numbers)

    def contributions(self, readings: Sequence[DocumentFields]) -> FewContributions:
        """Return the contributions of those documents that the condition of the view keeps."""
        group, pick = self._group, self._values
        if self._where is not None:
            readings = [reading for reading in readings if self.passes(reading)]
        if self._filtered:
            return [(reading.codes[group], self._all_values(reading)) for reading in readings]
        return [(reading.codes[group], tuple([reading.values[i] for i in pick])) for reading in readings]

    def _all_values(self, reading: DocumentFields) -> tuple[Any, ...]:
        own = [reading.values[i] for i in self._values]
        for place, filtered in self._filtered:  # in ascending order of their places
            own.insert(place, self._read(filtered, reading))
        return tuple(own)

    def _read(self, own: FilteredField, reading: DocumentFields) -> Any:
        """Return a filtered field of the document."""
        if own.where is not None and not reading.conditions[self._wheres.index(own.where)]:
            return None
        return own.formed(None if own.field is None else reading.values[self._inputs.index(own.field)])
