"""Rows of views that keep contributions: what a batch makes of each group's row.

A row follows from the group's accumulators, the partials at the root of its tree, what its values answer, and, while it
has few, from its contributions; a row whose bytes stay is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from penstock.cache import said
from penstock.mapreduce.columns.column import Column, Kind
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Ints
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Cut
from penstock.mapreduce.nodes.node_levels import Grown
from penstock.mapreduce.tries.value_trie import Settled
from penstock.views import Cell, Totals, TreeCell, is_accumulator, is_tree_cell, is_value_cell

_T = TypeVar("_T")
_RECENT = 1 << 12  # rows that are remembered
_EACH = 800  # bytes that one takes, about


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


@dataclass(frozen=True, slots=True)
class Said:
    """What groups say: of each the lanes, spills and numbers of values of its cells, and of some why they fail."""

    lanes: list[list[int]]
    spills: list[list[list[Any] | None]]
    distinct: list[list[int | None]]  # empty where no cell counts values
    why: dict[int, str]


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
        self._recent: dict[bytes, tuple[bytes, RowState]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in use, about."""
        return _EACH * len(self._recent)

    def forget(self) -> None:
        """Drop what memory holds."""
        self._recent = {}

    def read(self, keys: Sequence[bytes], rows: Sequence[bytes | None], where: str) -> list[RowState | None]:
        """What rows hold. One of ints that was made a moment ago is known by its bytes, whatever became of it since."""
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
        self, batch: TreeBatch, totals: list[Totals], grown: Grown, values: list[dict[int, Settled]]
    ) -> ChangedRows:
        """The rows that change, of accumulators, trees and values that did."""
        now = self._say(batch, totals, grown, values)
        ints = _all_ints([*grown.partials, *grown.inline.columns]) and not (now.why or any(t.spill for t in totals))
        ints &= not values
        cut = Cut(grown.inline, inner=False)
        starts = np.searchsorted(grown.inline.node, np.arange(len(batch.keys) + 1)).tolist()
        return self.settled(batch, now, ints, lambda place: cut.parts(starts[place], starts[place + 1]))

    def settled(self, batch: TreeBatch, now: Said, ints: bool, leaf: Callable[[int], list[Any]]) -> ChangedRows:
        """The rows of groups that say this, `ints` where it is nothing but ints; `leaf` has what stands in a row."""
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

    def _say(self, batch: TreeBatch, totals: list[Totals], grown: Grown, values: list[dict[int, Settled]]) -> Said:
        """What the groups say, cell by cell."""
        places = range(len(batch.keys))
        spills: list[list[list[Any] | None]] = []
        distinct: list[list[int | None]] = []
        why: dict[int, str] = {}
        own, trees = iter(totals), iter(grown.partials)
        for i, kind in enumerate(self._kinds):
            if kind is _Kind.TOTAL:
                total = next(own)
                spills.append([total.spill.get(place) for place in places])
                failed = {place: said(error) for place, error in total.errors.items()}
            elif kind is _Kind.TREE:
                answers, failed = answers_of(self._trees[i], next(trees).values())
                spills.append(answers)
            else:
                moved, old, failed = values[len(distinct)], batch.old, {}
                settled = [moved.get(place) or self._unmoved(i, len(distinct), old[place]) for place in places]
                distinct.append([count or None for count, _ in settled])
                spills.append([spill for _, spill in settled])
            for place, error in failed.items():
                why.setdefault(place, error)
        lanes = np.concatenate([total.lanes for total in totals]).T.tolist() if totals else [[] for _ in places]
        return Said(lanes, _across(spills, places), _across(distinct, places) if distinct else [], why)

    def _state(self, batch: TreeBatch, place: int, n: int, now: Said) -> RowState:
        whole = batch.groups.encoded.get(int(batch.codes[place])) if batch.groups.encoded else None
        spills = now.spills[place]
        state = RowState(n, now.lanes[place], None if spills.count(None) == len(spills) else spills, None, whole)
        if now.distinct and any(now.distinct[place]):
            state.values = now.distinct[place]
        if place in now.why:
            before = batch.old[place]
            state.held = [now.why[place], None if before is None else self._codec.result(before)]
        return state

    def _unmoved(self, i: int, j: int, before: RowState | None) -> Settled:
        """What a group answers with the values that it had; one that just came to have nodes has none."""
        if before is None or before.items is not None:
            return None, self._values[i].answer(0, 0, [])
        return (
            None if before.values is None else before.values[j],
            None if before.spills is None else before.spills[i],
        )


def _all_ints(columns: Sequence[Column]) -> bool:
    """Whether no value is anything but an int or null."""
    return all(column.kind is None or bool((column.kind <= Kind.INT).all()) for column in columns)


def _across(columns: Sequence[list[_T]], places: range) -> list[list[_T]]:
    """Rows of columns, also where there is none."""
    return list(map(list, zip(*columns))) if columns else [[] for _ in places]


def answers_of(cell: TreeCell, partials: Sequence[Any]) -> tuple[list[list[Any] | None], dict[int, str]]:
    """The spills of groups with these partials, and of some by their places why there is none."""
    if not cell.runs:
        return [None if partial is None else [partial] for partial in partials], {}
    found = [answer_of(cell, partial) for partial in partials]
    return [spill for spill, _ in found], {place: why for place, (_, why) in enumerate(found) if why}


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
