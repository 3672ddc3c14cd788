"""Limits of small nodes for the simulator. Its few documents then make trees that split, shrink and are written late.

The node size determines the shape of a tree, which is content. So a store keeps the sizes of its creation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.mapreduce.nodes import node_levels, node_log
from penstock.mapreduce.trees import deferred_items


@contextmanager
def small_trees(capacity: int = 2, most_bytes: int = 6_000, most_items: int = 12, most_late: int = 6) -> Iterator[None]:
    """Set the capacity of nodes, and the limits of logged and deferred items, while the context lasts."""
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
