"""One change of tries: down the paths to the leaves and up to the roots, level by level in columns.

Invariant: nodes that were read are never changed in place; changed nodes are gathered by address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add

import numpy as np

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Codes64, Ints, Items, Mask, Texts, merge
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Cut, Node, are_inner, node_lost, read_nodes
from penstock.mapreduce.nodes.node_levels import (
    DEEPEST,
    MASKS,
    SUFFIX,
    Fetch,
    Folding,
    Level,
    NewNodes,
    Tries,
    depths_for,
    run_starts,
)

# Limit of nodes that a batch reads on a hint alone. A hint is the depth of a group's deepest path, so most hinted nodes
# are absent. Above the limit, one more read costs less.
_EAGER = 256
_ENDS = np.dtype(f"V{SUFFIX}")


@dataclass(slots=True)
class ChangedLeaves:
    """The leaves after a change: group, depth, prefix, range of items. Its key is valid if `named`.

    `before` has the former items, `was` the place of each item of the change among them, or -1."""

    items: Items
    place: Ints
    depth: Ints
    prefix: Codes64
    keys: Texts
    named: Mask
    start: Ints
    stop: Ints
    before: Items
    was: Ints


@dataclass(slots=True)
class _Paths:
    """Nodes of one depth on paths to items: the items, the groups, each item's node and the addresses."""

    at: Ints
    place: Ints
    which: Ints
    keys: list[bytes]


class TrieUpdate:
    """One change of tries."""

    def __init__(self, number: int, columns: int, folding: Folding, counts: bool, fetch: Fetch, tries: Tries) -> None:
        self._number = number
        self._columns = columns
        self._folding = folding
        self._counts = counts
        self._top = 0 if counts else 1  # leaves at this depth and below have rows
        self._fetch = fetch
        self._tries = tries
        self._have: dict[bytes, Node | None] = {}
        self._nodes: dict[bytes, Node | None] = {}
        self._inner: dict[bytes, Node] = {}  # the former inner nodes on the paths
        self._depth: dict[int, int] = {}
        self._inline: list[Items] = []  # items of roots that became leaves; `node` is the group

    def _addresses(self, place: Ints, prefix: Codes64, depth: int) -> list[bytes]:
        """Return the addresses of nodes of one depth."""
        return self._addresses_at(place, prefix, np.full(place.size, depth))

    def _addresses_at(self, place: Ints, prefix: Codes64, depth: Ints) -> list[bytes]:
        """Return the addresses of nodes of several depths."""
        ends = np.empty((place.size, SUFFIX), np.uint8)
        ends[:, 0] = self._number
        ends[:, 1:-1] = prefix.astype(">u8").view(np.uint8).reshape(-1, 8)
        ends[:, -1] = depth
        return list(map(add, map(self._tries.keys.__getitem__, place.tolist()), ends.view(_ENDS).ravel().tolist()))

    def _read(self, keys: list[bytes]) -> None:
        have = self._have
        want = [key for key in keys if key not in have]
        if want:
            have.update(zip(want, self._fetch(want)))

    # -- down

    def _paths(self, new: Items, at: Ints, depth: int) -> _Paths:
        """Return the distinct nodes of this depth on the paths to the items `at`."""
        place, prefix = new.node[at], new.at[at] & MASKS[depth]
        first = run_starts(place, prefix)
        keys = self._addresses(place[first], prefix[first], depth)
        return _Paths(at, place[first], np.cumsum(first) - 1, keys)

    def find_leaves(self, new: Items) -> tuple[Ints, Texts]:
        """Return the depth of each item's leaf, also of an absent item, and the address of a leaf that has a row."""
        out = np.zeros(len(new), np.int64)
        leaves: Texts = np.empty(len(new), object)
        deep = (self._tries.items > trees.CAPACITY) | self._counts
        if not deep.any():
            return out, leaves
        todo = np.flatnonzero(deep[new.node])
        guessed = depths_for(self._tries.items)
        known = np.maximum(guessed, self._tries.depth)
        upto, group = known, new.node[todo]
        if int((known - guessed)[group].sum()) > _EAGER:
            upto = guessed
        ahead = [self._paths(new, todo[upto[group] >= depth], depth) for depth in range(int(upto[deep].max()) + 1)]
        self._read([key for paths in ahead for key in paths.keys])
        depth = 0
        while todo.size:
            paths = ahead[depth] if depth < len(ahead) else None
            if paths is None or paths.at.size != todo.size or not bool((paths.at == todo).all()):
                paths = self._paths(new, todo, depth)
                self._read(paths.keys)
            place, which = paths.place, paths.which
            nodes = list(map(self._have.__getitem__, paths.keys))
            inner = are_inner(nodes)
            self._inner.update((paths.keys[i], nodes[i] or ()) for i in np.flatnonzero(inner).tolist())
            for p in np.unique(place[inner & (known[place] <= depth)]).tolist():
                self._depth[p] = depth + 1
            out[todo] = depth
            names: Texts = np.empty(len(paths.keys), object)
            names[:] = paths.keys
            leaves[todo] = names[which]
            todo = todo[inner[which]]
            depth += 1
        return out, leaves

    def merged(self, inline: Items, new: Items, gone: Mask, depth: Ints, keys: Texts) -> ChangedLeaves:
        """Return the leaves after the change, before they are folded. Some may be empty."""
        prefix = new.at & MASKS[depth]
        first = run_starts(new.node, prefix, depth)
        leaf = np.cumsum(first) - 1
        place, depth, prefix, keys = new.node[first], depth[first], prefix[first], keys[first]
        named = depth >= self._top
        held = np.flatnonzero(named)
        nodes = list(map(self._have.__getitem__, keys[held].tolist()))
        if None in nodes:
            held = held[np.array([node is not None for node in nodes], bool)]
        old = read_nodes([node for node in nodes if node is not None], self._columns)
        parts = [old.moved(held[old.node])] if held.size else []
        if len(inline):
            own = np.full(len(self._tries.keys), -1, np.int64)
            own[place[depth == 0]] = np.flatnonzero(depth == 0)
            assert bool((own[inline.node] >= 0).all()), "of each group an item comes or goes"
            parts.append(inline.moved(own[inline.node]))
        before = (Items.join(parts) if parts else Items.none(self._columns)).by_node()
        new = new.moved(leaf)
        by_group = (place[before.node], place[leaf])
        if self._counts:
            new, gone = _added(before, new, by_group)
        items, was = merge(before, new, gone, by_group)
        return self._split(ChangedLeaves(items, place, depth, prefix, keys, named, depth, depth, before, was))

    def _split(self, leaves: ChangedLeaves) -> ChangedLeaves:
        """Split leaves with too many items, digit by digit."""
        items, place, depth, prefix = leaves.items, leaves.place, leaves.depth, leaves.prefix
        keys, named = leaves.keys, leaves.named
        n = int(place.size)
        node = items.node
        stop = np.searchsorted(node, np.arange(n), "right")
        start = np.concatenate((np.zeros(1, np.int64), stop[:-1])) if n else stop
        while True:
            big = (stop - start > trees.CAPACITY) & (depth < DEEPEST)
            if not big.any():
                return ChangedLeaves(items, place, depth, prefix, keys, named, start, stop, leaves.before, leaves.was)
            size = np.where(big, 0, 1)
            for i in np.flatnonzero(big).tolist():
                a, b, below = int(start[i]), int(stop[i]), int(depth[i]) + 1
                at = items.at[a:b] & MASKS[below]
                size[i] = int((at[1:] != at[:-1]).sum()) + 1
            keys, named = np.repeat(keys, size), np.repeat(named & ~big, size)
            place, depth, prefix, start, stop = _cut(items, size, big, place, depth, prefix, start, stop)

    # -- up

    def folded(self, leaves: ChangedLeaves) -> NewNodes:
        """Fold the leaves up to the roots. Turn nodes that became small back into leaves."""
        full = leaves.stop > leaves.start
        at = np.flatnonzero(full)
        starts = leaves.start[at]
        partials = self._fold(leaves.items, starts, leaves.place[at])
        levels: dict[int, list[Level]] = {}
        cut = Cut(leaves.items, inner=False)
        for depth in np.unique(leaves.depth).tolist():
            mine = leaves.depth == depth
            own = np.flatnonzero(mine & full)
            places, prefixes = leaves.place[own], leaves.prefix[own]
            counts = leaves.stop[own] - leaves.start[own]
            among = np.searchsorted(at, own)
            found = Level(places, prefixes, counts, tuple(c.take(among) for c in partials))
            parts = [found] if own.size else []
            empty = np.flatnonzero(mine & ~full)
            if empty.size:
                parts.append(self._none(leaves.place[empty], leaves.prefix[empty]))
                if depth >= self._top:
                    self._nodes.update(dict.fromkeys(self._names(leaves, empty, depth)))
            levels[depth] = parts
            if depth >= self._top:
                nodes = cut.nodes(leaves.start[own], leaves.stop[own])
                self._nodes.update(zip(self._names(leaves, own, depth), nodes))
        for depth in range(max(levels, default=0), 0, -1):
            if levels.get(depth):
                levels.setdefault(depth - 1, []).append(self._up(Level.join(levels[depth]), depth))
        return self._grown(levels.get(0, []), leaves)

    def _names(self, leaves: ChangedLeaves, at: Ints, depth: int) -> list[bytes]:
        """Return the addresses of leaves of one depth."""
        keys, new = leaves.keys[at], ~leaves.named[at]
        if new.any():
            keys[new] = self._addresses(leaves.place[at[new]], leaves.prefix[at[new]], depth)
        names: list[bytes] = keys.tolist()
        return names

    def _fold(self, items: Items, starts: Ints, places: Ints) -> tuple[Column, ...]:
        if not starts.size:
            return (Column.nulls(0),) * self._folding.partials
        return self._folding.fold(items, starts, places)

    def _none(self, place: Ints, prefix: Codes64) -> Level:
        n = int(place.size)
        return Level(place, prefix, np.zeros(n, np.int64), (Column.nulls(n),) * self._folding.partials)

    def _up(self, nodes: Level, depth: int) -> Level:
        """Return the parents of nodes of this depth."""
        above = nodes.prefix & MASKS[depth - 1]
        first = run_starts(nodes.place, above)
        parent = np.cumsum(first) - 1
        place, prefix = nodes.place[first], above[first]
        keys = self._addresses(place, prefix, depth - 1)
        had = [i for i, key in enumerate(keys) if key in self._inner]
        old = read_nodes([self._inner[keys[i]] for i in had], 1 + self._folding.partials)
        if had:
            old = old.moved(np.array(had, np.int64)[old.node])
        zeros = np.zeros(int(parent.size), np.int64)
        new = Items(parent, nodes.prefix, zeros, None, None, (Column(nodes.items), *nodes.partials))
        children, _ = merge(old, new, nodes.items == 0)
        n = int(place.size)
        counts = np.bincount(children.node, children.columns[0].lane, n).astype(np.int64)
        full = np.flatnonzero(counts > 0)
        starts = np.searchsorted(children.node, full)
        stops = np.searchsorted(children.node, full, "right")
        joined = self._join(children.columns[1:], starts, place[full])
        out = Level(place[full], prefix[full], counts[full], joined)
        few = counts[full] <= trees.CAPACITY
        many = np.flatnonzero(~few)
        rows = Cut(children, inner=True).nodes(starts[many], stops[many])
        self._nodes.update(zip([keys[i] for i in full[many].tolist()], rows))
        if few.any():
            back = full[few]
            self._fold_back(children, starts[few], stops[few], place[back], [keys[i] for i in back.tolist()], depth)
        gone = np.flatnonzero(counts == 0)
        for i in gone.tolist():
            self._nodes[keys[i]] = None
        return out if not gone.size else Level.join([out, self._none(place[gone], prefix[gone])])

    def _join(self, columns: Sequence[Column], starts: Ints, places: Ints) -> tuple[Column, ...]:
        if not starts.size:
            return (Column.nulls(0),) * self._folding.partials
        return self._folding.join(columns, starts, places)

    def _fold_back(
        self, children: Items, starts: Ints, stops: Ints, place: Ints, keys: Sequence[bytes], depth: int
    ) -> None:
        """Turn the nodes with these keys into leaves. Their children, at `depth`, are leaves and are deleted."""
        size = stops - starts
        index = _ranges(starts, size)
        parent = np.repeat(np.arange(size.size), size)
        below = self._addresses(place[parent], children.at[index], depth)
        self._read([key for key in below if self._nodes.get(key) is None])
        rows = [self._nodes.get(key) or self._have[key] for key in below]
        if not all(rows):
            raise node_lost(below[rows.index(None)])
        items = read_nodes([row for row in rows if row is not None], self._columns)
        self._nodes.update(dict.fromkeys(below))
        node = parent[items.node]
        if depth == 1:
            self._inline.append(items.moved(place[node]))
        if depth == self._top:
            self._nodes.update(dict.fromkeys(keys))
            return
        ends = np.searchsorted(node, np.arange(size.size), "right")
        self._nodes.update(zip(keys, Cut(items, inner=False).nodes(np.append(0, ends[:-1]), ends)))

    def _grown(self, roots: list[Level], leaves: ChangedLeaves) -> NewNodes:
        m = len(self._tries.keys)
        counts = np.zeros(m, np.int64)
        order = np.full(m, -1, np.int64)
        found = Level.join(roots) if roots else self._none(np.zeros(0, np.int64), np.zeros(0, np.uint64))
        counts[found.place] = found.items
        order[found.place] = np.arange(found.place.size)
        partials = tuple(Column.join([c, Column.nulls(1)]).take(np.where(order < 0, -1, order)) for c in found.partials)
        partials = tuple(c.narrow() for c in partials)
        flat = np.flatnonzero((leaves.depth == 0) & (leaves.stop > leaves.start))
        size = (leaves.stop - leaves.start)[flat]
        own = leaves.items.take(_ranges(leaves.start[flat], size)).moved(np.repeat(leaves.place[flat], size))
        inline = Items.join([own, *self._inline]).by_node()
        return NewNodes(self._nodes, counts, inline, partials, leaves.before, leaves.was, self._depth)


def _added(before: Items, new: Items, by_group: tuple[Ints, Ints]) -> tuple[Items, Mask]:
    """Return counts added to the stored ones, and a mask of those that become 0."""
    _, was = merge(before, new, np.zeros(len(new), bool), by_group)
    count = new.columns[0].lane + np.where(was < 0, 0, np.append(before.columns[0].lane, 0)[was])
    return Items(new.node, new.at, new.lane, new.text, new.rank, (Column(count),)), count == 0


def _ranges(starts: Ints, size: Ints) -> Ints:
    """Return the indexes of ranges of these sizes, one range after the other."""
    return np.repeat(starts - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))


def _cut(
    items: Items, size: Ints, big: Mask, place: Ints, depth: Ints, prefix: Codes64, start: Ints, stop: Ints
) -> tuple[Ints, Ints, Codes64, Ints, Ints]:
    """Cut the big leaves into `size` parts each, by their next digit."""
    new_depth = np.repeat(depth + big, size)
    new_place = np.repeat(place, size)
    new_prefix = np.repeat(prefix, size)
    new_start = np.repeat(start, size)
    new_stop = np.repeat(stop, size)
    ends = np.cumsum(size)
    for i in np.flatnonzero(big).tolist():
        a, b, below = int(start[i]), int(stop[i]), int(depth[i]) + 1
        at = items.at[a:b] & MASKS[below]
        cuts = np.flatnonzero(run_starts(at)) + a
        x, y = int(ends[i]) - int(size[i]), int(ends[i])
        new_prefix[x:y] = items.at[cuts] & MASKS[below]
        new_start[x:y] = cuts
        new_stop[x:y] = np.append(cuts[1:], b)
    return new_place, new_depth, new_prefix, new_start, new_stop
