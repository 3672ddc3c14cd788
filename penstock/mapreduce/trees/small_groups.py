"""The fold of a few contributions to small groups, item by item instead of in columns.

A small group keeps its contributions in its row. Most groups are small, and most batches have a few documents. The
resulting rows equal those of the columns: cells fold the same leaves, and accumulators move as in `small_fold`.
Invariant: the columns decide if a group has nodes or may get them, sources share a hash, a cell needs columns, or data
is inconsistent.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from struct import pack, unpack
from typing import Any

import numpy as np

from penstock.cache import Reader, encode_key, mix_one
from penstock.mapreduce.columns.column import Column, LaneKind, lane_of
from penstock.mapreduce.columns.filtered_column import read_column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Ints, Items
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.fold.small_fold import Moved
from penstock.mapreduce.maps.emissions import Contributions
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import read_leaves, short_column, short_column_values
from penstock.mapreduce.trees.batch_items import items_of
from penstock.mapreduce.trees.changed_rows import CellStates, ChangedRows, TreeBatch, TreeRows, answers_of
from penstock.mapreduce.trees.snapshot_nodes import CONTRIBUTIONS
from penstock.mapreduce.tries.value_trie import Settled, ValueTree
from penstock.views import Path, State, TreeCell, is_accumulator, is_tree_cell

Field = Path | None
Item = tuple[int, int, bytes | None, int, tuple[Any, ...]]
"""An item: its position, the key of its source as a lane or a text, its rank and its values."""

_AT: Callable[[Item], int] = itemgetter(0)
_MASK64 = (1 << 64) - 1


class RowsOnce:
    """Rows of one database in one batch. Each row is read once."""

    def __init__(self, reader: Reader, db: str) -> None:
        self._reader = reader
        self._db = db
        self._seen: dict[bytes, bytes | None] = {}

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the rows of these keys, None for an absent one."""
        seen = self._seen
        cold = [key for key in keys if key not in seen] if seen else keys
        if cold:
            seen.update(zip(cold, self._reader.get_many(self._db, cold), strict=True))
        return list(map(seen.__getitem__, keys))


class _InColumns(Exception):
    """Raised when the columns have to decide."""


@dataclass(slots=True)
class _Moving:
    """The changes of one group: items added and removed by position, and the changes of its accumulators."""

    come: dict[int, Item] = field(default_factory=dict)
    gone: dict[int, Item] = field(default_factory=dict)
    n: int = 0  # change of the number of contributions
    moves: list[tuple[int, int]] = field(default_factory=list)  # (1 or −1, index of the contribution on that side)


@dataclass(slots=True)
class _Held:
    """A group after its change: all its contributions and its accumulators."""

    items: list[Item]
    totals: list[State]


class SmallGroups:
    """The fold of a few contributions to the small groups of one view."""

    def __init__(
        self,
        name: str,
        codec: RowCodec,
        rows: TreeRows,
        fields: Sequence[Field],
        stamped: bool,
        values: Sequence[ValueTree],
    ) -> None:
        self._where = f"view {name!r}"
        self._codec = codec
        self._rows = rows
        self._fields = tuple(fields)
        self._stamped = stamped
        self._values = tuple(values)
        self._totals: list[tuple[Moved, Field, int]] = []  # the accumulators, with the places of their cells
        accumulators = [(i, cell) for i, cell in enumerate(codec.cells) if is_accumulator(cell)]
        for i, cell in accumulators:
            moved = getattr(cell, "moved", None)
            if moved is not None:
                self._totals.append((moved, cell.field, i))
        self._able = len(self._totals) == len(accumulators)

    def fold(
        self,
        rows: RowsOnce,
        known: Container[tuple[bytes, int]],
        groups: Groups,
        plus: Contributions,
        minus: Contributions,
    ) -> ChangedRows | None:
        """Return the rows that change, or None if the columns have to decide. `known` names the tries with nodes."""
        if not self._able:
            return None
        try:
            moving = self._moving(plus, minus)
            codes = sorted(moving)
            keys = [groups.stored[code] for code in codes]
            if any((key, CONTRIBUTIONS) in known for key in keys):
                return None
            raw = rows.get_many(keys)
            old = self._rows.read(keys, raw, self._where)
            moved = [moving[code] for code in codes]
            old_n = [0 if state is None else state.n for state in old]
            n = [was + own.n for was, own in zip(old_n, moved, strict=True)]
            if any(was + len(own.come) > trees.CAPACITY for was, own in zip(old_n, moved, strict=True)):
                return None
            own = np.array(codes, np.int64), np.array(old_n, np.int64), np.array(n, np.int64)
            batch = TreeBatch(own[0], keys, raw, old, own[1], own[2], groups)
            held = self._held(old, n, moved, self._read_totals(plus, minus))
        except _InColumns:
            return None
        leaves = [_leaf(one.items, len(self._fields)) for one in held]
        states = self._cell_states(batch, held)
        ints = not self._values and all(plain for _, plain in leaves) and not states.errors and _only_ints(states)
        return self._rows.settled(batch, states, ints, lambda place: leaves[place][0])

    # -- changes

    def _moving(self, plus: Contributions, minus: Contributions) -> dict[int, _Moving]:
        """Return the changes by group. Groups whose contributions stay the same are left out."""
        out: dict[int, _Moving] = {}
        for sign, side in ((1, plus), (-1, minus)):
            if not side.n:
                continue
            for i, (code, item) in enumerate(zip(side.code.tolist(), _items_of(side, self._fields), strict=True)):
                own = out.setdefault(code, _Moving())
                here = own.come if sign > 0 else own.gone
                if item[0] in here:
                    raise _InColumns
                here[item[0]] = item
                own.n += sign
                own.moves.append((sign, i))
        for code, own in list(out.items()):
            for at in own.come.keys() & own.gone.keys():
                before, after = own.gone.pop(at), own.come[at]
                _check_same(before, after)
                if not self._stamped and _are_equal(before[4], after[4]):
                    del own.come[at]
            if not (own.come or own.gone):
                del out[code]
        return out

    def _read_totals(self, plus: Contributions, minus: Contributions) -> dict[int, list[list[Any]]]:
        """Return by sign, for each accumulator, the values that it reads."""
        return {
            sign: [side.inputs[field].values() if side.n else [] for _, field, _ in self._totals]
            for sign, side in ((1, plus), (-1, minus))
        }

    def _held(
        self, old: list[RowState | None], n: list[int], moved: list[_Moving], read: dict[int, list[list[Any]]]
    ) -> list[_Held]:
        """Return the groups after the change."""
        before = self._items(old)
        out: list[_Held] = []
        for place, own in enumerate(moved):
            here = {item[0]: item for item in before[place]}
            if len(here) != len(before[place]):
                raise _InColumns
            for at, item in own.gone.items():
                _check_same(here.pop(at, None), item)
            for at, item in own.come.items():
                _check_same(here.get(at, item), item)
                here[at] = item
            if len(here) != n[place]:
                raise _InColumns  # the columns report the damage
            out.append(_Held(sorted(here.values(), key=_AT), self._moved(old[place], own.moves, read)))
        return out

    def _items(self, old: list[RowState | None]) -> list[list[Item]]:
        """Return the contributions in these rows."""
        out: list[list[Item]] = []
        for state in old:
            if state is not None and state.items is None:
                raise _InColumns
            out.append([] if state is None or state.items is None else _of_leaf(state.items, len(self._fields)))
        return out

    def _moved(
        self, old: RowState | None, moves: list[tuple[int, int]], read: dict[int, list[list[Any]]]
    ) -> list[State]:
        """Return the accumulators of a group after its change."""
        out: list[State] = []
        for j, (moved, _, i) in enumerate(self._totals):
            a, b = self._codec.spans[i]
            state: State = tuple([0] * (b - a) if old is None else old.lanes[a:b]), None
            if old is not None and old.spills is not None:
                state = state[0], old.spills[i]
            for sign, which in moves:
                state = moved(state, read[sign][j][which], sign)
            out.append(state)
        return out

    # -- results

    def _cell_states(self, batch: TreeBatch, held: list[_Held]) -> CellStates:
        """Return the states of the groups, cell by cell."""
        full = [place for place, one in enumerate(held) if one.items]
        leaves = _SmallLeaves(
            [held[place].items for place in full], self._fields, [batch.value(place) for place in full]
        )
        spills: list[list[list[Any] | None]] = [[None] * len(self._codec.cells) for _ in held]
        errors: dict[int, str] = {}
        totals = values = 0
        for i, cell in enumerate(self._codec.cells):
            if is_accumulator(cell):
                for place in full:
                    spills[place][i] = held[place].totals[totals][1]
                totals += 1
                continue
            if not is_tree_cell(cell):
                answers: list[list[Any] | None] = [spill for _, spill in leaves.settled(self._values[values])]
                values += 1
                failed: dict[int, str] = {}
            else:
                answers, failed = answers_of(cell, leaves.folded(cell))
            for at, place in enumerate(full):
                spills[place][i] = answers[at]
                if at in failed:
                    errors.setdefault(place, failed[at])
        lanes = [[lane for state in one.totals for lane in state[0]] for one in held]
        return CellStates(lanes, spills, [], errors)


class _SmallLeaves:
    """The contributions of groups in the form in which cells read leaves."""

    def __init__(self, groups: Sequence[list[Item]], fields: Sequence[Field], values: list[Any]) -> None:
        self._items = [item for own in groups for item in own]
        starts = [0]
        for own in groups:
            starts.append(starts[-1] + len(own))
        self._ends = starts
        self.starts: Ints = np.array(starts[:-1], np.int64)
        self._fields = tuple(fields)
        self._columns: dict[Field, Column] = {}
        self._groups = values

    def column(self, field: Field) -> Column:
        """Return the values of a field."""
        found = self._columns.get(field)
        if found is None:
            found = self._columns[field] = Column.of(self._read(field))
        return found

    def _read(self, field: Field) -> list[Any]:
        if field in self._fields:
            i = self._fields.index(field)
            return [item[4][i] for item in self._items]
        return read_column(field, self._fields, self.column, len(self._items)).values()

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Return the sources of the contributions at these indexes."""
        some = [self._items[i] for i in at.tolist()]
        return [(encode_key(lane) if text is None else text, rank) for _, lane, text, rank, _ in some]

    def groups(self) -> list[Any]:
        """Return the group of each leaf."""
        return self._groups

    def folded(self, cell: TreeCell) -> list[Any]:
        """Return the partial of each group."""
        fold = getattr(cell, "fold_small", None)
        if fold is None:
            return cell.fold(self).values() if self._groups else []
        values, ends = self._read(cell.field), self._ends
        return [fold(values[a:b]) for a, b in pairwise(ends)]

    def settled(self, tree: ValueTree) -> list[Settled]:
        """Return the answer of each group to a value cell."""
        values, ends = self._read(tree.cell.field), self._ends
        return [tree.small_one(Column.of(values[a:b])) for a, b in pairwise(ends)]


# -- items


def _items_of(side: Contributions, fields: Sequence[Field]) -> list[Item]:
    """Return contributions as items."""
    sources = side.sources
    if sources is None or sources.keys.text is not None or sources.rank is not None:
        return _listed(items_of(side, side.code, fields))
    columns = [side.inputs[f].values() if f in side.inputs else [0] * side.n for f in fields]
    lanes = sources.keys.lane[sources.index].tolist()
    rows = _rows(columns, side.n)
    return [(mix_one(lane & _MASK64), lane, None, 0, own) for lane, own in zip(lanes, rows, strict=True)]


def _of_leaf(leaf: Sequence[Any], columns: int) -> list[Item]:
    """Return the contributions of a leaf."""
    keys, ranks, parts = leaf
    if type(keys) is not bytes or ranks is not None:
        return _listed(read_leaves([leaf], columns))
    n = len(keys) >> 3
    lanes = unpack(f"<{n}q", keys)
    rows = _rows([short_column_values(part, n) for part in parts], n)
    return [(mix_one(lane & _MASK64), lane, None, 0, own) for lane, own in zip(lanes, rows, strict=True)]


def _rows(columns: Sequence[Sequence[Any]], n: int) -> Sequence[tuple[Any, ...]]:
    """Transpose columns into rows. Without columns, return n empty rows."""
    return list(zip(*columns, strict=True)) if columns else [()] * n


def _listed(items: Items) -> list[Item]:
    """Return items of columns as tuples."""
    n = len(items)
    text = [None] * n if items.text is None else items.text.tolist()
    rank = [0] * n if items.rank is None else items.rank.tolist()
    rows = _rows([column.values() for column in items.columns], n)
    return list(zip(items.at.tolist(), items.lane.tolist(), text, rank, rows, strict=True))


def _check_same(one: Item | None, other: Item) -> None:
    """Require two items at one position to have one source. Otherwise let the columns decide."""
    if one is None or one[1:4] != other[1:4]:
        raise _InColumns


def _are_equal(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Compare values by their lanes. Values outside lanes count as different."""
    lanes = list(map(lane_of, some))
    return lanes == list(map(lane_of, others)) and all(kind < LaneKind.BIG for _, kind in lanes)


def _leaf(items: list[Item], columns: int) -> tuple[list[Any], bool]:
    """Return a leaf as data for another row, and True if all its values are ints or nulls."""
    n = len(items)
    lanes = [item[1] for item in items]
    keys: Any = pack(f"<{n}q", *lanes)
    if any(item[2] is not None for item in items):
        keys = [pack(f"<{n}Q", *map(_AT, items)), [lane if i[2] is None else i[2] for lane, i in zip(lanes, items)]]
    ranks = [item[3] for item in items]
    parts = [short_column([item[4][i] for item in items]) for i in range(columns)]
    leaf = [keys, pack(f"<{n}I", *ranks) if any(ranks) else None, [part for part, _ in parts]]
    return leaf, all(plain for _, plain in parts)


def _only_ints(states: CellStates) -> bool:
    """Return True if all spills of the groups are single 64-bit ints."""
    spills = (spill for own in states.spills for spill in own if spill is not None)
    return all(len(spill) == 1 and type(spill[0]) is int and lane_of(spill[0])[1] is LaneKind.INT for spill in spills)
