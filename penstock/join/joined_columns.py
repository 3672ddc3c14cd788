"""Joined rows as columns and as dicts, from the projections of their sides.

A column is made for the entries of a side, and then taken by row. So a value that many rows share is converted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import decode_key, encode_entry
from penstock.join.joined_rows import JoinedRows
from penstock.join.side_entries import Entries, Ints, Mask
from penstock.mapreduce import Codes, Column, FieldPlan, Groups, SourceKeys, Spaces, condition
from penstock.views import Key, Path, SideView, Where, reach

_TUPLE = encode_entry(())

__all__ = ["RowColumns", "encoded_keys", "row_documents", "row_keys", "selected"]


class RowColumns:
    """The columns of joined rows that field views read."""

    def __init__(self, sides: Sequence[SideView], rows: JoinedRows) -> None:
        self.n = int(rows.i.size)
        parts = zip(sides, (rows.left, rows.right), (rows.i, rows.j), strict=False)  # semi and anti: only the first
        self._sides: dict[str, tuple[Sequence[Path], Entries, Ints, int]] = {}
        for side, entries, index in parts:
            for name in side.covers or (side.side,):  # paths of a prefix begin with its sides
                self._sides[name] = side.projection, entries, index, 0 if side.covers else 1
        self._known: dict[Path, Column] = {}

    def entries_of(self, path: Path) -> tuple[Column, Ints]:
        """Return the values at a path for the entries of its side, and the entry of each row.

        The last value is null if rows lack the side: the entry of such a row is -1.
        """
        projection, entries, index, first = self._sides[path[0]]
        column = self._known.get(path)
        if column is None:
            column = _field(projection, entries, path[first:])
            if index.size and index.min() < 0:
                column = Column.join([column, Column.nulls(1)])
            self._known[path] = column
        return column, index

    def codes(self, path: Path, groups: Groups) -> Codes:
        """Return the values at a path as group codes. They are found once for the entries of a side."""
        projection, entries, index, first = self._sides[path[0]]
        if path[first:] in projection:
            codes = entries.codes(projection.index(path[first:]), groups)
        else:
            codes = _field(projection, entries, path[first:]).codes(groups)
        if index.size and index.min() < 0:
            codes = np.append(codes, np.int32(groups.code(None)))
        return codes[index]

    def column(self, path: Path) -> Column:
        """Return the values at a path."""
        column, index = self.entries_of(path)
        return column.take(index)

    def mask(self, where: Where) -> Mask:
        """Mark the rows that a condition selects."""
        return condition(where, lambda path: self.column(path).values(), self.n)


class ViewColumns:
    """The columns of joined rows for one view, in the group codes of its dictionaries."""

    def __init__(self, plan: FieldPlan, spaces: Spaces, rows: RowColumns) -> None:
        parts: dict[Path, Codes] = {}
        for path in plan.group_paths:
            parts[path] = rows.codes(path, spaces.part(path))
        self.codes: dict[Key, Codes] = {key: spaces.codes(key, parts, rows.n) for key in plan.groups}
        self.inputs = {path: rows.column(path) for path in plan.inputs}
        self.where: dict[Where, NDArray[np.bool_]] = {where: rows.mask(where) for where in plan.wheres}


def _field(projection: Sequence[Path], entries: Entries, path: Path) -> Column:
    """Return the values at a path of a side. A projected path may lead to a map that has it, or into it."""
    if path in projection:
        return entries.column(projection.index(path))
    place = next((i for i, own in enumerate(projection) if path[: len(own)] == own), None)
    if place is None:
        return Column.of([reach(document, path) for document in _documents(projection, entries)])
    below = path[len(projection[place]) :]
    return Column.of([reach(value, below) for value in entries.column(place).values()])


def selected(sides: Sequence[SideView], rows: JoinedRows, where: Where | None) -> JoinedRows:
    """Return the joined rows that the condition of the join selects, with the places of their sides."""
    rows = replace(rows, places=sides[0].places) if sides[0].covers else rows
    if where is None:
        return rows
    keep = RowColumns(sides, rows).mask(where)
    return rows if keep.all() else rows.take(keep)


def row_keys(rows: JoinedRows) -> list[tuple[Any, ...]]:
    """Return the key of each row: the keys of its documents, in the order of the sides, and its condition value.

    The partitions that own two condition values don't order their messages. So a row with another value has another
    key. A missing side is null, and so is a null condition value.
    """
    left, right = ([*_decoded(entries.keys()), None] for entries in (rows.left, rows.right))
    values, others = _condition_values(rows.left), _condition_values(rows.right)
    pairs = list(zip(rows.i.tolist(), rows.j.tolist(), strict=True))
    if rows.places:  # the key of a row of the prefix has the keys of its documents, and then its condition values
        cut = len(rows.places) - 1
        flat = [((*left[i][:cut], right[j]), (*left[i][cut:], values[i])) for i, j in pairs]
        return [(*(keys[place] for place in rows.places), *own) for keys, own in flat]
    return [(left[i], right[j], values[i] if i >= 0 else others[j]) for i, j in pairs]


def row_sources(rows: JoinedRows) -> SourceKeys:
    """Return the keys of the rows as sources of contributions."""
    text = np.empty(rows.i.size, object)
    text[:] = encoded_keys(rows)
    return SourceKeys(np.zeros(rows.i.size, np.int64), text)


def encoded_keys(rows: JoinedRows) -> list[bytes]:
    """Return the encoded keys of the rows. The parts of a key are encoded once for the entries of a side."""
    if rows.places:
        return list(map(encode_entry, row_keys(rows)))
    left, right = _key_parts(rows.left), _key_parts(rows.right)
    values, others = _value_parts(rows.left), _value_parts(rows.right)
    pairs = zip(rows.i.tolist(), rows.j.tolist(), strict=True)
    return [_TUPLE + left[i] + right[j] + (values[i] if i >= 0 else others[j]) for i, j in pairs]


def _key_parts(entries: Entries) -> list[bytes]:
    """Return the document keys as parts of an encoded tuple, and null at the end for a missing side."""
    return entries.once("keys", lambda: [*map(_part, _decoded(entries.keys())), _part(None)])


def _value_parts(entries: Entries) -> list[bytes]:
    """Return the condition values as parts of an encoded tuple. Many entries have few of them."""
    return entries.once("values", lambda: _distinct_parts(entries))


def _distinct_parts(entries: Entries) -> list[bytes]:
    values = _condition_values(entries)
    if set(map(type, values)) != {int}:
        return list(map(_part, values))
    known = {value: _part(value) for value in set(values)}
    return list(map(known.__getitem__, values))


def _part(value: Any) -> bytes:
    return encode_entry((value,))[len(_TUPLE) :]


def _condition_values(entries: Entries) -> list[Any]:
    null = entries.null()
    values = _decoded(entries.values())
    return (
        values if null is None else [None if own else value for own, value in zip(null.tolist(), values, strict=True)]
    )


def _decoded(own: SourceKeys) -> list[Any]:
    texts: Iterable[bytes | None] = [None] * own.lane.size if own.text is None else own.text.tolist()
    return [lane if text is None else decode_key(text) for lane, text in zip(own.lane.tolist(), texts, strict=True)]


def row_documents(sides: Sequence[SideView], rows: JoinedRows) -> list[dict[str, Any]]:
    """Return each row as a dict by side, with the projected fields. A missing side is null."""
    parts = [
        _side_documents(side.projection, entries, index)
        for side, entries, index in zip(sides, (rows.left, rows.right), (rows.i, rows.j), strict=False)
    ]
    names = [side.side for side in sides]
    if sides[0].covers:
        return [{**before, names[1]: document} for before, document in zip(*parts, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]


def _side_documents(projection: Sequence[Path], entries: Entries, index: Ints) -> list[Any]:
    """Return the document of each row on one side; None where the side is missing."""
    present = np.flatnonzero(index >= 0)
    found = _documents(projection, entries.take(index[present]))
    if present.size == index.size:
        return found
    out: list[Any] = [None] * int(index.size)
    for row, document in zip(present.tolist(), found, strict=True):
        out[row] = document
    return out


def _documents(projection: Sequence[Path], entries: Entries) -> list[Any]:
    if projection == ((),):
        return entries.column(0).values()
    out: list[dict[str, Any]] = [{} for _ in range(len(entries))]
    for place in sorted(range(len(projection)), key=lambda i: len(projection[i])):
        path = projection[place]
        if any(path[: len(own)] == own for own in projection if len(own) < len(path)):
            continue  # a map above it is projected
        for document, value in zip(out, entries.column(place).values(), strict=True):
            for name in path[:-1]:
                document = document.setdefault(name, {})
            document[path[-1]] = value
    return out
