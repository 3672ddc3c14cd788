"""The nodes of a view's trees in one snapshot: the stored nodes with the log applied.

The replay of the log recreates the nodes that its batches made. A trie's shape and rows depend on its items only, and
the log holds the last state of each changed item. The replay needs no memory of the writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.cache import Reader, decode_key, stored_key, unseal
from penstock.mapreduce.columns.items import Items
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Node, packed
from penstock.mapreduce.nodes.node_levels import Tries
from penstock.mapreduce.nodes.node_log import NodeLog, read_log
from penstock.mapreduce.tries.canonical_trie import Trie
from penstock.mapreduce.tries.partials import CellFolding, Field, GroupOf
from penstock.mapreduce.tries.value_trie import ValueMoves, ValueTree
from penstock.views import TreeCell

CONTRIBUTIONS = 0
"""The number of a group's trie of contributions. The tries of its values follow."""


def nodes_db(view: int) -> str:
    """Return the name of the database with the nodes of a view's trees."""
    return f"tree:{view}"


def node_log_db(view: int) -> str:
    """Return the name of the database with the log of changes since nodes were last written."""
    return f"behind:{view}"


class TreeNodes:
    """The trees of one view, with stored nodes and logged changes."""

    def __init__(
        self, view: int, cells: Sequence[TreeCell], fields: Sequence[Field], value_trees: Sequence[ValueTree]
    ) -> None:
        self._view = view
        self._cells = tuple(cells)
        self._fields = tuple(fields)
        self._value_trees = tuple(value_trees)

    def trie(self, group_of: GroupOf) -> Trie:
        """Return the trie of contributions. `group_of` gives cells the group at a place."""
        return Trie(CONTRIBUTIONS, len(self._fields), CellFolding(self._cells, self._fields, group_of))

    def read_node_log(self, reader: Reader) -> NodeLog:
        """Recreate from the log the nodes of a snapshot that are not written yet."""
        behind = NodeLog(nodes_db(self._view), node_log_db(self._view))
        found = read_log(reader, node_log_db(self._view), len(self._fields))
        if found is None:
            behind.begin(reader, {}, 0)
            return behind
        names, new, removed = found
        keys = [stored_key(name) for name in names]

        def fetch(nodes: list[bytes]) -> list[Node | None]:
            return behind.get_many(reader, nodes)

        none = np.zeros(len(keys), np.int64)
        deep = Tries(keys, none + trees.CAPACITY + 1, none)
        trie = self.trie(lambda place: decode_key(names[place]))
        grown = trie.change(fetch, deep, Items.none(len(self._fields)), new, removed)
        hit = np.flatnonzero(grown.was >= 0)
        moved = ValueMoves(grown.before.take(grown.was[hit]).moved(new.node[hit]), new.take(~removed))
        nodes = dict(grown.nodes)
        for tree in self._value_trees:
            nodes.update(tree.change(fetch, Tries(keys, none, none), moved).grown.nodes)
        behind.begin(reader, nodes, len(new))
        return behind

    def all(self, reader: Reader) -> Iterator[tuple[bytes, bytes]]:
        """Yield the address and payload of all nodes of a snapshot, sorted by address."""
        behind = self.read_node_log(reader).nodes
        db = nodes_db(self._view)
        late = ((key, behind[key]) for key in sorted(behind))
        ahead = next(late, None)
        for key, row in reader.scan(db):
            while ahead is not None and ahead[0] < key:
                if ahead[1] is not None:
                    yield ahead[0], packed(ahead[1])
                ahead = next(late, None)
            if key not in behind:
                yield key, unseal(key, row, db)
        while ahead is not None:
            if ahead[1] is not None:
                yield ahead[0], packed(ahead[1])
            ahead = next(late, None)
