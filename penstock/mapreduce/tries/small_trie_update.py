"""A change of tries by a few items: it walks their paths one by one, not in columns.

Leaves are made in columns. Their parents have at most sixteen children, so plain Python values are enough. The nodes
equal those of the columns. Invariant: if a leaf splits, or a node becomes small enough to be a leaf, the columns do the
whole way up.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Any

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Ints, Items, Texts
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import INNER, Cut, Node, short_column, short_column_values
from penstock.mapreduce.nodes.node_levels import MASKS, Level, NewNodes, address, depths_for
from penstock.mapreduce.tries.path_refold import ChangedLeaves, TrieUpdate

FEW = 16
"""Limit of items of a small change."""
_MASKS: list[int] = MASKS.tolist()
_ONE = np.zeros(1, np.int64)

_Child = tuple[int, int, tuple[Any, ...]]  # prefix, number of items, partials


class SmallTrieUpdate(TrieUpdate):
    """One change of a few items."""

    def find_leaves(self, new: Items) -> tuple[Ints, Texts]:
        """Return the depth of each item's leaf, also of an absent item, and the address of a leaf that has a row."""
        out = np.zeros(len(new), np.int64)
        leaves: Texts = np.empty(len(new), object)
        ways: list[tuple[int, int, int, list[bytes]]] = []  # item, group, known depth, path
        deep = (self._tries.items > trees.CAPACITY) | self._counts
        ahead = np.maximum(depths_for(self._tries.items), self._tries.depth).tolist()
        for i, (place, at) in enumerate(zip(new.node.tolist(), new.at.tolist(), strict=True)):
            if deep[place]:
                known = ahead[place]
                ways.append((i, place, known, [self._address(place, at, depth) for depth in range(known + 1)]))
        self._read(list(dict.fromkeys(key for *_, path in ways for key in path)))
        for i, place, known, path in ways:
            depth, at = 0, int(new.at[i])
            while True:
                if depth == len(path):
                    path.append(self._address(place, at, depth))
                    self._read(path[depth:])
                node = self._have[path[depth]]
                if node is None or node[0] != INNER:
                    break
                self._inner[path[depth]] = node
                depth += 1
                if known < depth:
                    self._depth[place] = depth
            out[i], leaves[i] = depth, path[depth]
        return out, leaves

    def _address(self, place: int, at: int, depth: int) -> bytes:
        return address(self._tries.keys[place], self._number, at & _MASKS[depth], depth)

    def folded(self, leaves: ChangedLeaves) -> NewNodes:
        """Fold from the leaves up to the roots."""
        size = leaves.stop - leaves.start
        flat = leaves.depth == 0
        whole = (size <= trees.CAPACITY) & (leaves.named | flat) & ((size > 0) | ~flat)
        up = self._up_one_by_one(leaves, size) if whole.all() else None
        if up is None:
            return super().folded(leaves)
        nodes, roots = up
        self._nodes.update(nodes)
        counts = [count for _, (_, count, _) in roots]
        partials = zip(*(own for _, (_, _, own) in roots), strict=True)
        level = Level(
            np.array([place for place, _ in roots], np.int64),
            np.zeros(len(roots), np.uint64),
            np.array(counts, np.int64),
            tuple(Column.of(list(values)) for values in partials),
        )
        return self._grown([level], leaves)

    def _up_one_by_one(
        self, leaves: ChangedLeaves, size: Ints
    ) -> tuple[dict[bytes, Node | None], list[tuple[int, _Child]]] | None:
        """Return the nodes on the paths and the root of each group, or None if a node becomes small."""
        nodes: dict[bytes, Node | None] = {}
        levels: dict[int, dict[tuple[int, int], _Child]] = {}
        full = size.nonzero()[0]
        starts = leaves.start[full]
        columns = [column.values() for column in self._fold(leaves.items, starts, leaves.place[full])]
        partials = iter([tuple(column[i] for column in columns) for i in range(full.size)])
        rows = iter(Cut(leaves.items, inner=False).nodes(starts, leaves.stop[full]))
        own = (leaves.place, leaves.depth, leaves.prefix, size, leaves.keys)
        for place, depth, prefix, count, key in zip(*(column.tolist() for column in own), strict=True):
            row = next(rows) if count else None
            if depth >= self._top:
                nodes[key] = row
            levels.setdefault(depth, {})[place, prefix] = prefix, count, next(partials) if count else ()
        for depth in range(max(levels), 0, -1):
            above: dict[tuple[int, int], list[_Child]] = {}
            for (place, prefix), child in levels.get(depth, {}).items():
                above.setdefault((place, prefix & _MASKS[depth - 1]), []).append(child)
            parents = levels.setdefault(depth - 1, {})
            for (place, prefix), children in above.items():
                key = self._address(place, prefix, depth - 1)
                before = self._inner.get(key)
                if before is None:
                    return None
                parent = self._parent(before, children, place)
                if parent is None:
                    return None
                nodes[key], count, folded = parent
                parents[place, prefix] = prefix, count, folded
        return nodes, [(place, child) for (place, _), child in sorted(levels[0].items())]

    def _parent(self, node: Node, changed: list[_Child], place: int) -> tuple[Node, int, tuple[Any, ...]] | None:
        """Return an inner node with the current state of these children, its number of items and its partials.

        Return None if the node became small.
        """
        n = len(node[1]) >> 3
        at = list(struct.unpack(f"<{n}Q", node[1]))
        counts = list(struct.unpack(f"<{n}q", node[2]))
        columns = [list(short_column_values(part, n)) for part in node[3:]]
        for prefix, count, partials in changed:
            i = bisect_left(at, prefix)
            old = slice(i, i + (i < len(at) and at[i] == prefix))  # the former child, or an empty range
            at[old] = [prefix] if count else []
            counts[old] = [count] if count else []
            for column, partial in zip(columns, partials or columns, strict=True):
                column[old] = [partial] if count else []
        n, items = len(at), sum(counts)
        if items <= trees.CAPACITY:
            return None
        parts = [short_column(column)[0] for column in columns]
        row = INNER, struct.pack(f"<{n}Q", *at), struct.pack(f"<{n}q", *counts), *parts
        if self._counts and len(columns) == 1:
            return row, items, (sum(columns[0]),)
        joined = self._join([Column.of(column) for column in columns], _ONE, np.array([place], np.int64))
        return row, items, tuple(column.values()[0] for column in joined)
