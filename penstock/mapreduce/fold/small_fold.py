"""The fold of a few contributions, value by value instead of in columns.

The result equals that of `ReduceNode.fold`, with the same accumulators, codec and rows. Cells that support columns only
are folded in columns. Only such cells hold groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Writer
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.fold.feed_rows import FeedChanges
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.maps.emissions import Contributions, Field, Yielded
from penstock.views import ABSENT, Accumulator, State, read_fields

if TYPE_CHECKING:
    from penstock.mapreduce.fold.accumulators import Accumulators

FewContributions = list[tuple[int, tuple[Any, ...]]]  # (group code, a value for each field that the reducer reads)
# The `moved` of a cell: it returns the state of one group with one value added (1) or removed (−1).
Moved = Callable[[State, Any, int], State]


def of_yielded(pairs: Yielded, fields: Sequence[Field]) -> FewContributions:
    """Return the contributions of a function's output."""
    if not fields:
        return [(code, ()) for code, _ in pairs]
    values = [value for _, value in pairs]
    rows = zip(*(values if f is None else read_fields(values, f) for f in fields), strict=True)
    return [(code, row) for (code, _), row in zip(pairs, rows, strict=True)]


def in_columns(side: FewContributions, fields: Sequence[Field]) -> Contributions:
    """Convert the contributions to columns."""
    code = np.array([code for code, _ in side], np.int32)
    return Contributions(code, {f: Column.of([values[i] for _, values in side]) for i, f in enumerate(fields)})


def one_by_one(side: Contributions, fields: Sequence[Field]) -> FewContributions:
    """Convert columns to single contributions."""
    codes = side.code.tolist()
    if not fields:
        return [(code, ()) for code in codes]
    if len(fields) == 1:
        return [(code, (value,)) for code, value in zip(codes, side.inputs[fields[0]].values(), strict=True)]
    return list(zip(codes, zip(*(side.inputs[f].values() for f in fields), strict=True), strict=True))


class Folds(Protocol):
    """The reducer of a view, with its accumulators in memory."""

    codec: RowCodec
    cells: tuple[Accumulator, ...]
    fields: tuple[Field, ...]
    memory: Accumulators

    def load(self, reader: Reader, groups: Groups, codes: NDArray[np.int64]) -> None:
        """Load the accumulators of these groups."""
        ...


@dataclass(slots=True)
class _Group:
    """A group that changes: its code, and its state before and after."""

    code: int
    old: RowState
    new: RowState

    @property
    def odd(self) -> bool:
        """Return True if the group has more than lanes, before or after."""
        return any(spill is not None for spill in (*(self.old.spills or ()), *(self.new.spills or ())))


@dataclass(slots=True)
class SmallFoldChanges:
    """The change that a few contributions make to a view."""

    node: Folds
    groups: Groups
    changed: list[_Group]

    @property
    def m(self) -> int:
        return len(self.changed)

    def keyed(self) -> list[tuple[bytes, Any]]:
        return self.groups.keyed(np.array([own.code for own in self.changed], np.int64))

    def results(self, before: bool = False) -> list[Any]:
        states = [own.old if before else own.new for own in self.changed]
        return [self.node.codec.result(state) if state.n else ABSENT for state in states]

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        groups, codec = self.groups, self.node.codec
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for own in self.changed:
            key, state = groups.stored[own.code], own.new
            if not state.n:
                deletes.append(key)
            elif own.code in groups.encoded or any(spill is not None for spill in state.spills or ()):
                whole = groups.encoded.get(own.code)
                puts.append((key, codec.sealed(key, replace(state, whole=whole))))
            else:
                puts.append(codec.fixed_row(key, state.n, state.lanes))
        puts.sort()
        return puts, deletes

    def new_keys(self) -> list[bytes] | None:
        return None

    def newly_held(self) -> int:
        return 0

    def fed(self, view: int) -> FeedChanges:
        whole = [self.groups.whole(own.code) for own in self.changed]
        lanes = [[own.old.n, *own.old.lanes, own.new.n, *own.new.lanes] for own in self.changed]
        payload = self.node.codec.payload
        odd = [
            [place, *(payload(state) if state.n else None for state in (own.old, own.new))]
            for place, own in enumerate(self.changed)
            if own.odd
        ]
        return FeedChanges(view, whole, np.array(lanes, np.int64), odd)

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        after.append(self._apply)

    def _apply(self) -> None:
        """Update memory after the commit."""
        memory = self.node.memory
        for own in self.changed:
            code, state, lanes = own.code, own.new, iter(own.new.lanes)
            memory.n[code] = state.n
            memory.have[code] = True
            for column, spills, spill in zip(memory.lanes, memory.spills, state.spills or (), strict=True):
                for i in range(column.shape[0]):
                    column[i, code] = next(lanes)
                if spill is not None:
                    spills[code] = spill
                elif spills:
                    spills.pop(code, None)


class SmallFold:
    """The fold of a few contributions for one reduce node."""

    def __init__(self, node: Folds) -> None:
        self._node = node
        self._cells: list[tuple[Moved, int]] = []  # with the index of its field
        for cell in node.cells:
            moved = getattr(cell, "moved", None)
            if moved is not None:
                self._cells.append((moved, node.fields.index(cell.field)))
        self._able = len(self._cells) == len(node.cells)

    def fold(
        self, reader: Reader, groups: Groups, plus: FewContributions, minus: FewContributions
    ) -> SmallFoldChanges | None:
        """Return the change, or None if columns have to decide: a cell needs columns, or a count is negative."""
        node, memory = self._node, self._node.memory
        if not self._able:
            return None
        memory.reach(groups.size)
        sides: dict[int, list[tuple[int, tuple[Any, ...]]]] = {}
        for sign, side in ((1, plus), (-1, minus)):
            for code, values in side:
                sides.setdefault(code, []).append((sign, values))
        changed: list[_Group] = []
        for code in sorted(sides):
            if not memory.complete and not memory.have[code]:
                node.load(reader, groups, np.array([code]))
            own = _moved(memory, self._cells, code, sides[code])
            if own.new.n < 0:
                return None
            if own.old != own.new:
                changed.append(own)
        return SmallFoldChanges(node, groups, changed)


def _moved(
    memory: Accumulators, cells: list[tuple[Moved, int]], code: int, values: list[tuple[int, tuple[Any, ...]]]
) -> _Group:
    """Return a group before and after these contributions."""
    old = RowState(memory.n.item(code), [], [])
    new = RowState(old.n + sum([sign for sign, _ in values]), [], [])
    assert old.spills is not None
    assert new.spills is not None
    for (moved, which), column, spills in zip(cells, memory.lanes, memory.spills, strict=True):
        state: State = tuple([column.item(i, code) for i in range(column.shape[0])]), spills.get(code)
        old.lanes += state[0]
        old.spills.append(state[1])
        for sign, own in values:
            state = moved(state, own[which], sign)
        new.lanes += state[0]
        new.spills.append(state[1])
    return _Group(code, old, new)
