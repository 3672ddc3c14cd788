"""The rows of views that keep contributions, and their changes by a batch.

A row follows from the group's accumulators, the partials at the root of its tree and the answers of its value cells. A
small group's row also holds its contributions. A row with unchanged bytes is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from penstock.cache import error_text
from penstock.mapreduce.columns.column import Column, LaneKind
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Ints
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Cut
from penstock.mapreduce.nodes.node_levels import NewNodes
from penstock.mapreduce.tries.value_trie import Settled
from penstock.views import Cell, GroupTotals, TreeCell, is_accumulator, is_tree_cell, is_value_cell

_T = TypeVar("_T")
_RECENT = 1 << 12  # number of cached rows
_EACH = 800  # estimated bytes of a cached row


@dataclass(slots=True)
class TreeBatch:
    """One change in progress: its groups and their former rows."""

    codes: Ints
    keys: list[bytes]
    raw: list[bytes | None]
    old: list[RowState | None]
    old_n: Ints
    n: Ints
    groups: Groups

    def value(self, place: int) -> Any:
        """Return the group at a place."""
        return self.groups.value(int(self.codes[place]))


class _Kind(Enum):
    """The kind of state that a cell keeps."""

    TOTAL = "total"
    TREE = "tree"
    VALUES = "values"

    @classmethod
    def of(cls, cell: Cell) -> _Kind:
        """Return the kind of a cell."""
        return cls.TOTAL if is_accumulator(cell) else cls.TREE if is_tree_cell(cell) else cls.VALUES


@dataclass(frozen=True, slots=True)
class CellStates:
    """The states of groups: lanes, spills and numbers of distinct values of their cells, messages of failures."""

    lanes: list[list[int]]
    spills: list[list[list[Any] | None]]
    distinct: list[list[int | None]]  # empty where no cell counts values
    errors: dict[int, str]


@dataclass(slots=True)
class ChangedRows:
    """The groups whose rows change: columns by group, the rows to put and the keys to delete."""

    codes: Ints
    old: list[RowState | None]
    new: list[RowState | None]
    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    held: int  # increase of the number of held groups


class TreeRows:
    """The rows of one view: decodes stored rows and builds changed ones."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._kinds = tuple(_Kind.of(c) for c in codec.cells)
        self._trees = {i: c for i, c in enumerate(codec.cells) if is_tree_cell(c)}
        self._values = {i: c for i, c in enumerate(codec.cells) if is_value_cell(c)}
        self._recent: dict[bytes, tuple[bytes, RowState]] = {}

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return _EACH * len(self._recent)

    def forget(self) -> None:
        """Drop everything in memory."""
        self._recent = {}

    def read(self, keys: Sequence[bytes], rows: Sequence[bytes | None], where: str) -> list[RowState | None]:
        """Decode rows. A recent row of ints is found by its bytes in the cache."""
        out: list[RowState | None] = []
        recent, decode = self._recent, self._codec.decode
        for key, row in zip(keys, rows, strict=True):
            if row is None:
                out.append(None)
                continue
            known = recent.get(key)
            out.append(known[1] if known is not None and known[0] == row else decode(key, row, where))
        return out

    def changed(
        self, batch: TreeBatch, totals: list[GroupTotals], grown: NewNodes, values: list[dict[int, Settled]]
    ) -> ChangedRows:
        """Return the rows that change with these accumulators, trees and values."""
        now = self._say(batch, totals, grown, values)
        ints = _all_ints([*grown.partials, *grown.inline.columns]) and not (now.errors or any(t.spill for t in totals))
        ints &= not values
        cut = Cut(grown.inline, inner=False)
        starts = np.searchsorted(grown.inline.node, np.arange(len(batch.keys) + 1)).tolist()
        return self.settled(batch, now, ints, lambda place: cut.parts(starts[place], starts[place + 1]))

    def settled(self, batch: TreeBatch, now: CellStates, ints: bool, leaf: Callable[[int], list[Any]]) -> ChangedRows:
        """Return changed rows of groups in these states. `ints`: all values are ints. `leaf` gives a row's items."""
        out = ChangedRows(batch.codes, [], [], [], [], 0)
        at: list[int] = []
        for place, (key, n, before) in enumerate(zip(batch.keys, batch.n.tolist(), batch.old, strict=True)):
            after: RowState | None = None
            if n:
                after = self._state(batch, place, n, now)
                if n <= trees.CAPACITY:
                    after.items = leaf(place)
                row = self._codec.sealed(key, after, ints)
                if row == batch.raw[place]:
                    continue
                out.puts.append((key, row))
                if ints:
                    self._recent[key] = row, after
            elif before is None:
                continue
            else:
                out.deletes.append(key)
            if after is not None and after.held is not None:
                out.held += 1
            if before is not None and before.held is not None:
                out.held -= 1
            at.append(place)
            out.old.append(before)
            out.new.append(after)
        out.codes = batch.codes[at]
        out.puts.sort()
        if len(self._recent) > _RECENT:
            self._recent.clear()
        return out

    def _say(
        self, batch: TreeBatch, totals: list[GroupTotals], grown: NewNodes, values: list[dict[int, Settled]]
    ) -> CellStates:
        """Return the states of the groups, cell by cell."""
        places = range(len(batch.keys))
        spills: list[list[list[Any] | None]] = []
        distinct: list[list[int | None]] = []
        errors: dict[int, str] = {}
        own, trees = iter(totals), iter(grown.partials)
        for i, kind in enumerate(self._kinds):
            if kind is _Kind.TOTAL:
                total = next(own)
                spills.append([total.spill.get(place) for place in places])
                failed = {place: error_text(error) for place, error in total.errors.items()}
            elif kind is _Kind.TREE:
                answers, failed = answers_of(self._trees[i], next(trees).values())
                spills.append(answers)
            else:
                moved, old, failed = values[len(distinct)], batch.old, {}
                settled = [moved.get(place) or self._unmoved(i, len(distinct), old[place]) for place in places]
                distinct.append([count or None for count, _ in settled])
                spills.append([spill for _, spill in settled])
            for place, error in failed.items():
                errors.setdefault(place, error)
        lanes = np.concatenate([total.lanes for total in totals]).T.tolist() if totals else [[] for _ in places]
        return CellStates(lanes, _across(spills, places), _across(distinct, places) if distinct else [], errors)

    def _state(self, batch: TreeBatch, place: int, n: int, now: CellStates) -> RowState:
        whole = batch.groups.encoded.get(int(batch.codes[place])) if batch.groups.encoded else None
        spills = now.spills[place]
        state = RowState(n, now.lanes[place], None if spills.count(None) == len(spills) else spills, None, whole)
        if now.distinct and any(now.distinct[place]):
            state.values = now.distinct[place]
        if place in now.errors:
            before = batch.old[place]
            state.held = [now.errors[place], None if before is None else self._codec.result(before)]
        return state

    def _unmoved(self, i: int, j: int, before: RowState | None) -> Settled:
        """Return the former answer of a group. A group that was without nodes has no values in a trie."""
        if before is None or before.items is not None:
            return None, self._values[i].answer(0, 0, [])
        return (
            None if before.values is None else before.values[j],
            None if before.spills is None else before.spills[i],
        )


def _all_ints(columns: Sequence[Column]) -> bool:
    """Return True if all values are ints or null."""
    return all(column.kind is None or bool((column.kind <= LaneKind.INT).all()) for column in columns)


def _across(columns: Sequence[list[_T]], places: range) -> list[list[_T]]:
    """Transpose columns into rows. Without columns, return empty rows."""
    return list(map(list, zip(*columns))) if columns else [[] for _ in places]


def answers_of(cell: TreeCell, partials: Sequence[Any]) -> tuple[list[list[Any] | None], dict[int, str]]:
    """Return the spills of groups with these partials, and by place the messages of failures."""
    if not cell.runs:
        return [None if partial is None else [partial] for partial in partials], {}
    found = [answer_of(cell, partial) for partial in partials]
    return [spill for spill, _ in found], {place: error for place, (_, error) in enumerate(found) if error}


def answer_of(cell: TreeCell, partial: Any) -> tuple[list[Any] | None, str]:
    """Return the spill of a group with this partial, and the message of a failure or ""."""
    if partial is None:
        return None, ""
    failure = cell.failed(partial)
    if failure is not None:
        return None, failure
    try:
        return cell.state(partial), ""
    except Exception as error:
        return None, error_text(error)
