"""Nodes of tries: their addresses, their folding, and the changed nodes of one depth as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Codes64, Ints, Items, Mask
from penstock.mapreduce.nodes.node_format import Node

CAPACITY = 32
BITS = 4
DEEPEST = 64 // BITS
MASKS: Codes64 = np.array([((1 << 64) - 1) ^ ((1 << (64 - BITS * d)) - 1) for d in range(DEEPEST + 1)], np.uint64)
MASKS.flags.writeable = False
SUFFIX = 10  # bytes of an address after the group's key: the trie, the prefix, the depth

Fetch = Callable[[list[bytes]], list[Node | None]]


class Folding(Protocol):
    """The folding of items to the partials of their nodes, one column each."""

    @property
    def partials(self) -> int:
        """Return the number of partials per node."""
        ...

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Fold leaves whose items begin at `starts` to partials. `places` are the places of their groups."""
        ...

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """Join the partials of children to those of inner nodes."""
        ...


@dataclass(slots=True)
class Tries:
    """Tries that change: the stored keys of their groups, their numbers of items and their known depths."""

    keys: list[bytes]
    items: Ints
    depth: Ints

    def take(self, places: Ints) -> Tries:
        """Return some of the tries."""
        return Tries([self.keys[i] for i in places.tolist()], self.items[places], self.depth[places])


@dataclass(slots=True)
class NewNodes:
    """The tries after a change: changed nodes by address (None: deleted) and the root of each group."""

    nodes: dict[bytes, Node | None]
    items: Ints  # number of items, by group
    inline: Items  # of groups whose root is a leaf; `node` is the group
    partials: tuple[Column, ...]  # of each group's root; null if the group is empty
    before: Items  # the former items of all leaves that the change touched
    was: Ints  # the index in `before` of each added or removed item, or -1
    depth: dict[int, int]  # of groups that were deeper than known

    def among(self, own: Ints, items: Ints, mine: Mask, sure: Mask, partials: tuple[Column, ...]) -> NewNodes:
        """Extend this result for the groups `own` to all. The `sure` others have these numbers of items and partials.

        `mine` marks the items of this result among all items of the batch.
        """
        counts = items.copy()
        counts[own] = self.items
        at = np.where(sure, own.size + np.arange(sure.size), np.cumsum(~sure) - 1)
        both = tuple(Column.join([few, all_]).take(at) for few, all_ in zip(self.partials, partials, strict=True))
        was = np.full(mine.size, -1, np.int64)
        was[mine] = self.was
        inline = self.inline.moved(own[self.inline.node])
        depth = {int(own[i]): depth for i, depth in self.depth.items()}
        return NewNodes(self.nodes, counts, inline, both, self.before, was, depth)


def address(key: bytes, trie: int, prefix: int, depth: int) -> bytes:
    """Return the address of a node: the group's key, the number of the trie, prefix and depth."""
    return key + bytes([trie]) + prefix.to_bytes(8, "big") + bytes([depth])


def group_of(node: bytes) -> bytes:
    """Return the key of a node's group."""
    return node[:-SUFFIX]


def depths_for(items: Ints) -> Ints:
    """Estimate the depth of tries with these numbers of items."""
    depth = np.zeros(items.size, np.int64)
    while (deeper := items > CAPACITY).any():
        depth += deeper
        items = items >> BITS
    return depth


@dataclass(slots=True)
class Level:
    """Changed nodes of one depth, sorted by group and prefix: numbers of items and partials."""

    place: Ints
    prefix: Codes64
    items: Ints
    partials: tuple[Column, ...]

    @staticmethod
    def join(parts: Sequence[Level]) -> Level:
        """Return the nodes of all parts, sorted."""
        if len(parts) == 1:
            return parts[0]
        columns = range(len(parts[0].partials))
        both = Level(
            np.concatenate([p.place for p in parts]),
            np.concatenate([p.prefix for p in parts]),
            np.concatenate([p.items for p in parts]),
            tuple(Column.join([p.partials[i] for p in parts]) for i in columns),
        )
        return both.take(np.lexsort((both.prefix, both.place)))

    def take(self, index: NDArray[np.int64]) -> Level:
        """Return some of the nodes."""
        partials = tuple(c.take(index) for c in self.partials)
        return Level(self.place[index], self.prefix[index], self.items[index], partials)


def run_starts(*columns: NDArray[np.int64] | Codes64) -> Mask:
    """Mark the first row of each run of equal rows."""
    n = int(columns[0].size)
    first = np.zeros(n, bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
