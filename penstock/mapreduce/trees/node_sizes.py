"""Trees of small nodes, for the simulator, whose few documents then make trees that split, fold and are written behind.

The shape of a tree is content, so a store belongs to the sizes that it was begun with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.mapreduce.nodes import node_levels, node_log
from penstock.mapreduce.trees import deferred_items


@contextmanager
def small_trees(capacity: int = 2, most_bytes: int = 6_000, most_items: int = 12, most_late: int = 6) -> Iterator[None]:
    """While it lasts, nodes hold so many items, and are written once so many bytes or items are behind or wait."""
    before = node_levels.CAPACITY, node_log.MOST_BYTES, node_log.MOST_ITEMS, deferred_items.MOST
    node_levels.CAPACITY, node_log.MOST_BYTES, node_log.MOST_ITEMS, deferred_items.MOST = (
        capacity,
        most_bytes,
        most_items,
        most_late,
    )
    try:
        yield
    finally:
        node_levels.CAPACITY, node_log.MOST_BYTES, node_log.MOST_ITEMS, deferred_items.MOST = before
