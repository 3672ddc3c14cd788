"""Changes of tries without nodes before and after: the contributions stay in the rows of their groups.

Most groups are so small. The result equals that of `Trie.change`, without paths, levels and addresses. Invariant: where
a trie has nodes or may get them, the change is not made here.
"""

from __future__ import annotations

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Items, Mask, merge
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_levels import Folding, NewNodes, Tries


def stays_inline(tries: Tries, new: Items, gone: Mask) -> bool:
    """Return True if none of these tries has nodes or can get any from the added items."""
    if not tries.items.size:
        return True
    come = np.bincount(new.node[~gone], minlength=tries.items.size)
    return int((tries.items + come).max()) <= trees.CAPACITY


def grown_inline(folding: Folding, tries: Tries, inline: Items, new: Items, gone: Mask) -> NewNodes:
    """Apply the change to tries that stay inline."""
    m = int(tries.items.size)
    items, was = merge(inline, new, gone)
    counts = np.bincount(items.node, minlength=m)
    full = counts.nonzero()[0]
    partials: tuple[Column, ...] = (Column.nulls(m),) * folding.partials
    if full.size:
        partials = folding.fold(items, np.searchsorted(items.node, full), full)
    if 0 < full.size < m:
        order = np.full(m, full.size)
        order[full] = np.arange(full.size)
        partials = tuple(Column.join([column, Column.nulls(1)]).take(order) for column in partials)
    return NewNodes({}, counts, items, tuple(column.narrow() for column in partials), inline, was, {})
