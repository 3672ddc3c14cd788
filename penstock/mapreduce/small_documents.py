"""A handful of documents as plain Python values: the other size of columns.

A column of one row costs as much as one of a hundred, and a batch of one is two hundred such columns. What is
made of a document is what the columnar form makes of it: the same codes, in the same order, and the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import KeyKind, KeyTooLong
from penstock.mapreduce.columns.column import LaneKind, lane_of
from penstock.mapreduce.columns.group_codes import BAD, Groups, TupleGroups
from penstock.mapreduce.maps.field_map import FieldMapper
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.mapreduce.view_node import ViewNode
from penstock.views import Path, reach


@dataclass(slots=True)
class DocumentFields:
    """What field views read of one document, in the order of the plan: group codes, values, conditions.

    A value that is no number, and of which only that is of interest, is True, as in a column that does not keep it.
    """

    codes: list[int]
    values: list[Any]
    kept: list[bool]

    def may_equal(self, other: DocumentFields) -> bool:
        """Whether the documents may be equal, as far as field views read."""
        return self.codes == other.codes and self.kept == other.kept and all(map(_may_equal, self.values, other.values))


def _may_equal(a: Any, b: Any) -> bool:
    """Ints and nulls tell documents apart; what else there is, the documents themselves say."""
    plain = (type(a) is int or a is None) and (type(b) is int or b is None)
    return not plain or a == b


class DocumentReader:
    """Reads documents one by one for the field views of one table."""

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
        """What field views read of each of these documents.

        Groups of several fields are met in the order in which columns meet them, by the codes of their parts.
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
            DocumentFields(codes[i], self._values(document), self._kept(document))
            for i, document in enumerate(documents)
        ]

    def _values(self, document: dict[str, Any]) -> list[Any]:
        out: list[Any] = []
        for path, keep in self._inputs:
            value = _at(document, path)
            out.append(value if keep or _kind(value) is not LaneKind.OTHER else True)
        return out

    def _kept(self, document: dict[str, Any]) -> list[bool]:
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
    """A field view's map over readings."""

    def __init__(self, view: ViewNode, mapper: FieldMapper, plan: FieldPlan) -> None:
        inputs = list(plan.inputs)
        self._group = plan.groups.index(mapper.fields.key)
        self._values = [inputs.index(mapper.inputs[field]) for field in view.reduce.fields]
        self._numbers = [inputs.index(path) for path in mapper.numbers]
        self._where = None if mapper.fields.where is None else plan.wheres.index(mapper.fields.where)

    def kept(self, reading: DocumentFields) -> bool:
        """Whether the view's condition keeps the document."""
        return self._where is None or reading.kept[self._where]

    def bad(self, reading: DocumentFields) -> bool:
        """Whether the view would have to hold the document, were it kept."""
        values = reading.values
        return reading.codes[self._group] == BAD or any(_kind(values[i]) is LaneKind.OTHER for i in self._numbers)

    def contribution(self, reading: DocumentFields) -> tuple[int, tuple[Any, ...]]:
        """What the document contributes."""
        values = reading.values
        return reading.codes[self._group], tuple([values[i] for i in self._values])
