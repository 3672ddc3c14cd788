"""The weight of a view's groups: one scan of its rows and nodes, which keeps only the heaviest groups."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, decode_key
from penstock.mapreduce import TreeReduce, ViewNode


@dataclass(frozen=True, slots=True)
class Weight:
    """The size of a view's rows and trees, and its groups with the most contributions, the heaviest first.

    `nodes` counts the nodes of its trees apart from the groups' rows, `depth` is the most of them on one path.
    """

    rows: int
    bytes: int
    contributions: int
    nodes: int
    depth: int
    hot: tuple[tuple[Any, int], ...]


def weight_of(reader: Reader, view: ViewNode, most: int) -> Weight:
    """Measure a view, with its `most` heaviest groups."""
    rows = size = total = 0
    hot: list[tuple[int, int, bytes]] = []  # a heap; among equal ones the first row stays
    codec, db = view.reduce.codec, view.reduce.db
    for key, row in reader.scan(db):
        state = codec.decode(key, row, db)
        rows += 1
        size += len(key) + len(row)
        total += state.n
        if len(hot) < most or state.n > hot[0][0]:
            (heapq.heappush if len(hot) < most else heapq.heapreplace)(hot, (state.n, -rows, state.whole or key))
    named = tuple((decode_key(group), n) for n, _, group in sorted(hot, reverse=True))
    nodes = depth = 0
    if isinstance(view.reduce, TreeReduce):
        for address, node in view.reduce.nodes(reader):
            nodes += 1
            size += len(address) + len(node)
            depth = max(depth, address[-1] + 1)
    return Weight(rows, size, total, nodes, depth, named)
