"""The second tree of a group: its values in order with their counts, for value cells.

A group whose contributions are in its row has no such tree: its answers follow from them. A larger group has one trie
for each value cell, and its row holds the number of distinct values. The item of a value has the value's code as
position, the bytes that equal values share as key, and the count as its one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Items, Texts, sort_order
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Node, is_inner, node_lost, read_nodes
from penstock.mapreduce.nodes.node_levels import Fetch, NewNodes, Tries, address
from penstock.mapreduce.tries.canonical_trie import Trie
from penstock.mapreduce.tries.partials import Field, ValueTally, field_of
from penstock.views import ValueCell

Counted = list[tuple[int, bytes, int]]  # code, bytes, count
Settled = tuple[int | None, list[Any] | None]  # the number of distinct values if there is a trie, and the spill


@dataclass(slots=True)
class ValueMoves:
    """Items that trees of contributions gained and lost, by group."""

    minus: Items
    plus: Items


@dataclass(slots=True)
class ValueTrieChanges:
    """The changed tries of one cell, with the place of each group in the batch and its former trie."""

    places: list[int]
    known: Tries
    grown: NewNodes


class ValueTree:
    """The value trees of one cell of a view."""

    def __init__(self, cell: ValueCell, fields: Sequence[Field], number: int) -> None:
        self.cell = cell
        self._fields = tuple(fields)  # the fields of contributions
        self.number = number
        self.tally = ValueTally(cell)
        self._trie = Trie(number, 1, self.tally, counts=True)

    def small(self, inline: Items, starts: Sequence[int], places: Sequence[int]) -> dict[int, Settled]:
        """Return the answers of these groups, whose contributions are in their rows and begin at `starts`."""
        column = field_of(inline, self._fields, self.cell.field)
        out: dict[int, Settled] = {}
        for place in places:
            own = column.part(starts[place], starts[place + 1])
            out[place] = self.small_one(own)
        return out

    def small_one(self, column: Column) -> Settled:
        """Return the answer of a group with these values, which are in its row."""
        return None, self.answered(_counted(self.cell, column))

    def change(self, fetch: Fetch, tries: Tries, moved: ValueMoves) -> ValueTrieChanges:
        """Change the tries of groups whose values changed. `tries` counts each group's distinct values."""
        if not (len(moved.minus) or len(moved.plus)):
            return _unmoved()
        new = self._deltas(moved)
        places = np.unique(new.node)
        known = tries.take(places)
        new = new.moved(np.searchsorted(places, new.node))
        grown = self._trie.change(fetch, known, Items.none(1), new, np.zeros(len(new), bool))
        return ValueTrieChanges(places.tolist(), known, grown)

    def settled(self, fetch: Fetch, changed: ValueTrieChanges) -> dict[int, Settled]:
        """Return by place the answer of each group whose values changed."""
        return {
            place: self._settled(fetch, key, changed.grown, i)
            for i, (place, key) in enumerate(zip(changed.places, changed.known.keys, strict=True))
        }

    def _settled(self, fetch: Fetch, key: bytes, grown: NewNodes, i: int) -> Settled:
        distinct = int(grown.items[i])
        if distinct <= trees.CAPACITY:
            a, b = np.searchsorted(grown.inline.node, [i, i + 1]).tolist()
            return distinct, self.answered(listed(grown.inline.take(np.arange(a, b))))

        def read(nodes: list[bytes]) -> list[Node | None]:
            cold = [node for node in nodes if node not in grown.nodes]
            found = dict(zip(cold, fetch(cold))) if cold else {}
            return [grown.nodes[node] if node in grown.nodes else found[node] for node in nodes]

        total = int(grown.partials[0].lane[i])
        if self.cell.tallies:
            return distinct, self.cell.answer(total, distinct, grown.partials[1].take(np.array([i])).values())
        return distinct, self.answer(read, key, distinct, total)

    def answer(self, fetch: Fetch, key: bytes, distinct: int, total: int) -> list[Any] | None:
        """Return the spill of a group whose values are in nodes. Each place asked costs one path."""
        found = [self._at(fetch, key, place) for place in self.cell.asked(total)]
        return self.cell.answer(total, distinct, found)

    def _at(self, fetch: Fetch, key: bytes, place: int) -> bytes:
        prefix = depth = 0
        while True:
            row = fetch([address(key, self.number, prefix, depth)])[0]
            if row is None:
                raise node_lost(address(key, self.number, prefix, depth))
            if not is_inner(row):
                return self._nth(listed(read_nodes([row], 1)), place)
            children = read_nodes([row], 2)
            upto = np.cumsum(children.columns[1].lane)
            i = int(np.searchsorted(upto, place, "right"))
            place -= int(upto[i - 1]) if i else 0
            prefix, depth = int(children.at[i]), depth + 1

    def _nth(self, values: Counted, place: int) -> bytes:
        for _, data, count in self._sorted(values):
            if place < count:
                return data
            place -= count
        raise AssertionError("the counts of a node add up to what its parent says")

    def _sorted(self, values: Counted) -> Counted:
        key = self.cell.sort_key
        return sorted(values, key=lambda v: (v[0], key(v[1])))

    def counted(self, items: Items) -> Counted:
        """Return the values for the trie of a group with these contributions."""
        return _counted(self.cell, field_of(items, self._fields, self.cell.field))

    def answered(self, values: Counted) -> list[Any] | None:
        """Return the spill of a group with these values."""
        total = sum(count for _, _, count in values)
        if self.cell.tallies:
            return self.cell.answer(total, len(values), [self.cell.tallied([data for _, data, _ in values])])
        ordered = self._sorted(values)
        asked = self.cell.asked(total)
        return self.cell.answer(total, len(ordered), [self._nth(ordered, place) for place in asked])

    def _deltas(self, moved: ValueMoves) -> Items:
        """Return the changes of counts, one item for each group and value."""
        rows: list[tuple[int, int, bytes, int]] = []
        for items, sign in ((moved.minus, -1), (moved.plus, 1)):
            entries = self.cell.entries(field_of(items, self._fields, self.cell.field))
            rows += [(place, *entry, sign) for place, entry in zip(items.node.tolist(), entries) if entry is not None]
        n = len(rows)
        text: Texts = np.empty(n, object)
        text[:] = [data for _, _, data, _ in rows]
        node = np.fromiter((place for place, _, _, _ in rows), np.int64, n)
        at = np.fromiter((code for _, code, _, _ in rows), np.uint64, n)
        signs = np.fromiter((sign for _, _, _, sign in rows), np.int64, n)
        return _summed(Items(node, at, np.zeros(n, np.int64), text, None, (Column(signs),)))


def _summed(items: Items) -> Items:
    """Sort items, and add the counts of equal ones. Items whose counts add up to 0 are left out."""
    if not len(items):
        return items
    items = items.take(sort_order(items))
    assert items.text is not None, "values stand by their bytes"
    here, after = np.arange(len(items) - 1), np.arange(1, len(items))
    same = (items.node[here] == items.node[after]) & (items.at[here] == items.at[after])
    same[same] = items.text[here[same]] == items.text[after[same]]
    starts = np.append(True, ~same).nonzero()[0]
    counts = np.add.reduceat(items.columns[0].lane, starts)
    left = starts[counts != 0]
    out = items.take(left)
    return Items(out.node, out.at, out.lane, out.text, None, (Column(counts[counts != 0]),))


def _unmoved() -> ValueTrieChanges:
    """Return a change of no trie."""
    none, items = np.zeros(0, np.int64), Items.none(1)
    return ValueTrieChanges([], Tries([], none, none), NewNodes({}, none, items, (), items, none, {}))


def _counted(cell: ValueCell, column: Column) -> Counted:
    counts: dict[tuple[int, bytes], int] = {}
    for entry in cell.entries(column):
        if entry is not None:
            counts[entry] = counts.get(entry, 0) + 1
    return [(code, data, count) for (code, data), count in counts.items()]


def listed(items: Items) -> Counted:
    """Return the values in items of a trie of values."""
    if items.text is None:
        assert not len(items), "values stand by their bytes"
        return []
    return list(zip(items.at.tolist(), items.text.tolist(), items.columns[0].lane.tolist()))
