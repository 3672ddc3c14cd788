"""The fold of a few contributions, value by value instead of in columns.

The result equals that of `ReduceNode.fold`, with the same accumulators, codec and rows. Cells that support columns only
are folded in columns. Only such cells hold groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Writer
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.fold.feed_rows import FeedChanges, packed_lanes
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.maps.emissions import Contributions, Field, Yielded
from penstock.views import ABSENT, Accumulator, State, read_fields

if TYPE_CHECKING:
    from penstock.mapreduce.fold.accumulators import Accumulators

FewContributions = list[tuple[int, tuple[Any, ...]]]  # (group code, a value for each field that the reducer reads)
# The `moved` of a cell: it returns the state of one group with one value added (1) or removed (−1).
Moved = Callable[[State, Any, int], State]
_Cell = tuple[Moved, int, int, int, int]  # with the index of its field, its places in a row, and its own index


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
    """A group that changes: its code, and its row before and after. A row is n, then the lanes.

    Spills are None if no cell has one, so that rows of lanes alone are compared and written without them.
    """

    code: int
    old: list[int]
    new: list[int]
    old_spills: list[list[Any] | None] | None = None
    new_spills: list[list[Any] | None] | None = None

    def state(self, before: bool, whole: bytes | None = None) -> RowState:
        """Return the state before or after."""
        row, spills = (self.old, self.old_spills) if before else (self.new, self.new_spills)
        return RowState(row[0], row[1:], spills, None, whole)


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
        states = [own.state(before) for own in self.changed]
        return [self.node.codec.result(state) if state.n else ABSENT for state in states]

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        groups, codec = self.groups, self.node.codec
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for own in self.changed:
            key = groups.stored[own.code]
            if not own.new[0]:
                deletes.append(key)
            elif own.code in groups.encoded or own.new_spills is not None:
                puts.append((key, codec.sealed(key, own.state(before=False, whole=groups.encoded.get(own.code)))))
            else:
                puts.append(codec.fixed_row(key, own.new))
        puts.sort()
        return puts, deletes

    def new_keys(self) -> list[bytes] | None:
        return None

    def newly_held(self) -> int:
        return 0

    def fed(self, view: int) -> FeedChanges:
        whole, payload = self.groups.whole, self.node.codec.payload
        lanes: list[int] = []
        odd: list[list[Any]] = []
        for place, own in enumerate(self.changed):
            lanes += own.old
            lanes += own.new
            if own.old_spills is not None or own.new_spills is not None:
                states = [own.state(before=True), own.state(before=False)]
                odd.append([place, *(payload(state) if state.n else None for state in states)])
        packed, width = packed_lanes(lanes)
        return FeedChanges(view, [whole(own.code) for own in self.changed], packed, odd, width)

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        after.append(self._apply)

    def _apply(self) -> None:
        """Update memory after the commit."""
        memory = self.node.memory
        rows, have, complete = memory.rows, memory.have, memory.complete
        for own in self.changed:
            code = own.code
            if not complete:
                have[code] = True
            for i, value in enumerate(own.new):
                rows[i, code] = value
            if own.old_spills is None and own.new_spills is None:
                continue
            for i, spills in enumerate(memory.spills):
                spill = None if own.new_spills is None else own.new_spills[i]
                if spill is not None:
                    spills[code] = spill
                else:
                    spills.pop(code, None)


class SmallFold:
    """The fold of a few contributions for one reduce node."""

    def __init__(self, node: Folds) -> None:
        self._node = node
        self._cells: list[_Cell] = []
        start = 1
        for i, cell in enumerate(node.cells):
            moved = getattr(cell, "moved", None)
            if moved is not None:
                self._cells.append((moved, node.fields.index(cell.field), start, start + cell.lanes, i))
            start += cell.lanes
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
            own = self._moved(memory, code, sides[code])
            if own.new[0] < 0:
                return None
            if own.old != own.new or own.old_spills != own.new_spills:
                changed.append(own)
        return SmallFoldChanges(node, groups, changed)

    def _moved(self, memory: Accumulators, code: int, values: list[tuple[int, tuple[Any, ...]]]) -> _Group:
        """Return a group before and after these contributions."""
        old: list[int] = memory.rows[:, code].tolist()
        n = old[0]
        for sign, _ in values:
            n += sign
        out = _Group(code, old, [n])
        for moved, field, start, end, i in self._cells:
            before = memory.spills[i].get(code)
            state: State = tuple(old[start:end]), before
            for sign, own in values:
                state = moved(state, own[field], sign)
            lanes, after = state
            out.new += lanes
            if before is not None or after is not None:
                out.old_spills = _with_spill(out.old_spills, len(self._cells), i, before)
                out.new_spills = _with_spill(out.new_spills, len(self._cells), i, after)
        return out


def _with_spill(
    spills: list[list[Any] | None] | None, cells: int, i: int, spill: list[Any] | None
) -> list[list[Any] | None] | None:
    """Return the spills of a row by cell with that of one cell, or None if there is none."""
    if spill is None:
        return spills
    out: list[list[Any] | None] = [None] * cells if spills is None else spills
    out[i] = spill
    return out
