"""The rows that come and go, as the input of the views on a join, and of the joins of which it is a side.

Rows reach it as columns. A function view gets them paired by key, as changes of parent rows. So does a field view that
holds a row or can't take one. Invariant: a view folds once per transaction, from both forms alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.cache import FEW, Reader, canonical, encode_entry, stored_key
from penstock.join.joined_columns import RowColumns, ViewColumns, row_documents, row_keys, row_sources
from penstock.join.joined_rows import JoinedRows
from penstock.join.side_node import SideNode
from penstock.mapreduce import (
    FieldMapper,
    FieldPlan,
    Part,
    RowDelta,
    TransactionContributions,
    ViewNode,
    Writes,
)
from penstock.views import Key, SideView, View

__all__ = ["RowInput", "row_deltas", "row_input", "row_plan", "send_rows"]


@lru_cache(maxsize=256)
def row_plan(view: View) -> FieldPlan:
    """Return the fields of joined rows that a view reads."""
    return FieldPlan.of(Key((), False), None, [view])


def row_input(view: ViewNode) -> RowInput | None:
    """Return an input for rows as columns; None if rows must be paired by key."""
    return RowInput(view, view.mapper) if isinstance(view.mapper, FieldMapper) and not view.held else None


class RowInput:
    """The rows of one transaction for a field view or a side, as contributions."""

    def __init__(self, view: ViewNode, mapper: FieldMapper) -> None:
        self.view = view
        self.own = TransactionContributions()
        self._leaving: dict[int, list[Part]] = {}
        self._mapper = mapper

    def add(self, rows: JoinedRows, columns: RowColumns) -> bool:
        """Add the contributions of rows. Return False if the view can't take one of them."""
        view = self.view
        every = np.arange(columns.n)
        mapped, stuck = self._mapper.mapped(ViewColumns(row_plan(view.view), view.spaces, columns), None, every)
        if stuck:
            return False
        added = mapped.sourced(row_sources(rows) if view.keeps else None)
        none = added.take(np.zeros(0, np.int64))
        plus, minus = (added, none) if rows.plus else (none, added)
        if view.crossing is not None and not isinstance(view, SideNode):
            plus, minus = view.crossing.part(view, plus, minus, self._leaving)
            if not (plus.n or minus.n):
                return True
        combined = None if view.watch is not None or columns.n <= FEW else view.combined(plus, minus)
        if combined is None:
            self.own.add(plus, minus)
        else:
            self.own.deltas.append(combined)
        return True

    def fold(self, reader: Reader, writes: Writes) -> None:
        """Fold the rows into the view. In a partition the exchange folds them, with those of other partitions."""
        for other, parts in self._leaving.items():
            self.view.leaving(writes).setdefault(other, []).extend(parts)
        if not (self.own.plus or self.own.deltas):
            return
        gathered = writes.gathered.setdefault(self.view.number, TransactionContributions())
        gathered.plus += self.own.plus
        gathered.minus += self.own.minus
        gathered.deltas += self.own.deltas
        if self.view.crossing is None:
            self.view.fold_gathered(reader, writes)


def send_rows(
    reader: Reader,
    sides: Sequence[SideView],
    views: Sequence[ViewNode],
    rows: Callable[[], Iterator[JoinedRows]],
    writes: Writes,
) -> None:
    """Send rows to views. `rows` is called once for columns and once for pairs, if views need them."""
    inputs = {view: one for view in views if (one := row_input(view)) is not None}
    if inputs:
        _add(sides, rows(), inputs)
    deltas = row_deltas(sides, rows()) if len(inputs) < len(views) else []
    for view in views:
        one = inputs.get(view)
        if one is None:
            if deltas:
                view.on_rows(reader, deltas, writes)
        else:
            one.fold(reader, writes)


def _add(sides: Sequence[SideView], blocks: Iterable[JoinedRows], inputs: dict[ViewNode, RowInput]) -> None:
    """Add rows to the inputs as columns, in blocks. Drop the input of a view that can't take a row."""
    for rows in blocks:
        columns = RowColumns(sides, rows)
        for view, one in list(inputs.items()):
            if not one.add(rows, columns):
                del inputs[view]


def row_deltas(sides: Sequence[SideView], blocks: Iterable[JoinedRows]) -> list[RowDelta]:
    """Pair the rows that go and come by their keys. A row that goes and comes as it was is no change."""
    out: dict[bytes, RowDelta] = {}
    for rows in blocks:
        for key, row in zip(row_keys(rows), row_documents(sides, rows), strict=True):
            whole = encode_entry(key)
            delta = out.get(whole)
            if delta is None:
                delta = out[whole] = RowDelta(stored_key(whole), key, None, None)
            if rows.plus:
                delta.new = row
            else:
                delta.old = row
    return [delta for delta in out.values() if not _same(delta.old, delta.new)]


def _same(old: Any, new: Any) -> bool:
    return old is not None and old == new and canonical(old) == canonical(new)
