"""What a batch brings to trees of contributions, and what it takes from them, as items."""

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
"""What comes, or goes, and to which group of a batch."""


def coming(plus: Side, minus: Side, kept: Sequence[Path | None], stamped: bool) -> tuple[Items, Mask]:
    """What comes, and where the mask holds goes, in order, each source once, without what stays as it is.

    What is `stamped` with the time of its document never stays as it is.
    """
    both = Items.join([items_of(*minus, kept), items_of(*plus, kept)])
    removed = np.zeros(len(both), bool)
    removed[: minus[0].n] = True
    if len(both) < 2:
        return both, removed
    order = sort_order(both)
    both, removed = both.take(order), removed[order]
    at = ((both.node[1:] == both.node[:-1]) & (both.at[1:] == both.at[:-1])).nonzero()[0]
    at = at[same_items(both, at, both, at + 1)]  # the first of two of one source: it goes, and it comes again
    if not at.size:
        return both, removed
    keep = np.ones(len(both), bool)
    keep[at] = False
    if not stamped:
        keep[at[_equal_rows(both, at)] + 1] = False
    return both.take(keep), removed[keep]


def items_of(side: Contributions, place: NDArray[Any], kept: Sequence[Path | None]) -> Items:
    """Contributions as items of the nodes at these places, as they come."""
    sources = side.sources
    assert sources is not None, "a view that keeps contributions is told whose they are"
    at = source_hash(sources.keys.hashes()[sources.index], sources.rank)
    text = None if sources.keys.text is None else sources.keys.text[sources.index]
    none = Column(np.zeros(side.n, np.int64))
    columns = tuple(side.inputs.get(f, none) for f in kept)
    return Items(place.astype(np.int64), at, sources.keys.lane[sources.index], text, sources.rank, columns)


def _equal_rows(items: Items, at: Ints) -> Mask:
    """Whether items `at` and those after them have equal values, as far as lanes tell."""
    same = np.ones(at.size, bool)
    for column in items.columns:
        same &= column.lane[at] == column.lane[at + 1]
        if column.kind is not None:
            same &= (column.kind[at] == column.kind[at + 1]) & (column.kind[at] < 3)
    return same
