"""Values chosen by their source or by another field, for first, last and collect.

A source is the document's encoded key and the rank among its values for the group. Keys compare as their encodings.
`by` compares in group order, with null first: 1 and 1.0 tie, and the source decides ties. A partial of `Choice` is [by,
key, rank, value]. A partial of `Collected` is the list of [key, rank, value], sorted by source. Contributions with a
null value are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from penstock.cache import order_key, repr_by_fields
from penstock.mapreduce.columns.column import Column, Ints, LaneKind
from penstock.mapreduce.columns.items import Mask
from penstock.mapreduce.reducers.contribution_cell import (
    ContributionCell,
    column_of,
    node_numbers,
    nodes_of,
    partials_of,
)
from penstock.mapreduce.reducers.value_order import CODE_MAX, CODE_MIN, unified, value_codes
from penstock.views import Leaves, Path, Values


@dataclass(frozen=True, slots=True)
class Choice(ContributionCell):
    """The value with the least `by`, or with the greatest if `last`. Ties go to the first or last source."""

    by: Path
    last: bool

    @property
    def beside(self) -> tuple[Path, ...]:
        """Return the field that orders the values."""
        return (self.by,)

    def fold(self, leaves: Leaves) -> Column:
        """Return the choice among each node's contributions."""
        column, by, starts = column_of(leaves.column(self.field)), column_of(leaves.column(self.by)), leaves.starts
        codes, here = self.codes(by), self._here(column, by)
        if here is not None:
            codes = np.where(here, codes, CODE_MIN if self.last else CODE_MAX)
        best = (np.maximum if self.last else np.minimum).reduceat(codes, starts)
        node = node_numbers(starts, len(column))
        ties = codes == best[node]
        at = (ties if here is None else ties & here).nonzero()[0]
        partials: list[Any] = [None] * int(starts.size)
        choose = max if self.late else min
        rows = zip(node[at].tolist(), leaves.sources(at), by.take(at).values(), column.take(at).values())
        for place, tied in groupby(rows, key=itemgetter(0)):
            _, (key, rank), mark, value = choose(tied, key=itemgetter(1))
            partials[place] = [mark, key, rank, value]
        return partials_of(partials)

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return the choice among the partials of each node's children."""
        return partials_of([self._chosen(own) for own in nodes_of(starts, partials.values())])

    @property
    def late(self) -> bool:
        """Return True if ties go to the last source."""
        return self.last

    def _here(self, column: Column, by: Column) -> Mask | None:
        """Mark the contributions among which it chooses; None: all."""
        return None if column.kind is None else column.kind != LaneKind.NULL

    def _chosen(self, partials: list[Any]) -> Any:
        return (max if self.last else min)(partials, key=self._order, default=None)

    def merged(self, one: list[Any], two: list[Any]) -> list[Any]:
        """Choose between two groups. If one source is in both groups, the values decide."""
        choose = max if self.last else min
        return choose(one, two, key=lambda partial: (self._order(partial), order_key(partial[-1])))

    @staticmethod
    def _order(partial: list[Any]) -> tuple[Any, ...]:
        mark, key, rank, _ = partial
        return order_key(unified(mark)), key, rank

    @staticmethod
    def codes(by: Column) -> Ints:
        """Return ints in the order of `by`, equal where it ties."""
        if by.kind is None:
            return by.lane
        if bool((by.kind == LaneKind.FLOAT).all()):
            return value_codes(by.lane)
        keys = [order_key(unified(mark)) for mark in by.values()]
        ranks = {key: i for i, key in enumerate(sorted(set(keys)))}
        return np.fromiter((ranks[key] for key in keys), np.int64, len(keys))


@dataclass(frozen=True, slots=True)
class Peak(Choice):
    """The value with the least or greatest `by`. Null in `by` is skipped. Ties go to the first source."""

    @property
    def late(self) -> bool:
        """Return False: ties go to the first source."""
        return False

    def _here(self, column: Column, by: Column) -> Mask | None:
        masks = [one.kind != LaneKind.NULL for one in (column, by) if one.kind is not None]
        return np.logical_and.reduce(masks) if masks else None

    def _chosen(self, partials: list[Any]) -> Any:
        ordered = sorted(partials, key=lambda own: self._order(own)[1:])
        return (max if self.last else min)(ordered, key=lambda own: self._order(own)[0], default=None)

    def merged(self, one: list[Any], two: list[Any]) -> list[Any]:
        """Choose between two groups. If one source is in both groups, the values decide."""
        ordered = sorted([one, two], key=lambda own: (*self._order(own)[1:], order_key(own[-1])))
        best: list[Any] = self._chosen(ordered)
        return best


Order = tuple[tuple[Path, bool], ...]
"""The fields that order values, the most significant first, each with True if it descends."""


@dataclass(frozen=True, slots=True)
class Ordered(ContributionCell):
    """The first n values in the order of other fields. Ties go to the first source.

    A partial is the list of [values of the fields, key, rank, value]. Null sorts before everything, and so it is last
    where a field descends.
    """

    n: int
    order: Order

    __repr__ = repr_by_fields

    @property
    def beside(self) -> tuple[Path, ...]:
        """Return the fields that order the values."""
        return tuple(dict.fromkeys(path for path, _ in self.order))

    def fold(self, leaves: Leaves) -> Column:
        """Return the first n of each node."""
        column, starts = column_of(leaves.column(self.field)), leaves.starts
        marks = [column_of(leaves.column(path)) for path, _ in self.order]
        at = np.arange(len(column)) if column.kind is None else (column.kind != LaneKind.NULL).nonzero()[0]
        node = node_numbers(starts, len(column))
        codes = [~own if down else own for own, (_, down) in zip(map(Choice.codes, marks), self.order, strict=True)]
        at = at[np.lexsort((*(own[at] for own in reversed(codes)), node[at]))]
        at = at[_first_and_ties(self.n, node[at], [own[at] for own in codes])]
        partials: list[Any] = [None] * int(starts.size)
        keys = zip(*(own[at].tolist() for own in codes), strict=True)
        read = zip(*(own.take(at).values() for own in marks), strict=True)
        rows = zip(node[at].tolist(), keys, leaves.sources(at), read, column.take(at).values(), strict=True)
        for place, own in groupby(rows, key=itemgetter(0)):
            first = nsmallest(self.n, own, key=itemgetter(1, 2))
            partials[place] = [[list(by), key, rank, value] for _, _, (key, rank), by, value in first]
        return partials_of(partials)

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return the first n among each node's children."""
        children = nodes_of(starts, partials.values())
        return partials_of([self._first(sorted(chain.from_iterable(own), key=itemgetter(1, 2))) for own in children])

    def _first(self, items: list[Any]) -> list[Any] | None:
        """Return the first n of items that are sorted by source."""
        for i, (_, down) in reversed(list(enumerate(self.order))):
            keys = [order_key(unified(item[0][i])) for item in items]
            items = [items[j] for j in sorted(range(len(items)), key=keys.__getitem__, reverse=down)]
        return items[: self.n] or None

    def merged(self, one: list[Any], two: list[Any]) -> list[Any] | None:
        """Return the first n of both groups. Values of one source in both are sorted by value."""
        return self._first(sorted([*one, *two], key=lambda item: (item[1], item[2], order_key(item[3]))))


def _first_and_ties(n: int, node: Ints, codes: list[Ints]) -> Ints:
    """Return the places of each node's first n rows, and of those that tie with the last of them."""
    new = np.ones(node.size, bool)
    new[1:] = np.logical_or.reduce([own[1:] != own[:-1] for own in (node, *codes)])
    tied = np.cumsum(new)
    starts = np.searchsorted(node, node)
    last = np.minimum(starts + n, np.searchsorted(node, node, "right")) - 1
    places: Ints = (tied <= tied[last]).nonzero()[0]
    return places


@dataclass(frozen=True, slots=True)
class Collected(ContributionCell):
    """The values of the first n sources."""

    n: int

    __repr__ = repr_by_fields

    def fold(self, leaves: Leaves) -> Column:
        """Return the first n of each node."""
        column, starts = column_of(leaves.column(self.field)), leaves.starts
        at = np.arange(len(column)) if column.kind is None else (column.kind != LaneKind.NULL).nonzero()[0]
        partials: list[Any] = [None] * int(starts.size)
        rows = zip(node_numbers(starts, len(column))[at].tolist(), leaves.sources(at), column.take(at).values())
        for place, own in groupby(rows, key=itemgetter(0)):
            first = nsmallest(self.n, own, key=itemgetter(1))
            partials[place] = [[key, rank, value] for _, (key, rank), value in first]
        return partials_of(partials)

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return the first n among each node's children."""
        children = nodes_of(starts, partials.values())
        firsts = [nsmallest(self.n, chain.from_iterable(own), key=itemgetter(0, 1)) for own in children]
        return partials_of([first or None for first in firsts])

    def merged(self, one: list[Any], two: list[Any]) -> list[Any]:
        """Return the first n of both groups. Values of one source in both are sorted by value."""
        return nsmallest(self.n, [*one, *two], key=lambda item: (item[0], item[1], order_key(item[2])))
