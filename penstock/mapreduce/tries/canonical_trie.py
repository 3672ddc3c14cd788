"""Canonical tries of items: the nodes that a change touches, their next contents and their partials.

The trie orders a group's items by the 64 bits of their positions, four bits per level. A node with at most CAPACITY
items is a leaf. A larger node has one child per occurring digit, and stores each child's count and partials. So the
items alone determine the shape. A node's address consists of group, trie and prefix. A root that is a leaf is stored
in the row of its group. Invariants:

- `change` is pure: it reads nodes through `Fetch` and returns the rows of all changed nodes;
- a node is an inner node if and only if it has more than CAPACITY items and bits that separate them;
- a batch reads all touched paths at once, down to the known or estimated `depth`. Deeper nodes are read when found,
  and their `depth` is then known.
"""

from __future__ import annotations

import numpy as np

from penstock.mapreduce.columns.items import Ints, Items, Mask
from penstock.mapreduce.nodes.node_format import Node, is_inner, node_lost, read_nodes
from penstock.mapreduce.nodes.node_levels import Fetch, Folding, NewNodes, Tries, address
from penstock.mapreduce.tries.inline_trie import grown_inline, stays_inline
from penstock.mapreduce.tries.path_refold import TrieUpdate
from penstock.mapreduce.tries.small_trie_update import FEW, SmallTrieUpdate


class Trie:
    """One kind of trie of a view, with its folding and its number of columns.

    A trie that `counts` adds its one column to the stored one, and drops items at 0. Its root always has a row.
    """

    def __init__(self, number: int, columns: int, folding: Folding, counts: bool = False) -> None:
        self._number = number
        self._columns = columns
        self._folding = folding
        self._counts = counts

    def change(self, fetch: Fetch, tries: Tries, inline: Items, new: Items, gone: Mask) -> NewNodes:
        """Add `new` to these tries, or remove it where `gone` is set. `inline`: items of tries without nodes."""
        if not self._counts and stays_inline(tries, new, gone):
            return grown_inline(self._folding, tries, inline, new, gone)
        work = self._work(fetch, tries, new)
        return work.folded(work.merged(inline, new, gone, *work.find_leaves(new)))

    def found(self, fetch: Fetch, tries: Tries, inline: Items, asked: Items) -> tuple[Items, Ints]:
        """Return items that include the ones asked for, and for each of these its index among them, or -1."""
        work = self._work(fetch, tries, asked)
        leaves = work.merged(inline, asked, np.ones(len(asked), bool), *work.find_leaves(asked))
        return leaves.before, leaves.was

    def _work(self, fetch: Fetch, tries: Tries, items: Items) -> TrieUpdate:
        kind = SmallTrieUpdate if 0 < len(items) <= FEW else TrieUpdate
        return kind(self._number, self._columns, self._folding, self._counts, fetch, tries)

    def items(self, fetch: Fetch, key: bytes) -> Items:
        """Return all items of a group with nodes, sorted, with one read per level. `node` is 0."""
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
