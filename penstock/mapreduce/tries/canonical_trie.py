"""Canonical tries of items: which nodes a change touches, what becomes of them, and what they fold to.

A group's items stand in a trie by the 64 bits of their positions, four a level. A node with at most CAPACITY items is a
leaf that holds them; over that it has a child for each next digit that occurs, and knows of each its number of items
and its partials. So the shape follows from the items alone. A node's address is computed from the group, the trie and
the node's prefix. A root that is a leaf has no row of its own: it stands in the row of its group. Invariants:

- `change` is pure: it reads nodes through `Fetch`, and gives the rows of all nodes that are not what they were;
- a node is an inner node exactly while it has more than CAPACITY items and bits to tell them apart;
- a batch reads the nodes of all paths that it touches at once, as deep as `depth` is known or guessed; what lies
  deeper is read once it shows, and `depth` is then known.
"""

from __future__ import annotations

import numpy as np

from penstock.mapreduce.columns.items import Ints, Items, Mask
from penstock.mapreduce.nodes.node_format import Node, is_inner, node_lost, read_nodes
from penstock.mapreduce.nodes.node_levels import Fetch, Folding, Grown, Tries, address
from penstock.mapreduce.tries.inline_trie import grown_inline, stays_inline
from penstock.mapreduce.tries.trie_update import Work
from penstock.mapreduce.tries.trie_update_small import FEW, FewWork


class Trie:
    """One kind of trie of a view: how its items fold, and how many columns they have.

    In one that `counts`, the one column is added to what is there, and an item of 0 is gone; its root has a row always.
    """

    def __init__(self, number: int, columns: int, folding: Folding, counts: bool = False) -> None:
        self._number = number
        self._columns = columns
        self._folding = folding
        self._counts = counts

    def change(self, fetch: Fetch, tries: Tries, inline: Items, new: Items, gone: Mask) -> Grown:
        """Lay `new` over the items of these tries, where `gone` holds remove; `inline` are those without nodes."""
        if not self._counts and stays_inline(tries, new, gone):
            return grown_inline(self._folding, tries, inline, new, gone)
        work = self._work(fetch, tries, new)
        return work.folded(work.merged(inline, new, gone, *work.find_leaves(new)))

    def found(self, fetch: Fetch, tries: Tries, inline: Items, asked: Items) -> tuple[Items, Ints]:
        """Items among which are those that are asked for, where they are there; for each its place in them, or -1."""
        work = self._work(fetch, tries, asked)
        leaves = work.merged(inline, asked, np.ones(len(asked), bool), *work.find_leaves(asked))
        return leaves.before, leaves.was

    def _work(self, fetch: Fetch, tries: Tries, items: Items) -> Work:
        kind = FewWork if 0 < len(items) <= FEW else Work
        return kind(self._number, self._columns, self._folding, self._counts, fetch, tries)

    def items(self, fetch: Fetch, key: bytes) -> Items:
        """All items of a group that has nodes, in order, each level by one read; `node` is 0."""
        found: list[tuple[int, Node]] = []
        level, depth = [0], 0
        while level:
            rows = fetch([address(key, self._number, prefix, depth) for prefix in level])
            inner: list[Node] = []
            for prefix, row in zip(level, rows):
                if row is None:
                    raise node_lost(address(key, self._number, prefix, depth))
                if is_inner(row):
                    inner.append(row)
                else:
                    found.append((prefix, row))
            children = read_nodes(inner, 1 + self._folding.partials)
            level, depth = children.at.tolist(), depth + 1
        items = read_nodes([row for _, row in sorted(found)], self._columns)
        return items.moved(np.zeros(len(items), np.int64))
