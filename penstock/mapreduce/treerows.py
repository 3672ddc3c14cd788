"""Rows of views that keep contributions: what a batch makes of each group's row.

A row follows from the group's accumulators, the partials at the root of its tree, what its values answer, and, while it
has few, from its contributions; a row whose bytes stay is not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from penstock.cache import said
from penstock.mapreduce import nodes as trees
from penstock.mapreduce.groups import Groups
from penstock.mapreduce.items import Ints
from penstock.mapreduce.noderow import Cut
from penstock.mapreduce.nodes import Grown
from penstock.mapreduce.rowcodec import RowCodec, RowState
from penstock.mapreduce.valuetree import Settled
from penstock.views import Cell, Totals, TreeCell, is_accumulator, is_tree_cell, is_value_cell


@dataclass(slots=True)
class TreeBatch:
    """One change under way: the groups at hand, and their rows before."""

    codes: Ints
    keys: list[bytes]
    raw: list[bytes | None]
    old: list[RowState | None]
    old_n: Ints
    n: Ints
    groups: Groups

    def value(self, place: int) -> Any:
        """The group at a place."""
        return self.groups.value(int(self.codes[place]))


class _Kind(Enum):
    """What a cell keeps."""

    TOTAL = "total"
    TREE = "tree"
    VALUES = "values"

    @classmethod
    def of(cls, cell: Cell) -> _Kind:
        """That of a cell."""
        return cls.TOTAL if is_accumulator(cell) else cls.TREE if is_tree_cell(cell) else cls.VALUES


@dataclass(slots=True)
class ChangedRows:
    """The groups whose rows change: columns by group, the rows to put and the keys to delete."""

    codes: Ints
    old: list[RowState | None]
    new: list[RowState | None]
    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    held: int  # how many more groups are held than before


class TreeRows:
    """Makes the rows of one view."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._kinds = tuple(_Kind.of(c) for c in codec.cells)
        self._trees = {i: c for i, c in enumerate(codec.cells) if is_tree_cell(c)}
        self._values = {i: c for i, c in enumerate(codec.cells) if is_value_cell(c)}

    def changed(
        self, batch: TreeBatch, totals: list[Totals], grown: Grown, values: list[dict[int, Settled]]
    ) -> ChangedRows:
        """The rows that change, of accumulators, trees and values that did."""
        partials = [column.values() for column in grown.partials]
        cut = Cut(grown.inline, inner=False)
        starts = np.searchsorted(grown.inline.node, np.arange(len(batch.keys) + 1)).tolist()
        at: list[int] = []
        old: list[RowState | None] = []
        new: list[RowState | None] = []
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        held = 0
        for place, (key, n) in enumerate(zip(batch.keys, batch.n.tolist(), strict=True)):
            before = batch.old[place]
            after: RowState | None = None
            if n:
                after = self._state(batch, place, totals, [p[place] for p in partials], values)
                if n <= trees.CAPACITY:
                    after.items = cut.parts(starts[place], starts[place + 1])
                row = self._codec.sealed(key, after)
                if row == batch.raw[place]:
                    continue
                puts.append((key, row))
            elif before is None:
                continue
            else:
                deletes.append(key)
            held += (after is not None and after.held is not None) - (before is not None and before.held is not None)
            at.append(place)
            old.append(before)
            new.append(after)
        return ChangedRows(batch.codes[at], old, new, sorted(puts), deletes, held)

    def _state(
        self,
        batch: TreeBatch,
        place: int,
        totals: list[Totals],
        partials: list[Any],
        values: list[dict[int, Settled]],
    ) -> RowState:
        lanes: list[int] = []
        spills: list[list[Any] | None] = []
        distinct: list[int | None] = []
        before = batch.old[place]
        own, trees, why = iter(totals), iter(partials), ""
        for i, kind in enumerate(self._kinds):
            if kind is _Kind.TOTAL:
                total = next(own)
                lanes += total.lanes[:, place].tolist()
                spills.append(total.spill.get(place))
                if place in total.errors:
                    why = why or said(total.errors[place])
            elif kind is _Kind.TREE:
                spill, error = answer_of(self._trees[i], next(trees))
                spills.append(spill)
                why = why or error
            else:
                found = values[len(distinct)].get(place)
                if found is None:  # nothing moved among its values
                    found = self._unmoved(i, len(distinct), before)
                distinct.append(found[0] or None)
                spills.append(found[1])
        state = RowState(int(batch.n[place]), lanes, spills, None, batch.groups.encoded.get(int(batch.codes[place])))
        if any(distinct):
            state.values = distinct
        if why:
            state.held = [why, None if before is None else self._codec.result(before)]
        return state

    def _unmoved(self, i: int, j: int, before: RowState | None) -> Settled:
        """What a group answers with the values that it had; one that just came to have nodes has none."""
        if before is None or before.items is not None:
            return None, self._values[i].answer(0, 0, [])
        return (
            None if before.values is None else before.values[j],
            None if before.spills is None else before.spills[i],
        )


def answer_of(cell: TreeCell, partial: Any) -> tuple[list[Any] | None, str]:
    """The spill of a group with this partial, or why there is none."""
    if partial is None:
        return None, ""
    why = cell.failed(partial)
    if why is not None:
        return None, why
    try:
        return cell.state(partial), ""
    except Exception as error:
        return None, said(error)
