"""The map of a field view over columns: its contributions, and the documents that it would hold.

The emission of a document depends on three columns: the code of its group, the inputs of cells, and the condition. The
columns of a batch and those in memory give the same emissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import KeyKind, KeyTooLong, bounds, encode_key, value_text
from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.filtered_column import filtered_column
from penstock.mapreduce.columns.group_codes import BAD, Codes
from penstock.mapreduce.maps.contribution_deltas import DocumentContributions
from penstock.mapreduce.maps.emissions import Contributions
from penstock.mapreduce.maps.field_plan import cell_fields, filtered_reads, keeps_contributions, value_fields
from penstock.mapreduce.maps.function_map import Hold
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.views import (
    FieldForm,
    FieldMap,
    FilteredField,
    Key,
    Need,
    Path,
    SideView,
    View,
    Where,
    is_accumulator,
    reach,
    shown_join,
)

Mask = NDArray[np.bool_]


class FieldColumns(Protocol):
    """Columns of documents with the inputs of field views."""

    @property
    def codes(self) -> Mapping[Key, Codes]:
        """Return the group codes by key."""
        ...

    @property
    def inputs(self) -> Mapping[Path, Column]:
        """Return the values by path."""
        ...

    @property
    def where(self) -> Mapping[Where, Mask]:
        """Return the results of conditions."""
        ...


class FieldMapper:
    """The map of one field view; a pure function."""

    def __init__(self, view: View, fields: FieldMap) -> None:
        self.name = view.name
        self.fields = fields
        self._groups_by = f"view {view.name!r} groups by"
        self.keys: tuple[Key, ...] = (fields.key,)  # that of its group first; each value must be a possible group
        if isinstance(view, SideView):
            self._groups_by = f"join {shown_join(view.join)!r} matches side {view.side!r} by"
            self.keys = (fields.key,) if view.checked is None else (fields.key, view.checked)
        self.inputs: dict[Path | None, Path] = {}  # by the field that is read of a value
        self.numbers: dict[Path, None] = {}
        self.filtered: dict[Path, FilteredField] = {}  # by the filtered field that contributions carry
        self.filtered_numbers: dict[FilteredField, None] = {}
        for field in value_fields(view):
            path = fields.path_of(field)
            assert path is not None, "checked when the view was defined"
            self.inputs[field] = path
        filtered, kept = filtered_reads(view, fields), keeps_contributions(view)
        for reducer in resolved(view.reducers):
            for cell in reducer.cells:
                for field in cell_fields(cell):
                    own = None if field is None else filtered.get(field)
                    if field is None or own is None:
                        if cell.need is Need.NUMBER:
                            self.numbers[self.inputs[field]] = None
                        continue
                    if is_accumulator(cell) or not kept:  # other cells read kept fields
                        self.filtered[field] = own
                    if cell.need is Need.NUMBER:
                        self.filtered_numbers[own] = None

    def selected(self, columns: FieldColumns) -> Mask | None:
        """Mark the documents that the condition keeps; None: all."""
        return None if self.fields.where is None else columns.where[self.fields.where]

    def bad(self, columns: FieldColumns) -> Mask | None:
        """Mark the documents that the view would hold, provided its condition keeps them; None: none."""
        bad: Mask | None = None
        for key in self.keys:
            code = columns.codes[key]
            if code.size and bounds(code)[0] == BAD:
                bad = code == BAD if bad is None else bad | (code == BAD)
        for path in self.numbers:
            kind = columns.inputs[path].kind
            if kind is not None and np.count_nonzero(kind == LaneKind.OTHER):
                bad = (kind == LaneKind.OTHER) if bad is None else bad | (kind == LaneKind.OTHER)
        for own in self.filtered_numbers:
            kind = self._read(own, columns, None).kind
            if kind is not None and np.count_nonzero(kind == LaneKind.OTHER):
                bad = (kind == LaneKind.OTHER) if bad is None else bad | (kind == LaneKind.OTHER)
        return bad

    @staticmethod
    def _read(own: FilteredField, columns: FieldColumns, at: NDArray[Any] | None) -> Column:
        """Return a filtered field of the documents at these indexes (None: all)."""
        base = None if own.field is None else columns.inputs[own.field]
        kept = None if own.where is None else columns.where[own.where]
        n = len(next(iter(columns.codes.values()))) if at is None else int(at.size)
        if at is not None:
            base, kept = None if base is None else base.take(at), None if kept is None else kept[at]
        return filtered_column(own, base, kept, n)

    def mapped(
        self, columns: FieldColumns, at: NDArray[Any] | None, documents: NDArray[np.int64]
    ) -> tuple[DocumentContributions, list[int]]:
        """Return the contributions of documents, and the numbers of the documents to hold.

        The documents are at the indexes `at` of the columns (None: all); `documents` are their numbers.
        """
        selected, bad = self.selected(columns), self.bad(columns)
        if bad is None:
            if selected is None:
                return DocumentContributions(self.contributions(columns, at), documents), []
            return self._of_selected(columns, selected, at, documents), []
        wrong = bad if selected is None else bad & selected
        stuck = documents[wrong if at is None else wrong[at]].tolist()
        return self._of_selected(columns, ~bad if selected is None else selected & ~bad, at, documents), stuck

    def taken(self, columns: FieldColumns, documents: NDArray[np.int64]) -> DocumentContributions:
        """Return the contributions of documents that the view accepted earlier, or holds."""
        return self._of_selected(columns, self.selected(columns), None, documents)

    def _of_selected(
        self, columns: FieldColumns, selected: Mask | None, at: NDArray[Any] | None, documents: NDArray[np.int64]
    ) -> DocumentContributions:
        if selected is None:
            return DocumentContributions(self.contributions(columns, at), documents)
        keep = (selected if at is None else selected[at]).nonzero()[0]
        return DocumentContributions(self.contributions(columns, keep if at is None else at[keep]), documents[keep])

    def contributions(self, columns: FieldColumns, at: NDArray[Any] | None) -> Contributions:
        """Return the contributions of the documents at these indexes (None: all)."""
        code = columns.codes[self.fields.key]
        inputs = {f: columns.inputs[path] for f, path in self.inputs.items()}
        out = Contributions(code.astype(np.int32, copy=False), inputs)
        if at is not None:
            out = out.take(at)
        for field, own in self.filtered.items():
            out.inputs[field] = self._read(own, columns, at)
        return out

    def hold(self, document: Any) -> Hold:
        """Return the reason why the view cannot accept this document."""
        for path in (path for key in self.keys for path in key.paths):
            group = reach(document, path)
            try:
                encode_key(group)
            except (KeyKind, KeyTooLong) as error:
                return Hold(f"{self._groups_by} {'.'.join(path)!r}: {error}")
        for own in (*(FilteredField(path, None) for path in self.numbers), *self.filtered_numbers):
            if Column.of([own.of(document)]).kinds()[0] == LaneKind.OTHER:
                path, kind, wanted = own.field or (), "number", "an int, a float, a Decimal or null"
                if own.form is FieldForm.FLAG:
                    kind, wanted = "bool", "true, false or null"
                return Hold(
                    f"view {self.name!r} reads {'.'.join(path)!r} as a {kind} and finds "
                    f"{value_text(reach(document, path))}; put the document again with {wanted} there"
                )
        for key in self.keys:
            try:
                encode_key(tuple(reach(document, path) for path in key.paths))
            except (KeyKind, KeyTooLong) as error:
                return Hold(f"view {self.name!r}: {error}")
        return Hold(f"view {self.name!r} can't take it")
