"""Nodes of tries: their addresses, how they fold, and what is known of those of one depth as columns."""

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
    """How items fold to the partials of their nodes, a column each."""

    @property
    def partials(self) -> int:
        """How many partials a node has."""
        ...

    def fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The partials of leaves, whose items begin at `starts`; `places` are those of their groups."""
        ...

    def join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        """The partials of inner nodes, from those of their children."""
        ...


@dataclass(slots=True)
class Tries:
    """The tries that change: the keys of their groups in the store, how many items they had, how deep they are known
    to be."""

    keys: list[bytes]
    items: Ints
    depth: Ints

    def take(self, places: Ints) -> Tries:
        """Some of them."""
        return Tries([self.keys[i] for i in places.tolist()], self.items[places], self.depth[places])


@dataclass(slots=True)
class Grown:
    """What becomes of the tries: new nodes by address (None: no node), and each group's root."""

    nodes: dict[bytes, Node | None]
    items: Ints  # how many, by group
    inline: Items  # of groups whose root is a leaf; `node` is the group
    partials: tuple[Column, ...]  # of each group's root; null where it has no items
    before: Items  # the items of all leaves that the change touched, as they were
    was: Ints  # for each new item its place in `before`, or -1
    depth: dict[int, int]  # of groups where it was deeper than known

    def among(self, own: Ints, items: Ints, mine: Mask, sure: Mask, partials: tuple[Column, ...]) -> Grown:
        """The same, of the groups `own` of all: the others, which are `sure`, have so many items and these partials.

        `mine` says which of all new items these are of.
        """
        counts = items.copy()
        counts[own] = self.items
        at = np.where(sure, own.size + np.arange(sure.size), np.cumsum(~sure) - 1)
        both = tuple(Column.join([few, all_]).take(at) for few, all_ in zip(self.partials, partials, strict=True))
        was = np.full(mine.size, -1, np.int64)
        was[mine] = self.was
        inline = self.inline.moved(own[self.inline.node])
        depth = {int(own[i]): depth for i, depth in self.depth.items()}
        return Grown(self.nodes, counts, inline, both, self.before, was, depth)


def address(key: bytes, trie: int, prefix: int, depth: int) -> bytes:
    """The address of a node: the group's key, which trie of the group, prefix and depth."""
    return key + bytes([trie]) + prefix.to_bytes(8, "big") + bytes([depth])


def group_of(node: bytes) -> bytes:
    """The key of the group that a node is of."""
    return node[:-SUFFIX]


def depths_for(items: Ints) -> Ints:
    """How deep tries of so many items are, about."""
    depth = np.zeros(items.size, np.int64)
    while (deeper := items > CAPACITY).any():
        depth += deeper
        items = items >> BITS
    return depth


@dataclass(slots=True)
class Level:
    """Nodes of one depth that changed: their groups and prefixes in order, how many items they have, and partials."""

    place: Ints
    prefix: Codes64
    items: Ints
    partials: tuple[Column, ...]

    @staticmethod
    def join(parts: Sequence[Level]) -> Level:
        """The nodes of all parts, in order."""
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
        """Some of them."""
        partials = tuple(c.take(index) for c in self.partials)
        return Level(self.place[index], self.prefix[index], self.items[index], partials)


def run_starts(*columns: NDArray[np.int64] | Codes64) -> Mask:
    """Where a run of equal rows begins."""
    n = int(columns[0].size)
    first = np.zeros(n, bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
