"""Deferred items: changes of large groups that are in the log and not yet applied to the nodes.

A group's row often follows without its tree: it has accumulators only, or enough of its greatest values stay. Then
the batch writes its items to the log and defers them here. They are applied when the tree is read, or when many are
deferred. So a leaf is rewritten once for all its deferred items. Invariants:

- the committed log equals the stored nodes plus the nodes in memory plus the deferred items;
- before a batch changes nodes of a group, the deferred items of that group are applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.filtered_column import read_column
from penstock.mapreduce.columns.items import Ints, Items, Mask
from penstock.mapreduce.fold.row_format import RowCodec
from penstock.mapreduce.maps.emissions import Contributions
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_log import last_of_each
from penstock.mapreduce.trees.batch_items import Side
from penstock.mapreduce.trees.changed_rows import TreeBatch
from penstock.views import TreeCell, Values, is_tree_cell, plain_fields

MOST = 1 << 16
"""Limit of deferred items; at the limit all are applied. A batch with more than half of it defers none."""
_ITEM, _GROUP = 60, 200


@dataclass(slots=True)
class WaitingItems:
    """Deferred items of groups with nodes. `gone` marks removals. `counts` is the number of items of each group."""

    keys: list[bytes]
    counts: Ints
    items: Items
    gone: Mask

    @classmethod
    def of(cls, keys: Sequence[bytes], counts: Ints, items: Items, gone: Mask, groups: Mask) -> WaitingItems:
        """Select the items of some groups, each of which has at least one."""
        own = groups[items.node]
        waiting = items.take(own)
        place = np.cumsum(groups) - 1
        which = np.flatnonzero(groups)
        names = [keys[i] for i in which.tolist()]
        return cls(names, counts[which], waiting.moved(place[waiting.node]), gone[own])


@dataclass(slots=True)
class KnownRoots:
    """The groups of a batch whose rows follow without their trees, with the partials of their roots."""

    groups: Mask
    partials: tuple[Column, ...]


def stepped(codec: RowCodec, batch: TreeBatch, plus: Side, minus: Side) -> KnownRoots | None:
    """Return the groups with nodes before and after whose partials follow from these contributions, or None."""
    groups = (batch.old_n > trees.CAPACITY) & (batch.n > trees.CAPACITY)
    groups &= np.fromiter((s is None or s.held is None for s in batch.old), bool, len(batch.old))
    partials: list[Column] = []
    for i, cell in enumerate(codec.cells):
        if not groups.any():
            return None
        if is_tree_cell(cell):
            found = _stepped(cell, i, batch, plus, minus)
            if found is None:
                return None
            partials.append(found[0])
            groups &= found[1]
    return KnownRoots(groups, tuple(partials)) if groups.any() else None


def _stepped(cell: TreeCell, i: int, batch: TreeBatch, plus: Side, minus: Side) -> tuple[Column, Mask] | None:
    came, went = (_input(side, cell) for side, _ in (plus, minus))
    if came is None or went is None:
        return None
    spills = (None if s is None or s.spills is None else s.spills[i] for s in batch.old)
    before = Column.of([None if spill is None else spill[0] for spill in spills])
    found = cell.stepped(before, came, plus[1], went, minus[1])
    if found is None:
        return None
    column, sure = found
    assert isinstance(column, Column), "cells fold columns to columns"
    return column, sure


def _input(side: Contributions, cell: TreeCell) -> Values | None:
    """Return the values that a cell folds, or None if they are part of a whole value."""
    if not side.n:
        return Column(np.zeros(0, np.int64))
    inputs = side.inputs
    if cell.field in inputs or not all(plain in inputs for plain in plain_fields(cell.field)):
        return inputs.get(cell.field)
    return read_column(cell.field, inputs, inputs.__getitem__, side.n)


class DeferredItems:
    """The deferred items of one view."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._counts: list[int] = []  # by the numbers of groups
        self._parts: list[tuple[Items, Mask]] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return _ITEM * self._n + _GROUP * len(self._counts)

    def add(self, waiting: WaitingItems) -> None:
        """Defer these committed items. They follow all items deferred before."""
        numbers, counts = self._numbers, self._counts
        for key, count in zip(waiting.keys, waiting.counts.tolist(), strict=True):
            number = numbers.setdefault(key, len(counts))
            if number == len(counts):
                counts.append(count)
            counts[number] = count
        number_of = np.fromiter(map(numbers.__getitem__, waiting.keys), np.int64, len(waiting.keys))
        self._parts.append((waiting.items.moved(number_of[waiting.items.node]), waiting.gone))
        self._n += len(waiting.items)

    def take(self, keys: Iterable[bytes]) -> WaitingItems | None:
        """Remove and return the deferred items of these groups, the last one per source."""
        asked = [number for key in keys if (number := self._numbers.get(key)) is not None]
        if not asked:
            return None
        wanted = np.zeros(len(self._counts), bool)
        wanted[asked] = True
        items, gone = self._joined()
        own = wanted[items.node]
        rest = ~own
        self._parts = [(items.take(rest), gone[rest])]
        self._n = int(rest.sum())
        return self._waiting(items.take(own), gone[own])

    def take_all(self) -> WaitingItems | None:
        """Remove and return all deferred items, the last one per source."""
        waiting = self._waiting(*self._joined()) if self._parts else None
        self._numbers, self._counts, self._parts, self._n = {}, [], [], 0
        return waiting

    def _joined(self) -> tuple[Items, Mask]:
        return Items.join([items for items, _ in self._parts]), np.concatenate([gone for _, gone in self._parts])

    def _waiting(self, items: Items, gone: Mask) -> WaitingItems | None:
        if not len(items):
            return None
        items, gone = last_of_each(items, gone)
        used, place = np.unique(items.node, return_inverse=True)
        names: Sequence[bytes] = list(self._numbers)
        keys = [names[number] for number in used.tolist()]
        return WaitingItems(
            keys, np.array(self._counts, np.int64)[used], items.moved(place.ravel().astype(np.int64)), gone
        )
