"""Trees of small nodes, for the simulator, whose few documents then make trees that split, fold and are written behind.

The shape of a tree is content, so a store belongs to the sizes that it was begun with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.mapreduce import behind, late, nodes


@contextmanager
def small_trees(capacity: int = 2, most_bytes: int = 6_000, most_items: int = 12, most_late: int = 6) -> Iterator[None]:
    """While it lasts, nodes hold so many items, and are written once so many bytes or items are behind or wait."""
    before = nodes.CAPACITY, behind.MOST_BYTES, behind.MOST_ITEMS, late.MOST
    nodes.CAPACITY, behind.MOST_BYTES, behind.MOST_ITEMS, late.MOST = capacity, most_bytes, most_items, most_late
    try:
        yield
    finally:
        nodes.CAPACITY, behind.MOST_BYTES, behind.MOST_ITEMS, late.MOST = before
