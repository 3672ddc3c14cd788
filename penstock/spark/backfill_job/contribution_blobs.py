"""Contributions on the way from mapping tasks to reducing tasks: columns as bytes, cut by ranges of groups.

A share has the contributions that one task found for one view: the encoded groups, and columns in the form that trees
store. Invariants:

- A group belongs to one range, in every task. Ranges have the order in which stores sort groups.
- A share that is read equals the written one: each value with its contribution source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import pack, stored_key, unpack
from penstock.mapreduce import (
    Column,
    Contributions,
    ContributionSources,
    Cut,
    Groups,
    Items,
    SourceKeys,
    Spaces,
    ViewNode,
    read_leaves,
)
from penstock.views import TS, FieldMap, View

__all__ = ["ContributionShare", "bounds_of", "fields_count", "joined_shares", "sample_of", "share_of"]

HEAD = 100  # bytes of a group that determine its range: fewer than the stored prefix of a long group
_SAMPLE = 64


def fields_of(node: ViewNode) -> tuple[Any, ...]:
    """Return the columns of a view's contributions."""
    return (*node.reduce.fields, *((TS,) if node.stamped else ()))


def fields_count(view: View) -> int:
    """Return the number of columns of a view's contributions."""
    return len(fields_of(ViewNode(view, 0, Spaces() if isinstance(view.map, FieldMap) else None, True)))


class ContributionShare:
    """Some contributions to one view: their encoded groups, and the group of each."""

    def __init__(self, names: list[bytes], items: Items) -> None:
        self._names = names
        self._items = items  # column "node": the index of the group in names

    @classmethod
    def read(cls, data: bytes, columns: int) -> ContributionShare:
        """Return a share from its bytes."""
        names, places, leaf = unpack(data)
        items = read_leaves([leaf], columns)
        return cls(names, items.moved(np.frombuffer(places, "<u4").astype(np.int64)))

    def data(self) -> bytes:
        """Return the share as bytes."""
        items = self._items
        leaf = Cut(items, inner=False).parts(0, len(items))
        return pack([self._names, items.node.astype("<u4").tobytes(), leaf])

    def split(self, bounds: Sequence[bytes]) -> Iterator[tuple[int, ContributionShare]]:
        """Yield the parts by range of groups. `bounds` has the start of each range but the first."""
        if not bounds:
            yield 0, self
            return
        ranges = np.array([bisect_right(bounds, stored_key(name)) for name in self._names], np.int64)
        own = ranges[self._items.node]
        for number in np.unique(own).tolist():
            names = np.flatnonzero(ranges == number)
            place = np.zeros(ranges.size, np.int64)
            place[names] = np.arange(names.size)
            items = self._items.take(np.flatnonzero(own == number))
            yield number, ContributionShare([self._names[i] for i in names.tolist()], items.moved(place[items.node]))

    def coded(self, groups: Groups) -> Items:
        """Return the contributions with the codes of their groups in `groups`."""
        codes = np.fromiter(map(groups.code_of_encoded, self._names), np.int64, len(self._names))
        return self._items.moved(codes[self._items.node])


def share_of(node: ViewNode, part: Contributions) -> ContributionShare:
    """Return contributions as a share; they have the group codes of a view's node."""
    used, place = np.unique(part.code, return_inverse=True)
    groups = node.groups
    lane: NDArray[np.int64] = np.zeros(part.n, np.int64)
    text: NDArray[np.object_] | None = None
    rank: NDArray[np.int64] | None = None
    if part.sources is not None:
        own, keys = part.sources.index, part.sources.keys
        lane, rank = keys.lane[own], part.sources.rank
        text = None if keys.text is None else keys.text[own]
    columns = tuple(part.inputs[field] for field in fields_of(node))
    items = Items(place.ravel().astype(np.int64), np.zeros(part.n, np.uint64), lane, text, rank, columns)
    return ContributionShare([groups.whole(code) for code in used.tolist()], items)


def joined_shares(node: ViewNode, shares: Sequence[bytes]) -> Contributions:
    """Return these shares as contributions to a view, with the group codes of its node."""
    fields = fields_of(node)
    parts = [ContributionShare.read(data, len(fields)).coded(node.groups) for data in shares]
    items = Items.join(parts)
    sources = None
    if node.keeps:
        sources = ContributionSources(SourceKeys(items.lane, items.text), np.arange(len(items)), items.rank)
    inputs: dict[Any, Column] = dict(zip(fields, items.columns, strict=True))
    return Contributions(items.node.astype(np.int32), inputs, sources)


def sample_of(node: ViewNode, part: Contributions) -> list[bytes]:
    """Return the prefixes of some groups, sampled in proportion to their contributions."""
    step = max(1, part.n // _SAMPLE)
    return [stored_key(node.groups.whole(code))[:HEAD] for code in part.code[::step].tolist()]


def bounds_of(samples: Sequence[bytes], ranges: int) -> list[bytes]:
    """Return the bounds of this number of ranges of about equal size."""
    ordered = sorted(samples)
    found = {ordered[len(ordered) * i // ranges] for i in range(1, ranges)} if ordered else set[bytes]()
    return sorted(found)
