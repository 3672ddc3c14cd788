"""What came to and went from large groups, and is not laid over their nodes yet.

A group's row can often be told without its tree: it has accumulators alone, or its greatest value did not go. What
came and went then stands in the log of the batch, and waits here until the group's tree is asked, or much waits. So a
leaf is made once for all that waited, not once a batch. Invariants:

- the nodes of the store, with those behind and what waits laid over them, are what the committed log says;
- before a batch changes nodes of a group, what waits for that group is laid over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Ints, Items, Mask
from penstock.mapreduce.fold.row_format import RowCodec
from penstock.mapreduce.maps.emissions import Contributions
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_log import last_of_each
from penstock.mapreduce.trees.batch_items import Side
from penstock.mapreduce.trees.tree_rows import TreeBatch
from penstock.views import TreeCell, Values, is_tree_cell

MOST = 1 << 16
"""Items that wait before all are laid over their nodes; a batch of more than half of that doesn't let any wait."""
_ITEM, _GROUP = 60, 200


@dataclass(slots=True)
class Waiting:
    """Items that come to groups with nodes, and where `gone` holds go: the groups' keys, how many items each has."""

    keys: list[bytes]
    counts: Ints
    items: Items
    gone: Mask

    @classmethod
    def of(cls, keys: Sequence[bytes], counts: Ints, items: Items, gone: Mask, groups: Mask) -> Waiting:
        """Those of some of the groups, each of which has any."""
        own = groups[items.node]
        waiting = items.take(own)
        place = np.cumsum(groups) - 1
        which = np.flatnonzero(groups)
        names = [keys[i] for i in which.tolist()]
        return cls(names, counts[which], waiting.moved(place[waiting.node]), gone[own])


@dataclass(slots=True)
class Sure:
    """The groups of a batch whose rows are told without their trees, and what their roots fold to."""

    groups: Mask
    partials: tuple[Column, ...]


def stepped(codec: RowCodec, batch: TreeBatch, plus: Side, minus: Side) -> Sure | None:
    """The groups that have nodes before and after, and whose partials follow from these contributions; None: none."""
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
    return Sure(groups, tuple(partials)) if groups.any() else None


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
    """The values that a cell folds of contributions; None where they stand in a whole value."""
    return side.inputs.get(cell.field) if side.n else Column(np.zeros(0, np.int64))


class Late:
    """What waits, of one view."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._counts: list[int] = []  # by the numbers of groups
        self._parts: list[tuple[Items, Mask]] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Bytes in use, about."""
        return _ITEM * self._n + _GROUP * len(self._counts)

    def add(self, waiting: Waiting) -> None:
        """Let these wait, the last of all; they are committed."""
        numbers, counts = self._numbers, self._counts
        for key, count in zip(waiting.keys, waiting.counts.tolist(), strict=True):
            number = numbers.setdefault(key, len(counts))
            if number == len(counts):
                counts.append(count)
            counts[number] = count
        number_of = np.fromiter(map(numbers.__getitem__, waiting.keys), np.int64, len(waiting.keys))
        self._parts.append((waiting.items.moved(number_of[waiting.items.node]), waiting.gone))
        self._n += len(waiting.items)

    def take(self, keys: Iterable[bytes]) -> Waiting | None:
        """What waits for these groups, the last of each item, and waits no longer."""
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

    def take_all(self) -> Waiting | None:
        """All that waits, the last of each item."""
        waiting = self._waiting(*self._joined()) if self._parts else None
        self._numbers, self._counts, self._parts, self._n = {}, [], [], 0
        return waiting

    def _joined(self) -> tuple[Items, Mask]:
        return Items.join([items for items, _ in self._parts]), np.concatenate([gone for _, gone in self._parts])

    def _waiting(self, items: Items, gone: Mask) -> Waiting | None:
        if not len(items):
            return None
        items, gone = last_of_each(items, gone)
        used, place = np.unique(items.node, return_inverse=True)
        names: Sequence[bytes] = list(self._numbers)
        keys = [names[number] for number in used.tolist()]
        return Waiting(keys, np.array(self._counts, np.int64)[used], items.moved(place.ravel().astype(np.int64)), gone)
