"""The budget of a store's caches: its part of the memory, and the measurement that drops caches beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.gateway import TableNode
from penstock.mapreduce import ViewNode
from penstock.views import Table

__all__ = ["MEMORY", "CacheBudget"]

MEMORY = 512 << 20
"""Bytes of memory that an open store takes by default."""
_BASE = 96 << 20  # bytes for Python, NumPy and a batch in progress
_SLOT = 40  # bytes that a key takes at least
_LEAST_SLOTS, _MOST_SLOTS = 1 << 16, 1 << 27
_WEIGH_EVERY = 1 << 12  # records between two measurements of the caches


class CacheBudget:
    """The bytes that the caches of one store may take, and the keys that each of its tables may cache."""

    def __init__(self, memory: int) -> None:
        self._nbytes = max(memory - _BASE, 8 << 20)
        self.slots = min(max(self._nbytes // _SLOT, _LEAST_SLOTS), _MOST_SLOTS)
        self._unweighed = 0

    def weigh(self, n: int, tables: Mapping[str, TableNode], views: Iterable[ViewNode]) -> None:
        """Count `n` processed documents, and measure the caches of these nodes from time to time."""
        self._unweighed += n
        if self._unweighed >= _WEIGH_EVERY:
            self._unweighed = 0
            _drop_largest(tables, views, self._nbytes)


def _drop_largest(tables: Mapping[str, TableNode], views: Iterable[ViewNode], budget: int) -> None:
    """Drop caches of nodes, the largest first, until the rest is within the budget of bytes."""
    sizes = {name: node.nbytes() for name, node in tables.items()}
    chained = [view for view in views if not isinstance(view.view.source, Table)]
    if sum(sizes.values()) + sum(view.nbytes(spaces=True) for view in chained) <= budget:
        return
    for view in chained:
        view.forget(None)
    if sum(sizes.values()) > budget:
        tables[max(sizes, key=sizes.__getitem__)].forget()
