"""Items that a batch adds to trees of contributions or removes from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Ints, Items, Mask, same_items, sort_order, source_hash
from penstock.mapreduce.maps.emissions import Contributions
from penstock.views import Path

Side = tuple[Contributions, Ints]
"""Contributions that are added or removed, and for each the place of its group in the batch."""


def coming(plus: Side, minus: Side, fields: Sequence[Path | None], stamped: bool) -> tuple[Items, Mask]:
    """Return the items to add and, where the mask is set, to remove: sorted, one per source, unchanged ones left out.

    An item that is `stamped` with the time of its document always counts as changed.
    """
    both = Items.join([items_of(*minus, fields), items_of(*plus, fields)])
    removed = np.zeros(len(both), bool)
    removed[: minus[0].n] = True
    if len(both) < 2:
        return both, removed
    order = sort_order(both)
    both, removed = both.take(order), removed[order]
    at = ((both.node[1:] == both.node[:-1]) & (both.at[1:] == both.at[:-1])).nonzero()[0]
    at = at[same_items(both, at, both, at + 1)]  # the removal of a source that is also added
    if not at.size:
        return both, removed
    keep = np.ones(len(both), bool)
    keep[at] = False
    if not stamped:
        keep[at[_equal_rows(both, at)] + 1] = False
    return both.take(keep), removed[keep]


def items_of(side: Contributions, place: NDArray[Any], fields: Sequence[Path | None]) -> Items:
    """Return contributions as items of the nodes at these places, in the same order."""
    sources = side.sources
    assert sources is not None, "a view that keeps contributions is told whose they are"
    at = source_hash(sources.keys.hashes()[sources.index], sources.rank)
    text = None if sources.keys.text is None else sources.keys.text[sources.index]
    none = Column(np.zeros(side.n, np.int64))
    columns = tuple(side.inputs.get(f, none) for f in fields)
    return Items(place.astype(np.int64), at, sources.keys.lane[sources.index], text, sources.rank, columns)


def _equal_rows(items: Items, at: Ints) -> Mask:
    """Mark the items at `at` that have the same values as their successors. Only values in lanes are compared."""
    same = np.ones(at.size, bool)
    for column in items.columns:
        same &= column.lane[at] == column.lane[at + 1]
        if column.kind is not None:
            same &= (column.kind[at] == column.kind[at + 1]) & (column.kind[at] < 3)
    return same
