"""The check of a view's trees against its contributions: every node, every count, every partial.

The check takes the contributions as correct. It recomputes each node's row from its items. It compares each inner
node's entry for a child with that child, and each group's row with its tree. A store without faults agrees with its
contributions; a comparison of these with the documents is another check. It reads each node once, one read per level
of a group. It writes nothing, and reports faults instead of raising.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from penstock.cache import Reader, StoreDamaged, canonical, decode_key, error_text, is_long, repr_of
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Codes64, Items, positions, same_items, sort_order
from penstock.mapreduce.fold.row_format import RowState
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Cut, Node, is_inner, packed, read_leaves, read_nodes, unpacked
from penstock.mapreduce.nodes.node_levels import MASKS, Folding, address
from penstock.mapreduce.trees.changed_rows import answer_of
from penstock.mapreduce.trees.snapshot_nodes import CONTRIBUTIONS
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.tries.partials import CellFolding, field_of
from penstock.mapreduce.tries.value_trie import ValueTree, listed
from penstock.views import Accumulator, GroupTotals, is_accumulator, is_tree_cell

Wrong = tuple[str, str]  # (place, description of the fault)
Payloads = Callable[[list[bytes]], list[bytes | None]]


@dataclass(frozen=True, slots=True)
class TreeFault:
    """One fault of a group: its place and description."""

    view: str
    group: Any
    where: str
    what: str

    def __str__(self) -> str:
        return f"view {self.view!r}, group {self.group!r}, {self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Stored:
    """A node of a level: its index, its prefix, its stored row and the decoded node."""

    i: int
    prefix: int
    row: bytes
    node: Node


@dataclass(frozen=True, slots=True)
class _TrieFacts:
    """The result of a walk through one trie."""

    items: Items  # of all leaves, in order
    count: int
    partials: list[Any]  # of the root


def check_trees(reduce: TreeReduce, reader: Reader) -> Iterator[TreeFault]:
    """Yield all faults of a view's rows and nodes in a snapshot."""
    check = _Check(reduce, reader)
    yield from check.rows()
    yield from check.strays()


class _Check:
    """The check of one view."""

    def __init__(self, reduce: TreeReduce, reader: Reader) -> None:
        self._reduce = reduce
        self._reader = reader
        self._nodes = reduce.read_node_log(reader)
        self._seen: set[bytes] = set()
        self._faulty: set[bytes] = set()
        self._columns = len(reduce.stored_fields)

    def rows(self) -> Iterator[TreeFault]:
        """Yield the faults of rows and of the nodes below them."""
        name = self._reduce.name
        for key, row in self._reader.scan(self._reduce.db):
            group: Any = _group_text(key)
            try:
                state = self._reduce.codec.decode(key, row, f"view {name!r}")
                group = decode_key(key if state.whole is None else state.whole)
                for where, what in self._group(key, state, group):
                    self._faulty.add(key)
                    yield TreeFault(name, group, where, what)
            except StoreDamaged as damage:
                self._faulty.add(key)
                yield TreeFault(name, group, "what is stored", str(damage))

    def strays(self) -> Iterator[TreeFault]:
        """Nodes that no row leads to; below what is wrong already there are others, and they are not named."""
        for node, _ in self._reduce.nodes(self._reader):
            key = trees.group_of(node)
            if node not in self._seen and key not in self._faulty:
                prefix, depth = int.from_bytes(node[-9:-1], "big"), node[-1]
                yield TreeFault(
                    self._reduce.name, _group_text(key), _node(node[-10], prefix, depth), "nothing names it"
                )

    # -- a group

    def _group(self, key: bytes, state: RowState, group: Any) -> Iterator[Wrong]:
        folding = CellFolding(self._reduce.tree_cells, self._reduce.stored_fields, lambda _: group)
        if state.n <= trees.CAPACITY:
            if state.items is None:
                yield "its row", f"{state.n} contributions should stand in it"
                return
            items = read_leaves([state.items], self._columns)
            yield from (("its row", what) for what in _leaf_faults(items, 0, 0, CONTRIBUTIONS))
            if canonical(Cut(items, inner=False).parts(0, len(items))) != canonical(state.items):
                yield "its row", "its contributions are not in their one form"
            start = np.zeros(1, np.int64)
            partials = [c.values()[0] for c in folding.fold(items, start, start)] if len(items) else []
            found = _TrieFacts(items, len(items), partials)
        else:
            if state.items is not None:
                yield "its row", "contributions stand in it, and there are too many"
            walk = _TrieWalk(self._payloads, key, CONTRIBUTIONS, self._columns, folding, 1, self._seen)
            yield from walk.faults()
            found = walk.found()
        if found.count != state.n:
            yield "its row", f"it counts {state.n} contributions, and there are {found.count}"
        if found.count:
            yield from self._answers(key, state, found)

    def _payloads(self, nodes: list[bytes]) -> list[bytes | None]:
        self._seen.update(nodes)
        return self._nodes.payloads(self._reader, nodes)

    def _answers(self, key: bytes, state: RowState, found: _TrieFacts) -> Iterator[Wrong]:
        """Compare a row's results with those of its contributions, cell by cell."""
        partials = iter(found.partials)
        values = iter(self._reduce.value_trees)
        counts = iter(state.values or [None] * len(self._reduce.value_trees))
        failing = ""
        for i, (cell, (a, b)) in enumerate(zip(self._reduce.codec.cells, self._reduce.codec.spans, strict=True)):
            own: Any
            wanted: Any
            spill = None if state.spills is None else state.spills[i]
            if is_accumulator(cell):
                wanted, failed = _totals(cell, field_of(found.items, self._reduce.stored_fields, cell.field))
                own = [state.lanes[a:b], spill]
                if failed:  # the owed values depend on the order of past batches
                    own = wanted = None
                failing = failing or failed
            elif is_tree_cell(cell):
                wanted, error = answer_of(cell, next(partials))
                own, failing = spill, failing or error
            else:
                own = [next(counts), spill]
                wanted = yield from self._values(key, state, next(values), found)
            if not _same(own, wanted):
                yield (
                    f"{type(cell).__name__} of its row",
                    f"it says {repr_of(own)}, its contributions {repr_of(wanted)}",
                )
        if bool(failing) != (state.held is not None):
            yield "its row", f"it is {'not ' if failing else ''}held, and {failing or 'nothing fails'}"

    def _values(
        self, key: bytes, state: RowState, tree: ValueTree, found: _TrieFacts
    ) -> Generator[Wrong, None, list[Any]]:
        """Check a trie of values. Return the entries that the row should have for it."""
        counted = tree.counted(found.items)
        total = sum(count for _, _, count in counted)
        if state.n <= trees.CAPACITY:
            return [None, tree.answered(counted)]
        walk = _TrieWalk(self._payloads, key, tree.number, 1, tree.tally, 0, self._seen)
        yield from walk.faults()
        stored = sorted(listed(walk.found().items))
        if stored != sorted(counted):
            yield f"trie {tree.number}", f"{len(stored)} values stand in it, its contributions have {len(counted)}"
        wanted: list[Any] = [total] if total else []
        if total and tree.cell.tallies:
            wanted.append(tree.cell.tallied([data for _, data, _ in counted]))
        if walk.found().partials != wanted:
            yield f"trie {tree.number}", f"it counts {walk.found().partials}, its contributions {wanted}"
        return [len(counted) or None, tree.answered(counted)]


class _TrieWalk:
    """A walk through one trie, level by level from its root."""

    def __init__(
        self, payloads: Payloads, key: bytes, number: int, columns: int, folding: Folding, top: int, seen: set[bytes]
    ) -> None:
        self._payloads = payloads
        self._key = key
        self._number = number
        self._columns = columns
        self._folding = folding
        self._top = top  # at 0, a root that is a leaf has a row
        self._leaves: list[tuple[int, Node]] = []
        self._root: list[Any] = []

    def found(self) -> _TrieFacts:
        """Return the items, the count and the partials of the trie, after `faults` has ended."""
        leaves = [leaf for _, leaf in sorted(self._leaves, key=itemgetter(0))]
        items = read_nodes(leaves, self._columns)
        items = items.moved(np.zeros(len(items), np.int64))
        return _TrieFacts(items, len(items), self._root)

    def faults(self) -> Iterator[Wrong]:
        """Yield the faults of the trie's nodes."""
        level: list[int] = [0]
        entries: Items | None = None  # the parents' entries for this level's nodes, in order
        depth = 0
        while level:
            rows = self._payloads([address(self._key, self._number, prefix, depth) for prefix in level])
            for prefix, row in zip(level, rows):
                if row is None and (depth or self._top):
                    yield self._where(prefix, depth), "there is no such node"
            present = [i for i, row in enumerate(rows) if row is not None]
            entries = None if entries is None else entries.take(np.array(present, np.int64))
            have = [
                _Stored(i, level[k], row, unpacked(row)) for i, k in enumerate(present) if (row := rows[k]) is not None
            ]
            yield from self._leaf_level([one for one in have if not is_inner(one.node)], entries, depth)
            children = yield from self._inner_level([one for one in have if is_inner(one.node)], entries, depth)
            level, entries, depth = children.at.tolist(), children, depth + 1

    def _where(self, prefix: int, depth: int) -> str:
        return _node(self._number, prefix, depth)

    def _leaf_level(self, leaves: list[_Stored], entries: Items | None, depth: int) -> Iterator[Wrong]:
        if not leaves:
            return
        self._leaves += [(leaf.prefix, leaf.node) for leaf in leaves]
        items = read_nodes([leaf.node for leaf in leaves], self._columns)
        stops = np.searchsorted(items.node, np.arange(len(leaves)), "right")
        starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))
        full = np.flatnonzero(stops > starts)
        partials = [c.values() for c in self._folding.fold(items, starts[full], np.zeros(full.size, np.int64))]
        places = {int(i): j for j, i in enumerate(full.tolist())}
        cut = Cut(items, inner=False)
        for i, leaf in enumerate(leaves):
            prefix = leaf.prefix
            where, (a, b) = self._where(prefix, depth), (int(starts[i]), int(stops[i]))
            yield from (
                (where, what) for what in _leaf_faults(items.take(np.arange(a, b)), prefix, depth, self._number)
            )
            if packed(cut.node(a, b)) != leaf.row:
                yield where, "its row is not in its one form"
            if i not in places:
                yield where, "it is empty"
                continue
            if depth < self._top:
                yield where, "a root that is a leaf has no row"
            if b - a > trees.CAPACITY and depth < trees.DEEPEST:
                yield where, f"it is a leaf, and has {b - a} items"
            yield from self._matches_parent(entries, leaf.i, where, b - a, [p[places[i]] for p in partials])

    def _inner_level(self, inner: list[_Stored], entries: Items | None, depth: int) -> Generator[Wrong, None, Items]:
        """Check inner nodes. Return their entries for their children."""
        columns = 1 + self._folding.partials
        if not inner:
            return Items.none(columns)
        children = read_nodes([one.node for one in inner], columns)
        stops = np.searchsorted(children.node, np.arange(len(inner)), "right")
        starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))
        full = np.flatnonzero(stops > starts)
        joined = self._folding.join(children.columns[1:], starts[full], np.zeros(full.size, np.int64))
        partials = [c.values() for c in joined]
        places = {int(i): j for j, i in enumerate(full.tolist())}
        cut = Cut(children, inner=True)
        for i, one in enumerate(inner):
            prefix = one.prefix
            where, (a, b) = self._where(prefix, depth), (int(starts[i]), int(stops[i]))
            if i not in places or depth >= trees.DEEPEST:
                yield where, "it can't be an inner node"
                continue
            at, count = children.at[a:b], int(children.columns[0].lane[a:b].sum())
            if not (at[1:] > at[:-1]).all() or not _below(at, prefix, depth, depth + 1):
                yield where, "its children are not its own"
            if count <= trees.CAPACITY:
                yield where, f"it is an inner node, and has {count} items"
            if packed(cut.node(a, b)) != one.row:
                yield where, "its row is not in its one form"
            yield from self._matches_parent(entries, one.i, where, count, [p[places[i]] for p in partials])
        return children

    def _matches_parent(
        self, entries: Items | None, k: int, where: str, count: int, partials: list[Any]
    ) -> Iterator[Wrong]:
        """Compare a node with its parent's entry for it. Keep the root's partials for the check of the row."""
        if entries is None:
            self._root = partials
            return
        counted = int(entries.columns[0].lane[k])
        if counted != count:
            yield where, f"the node above counts {counted} items, and there are {count}"
        own = [column.take(np.array([k])).values()[0] for column in entries.columns[1:]]
        if not _same(own, partials):
            yield where, f"the node above says {repr_of(own)}, its items {repr_of(partials)}"


def _node(trie: int, prefix: int, depth: int) -> str:
    """Return the name of a node for messages."""
    return f"trie {trie}, node {prefix:016x}/{depth}"


def _group_text(key: bytes) -> Any:
    """Return the group of a stored key, or the key itself if the group is not stored whole."""
    return key if is_long(key) else decode_key(key)


def _leaf_faults(items: Items, prefix: int, depth: int, number: int) -> Iterator[str]:
    """Yield the faults of the items of one leaf."""
    order = sort_order(items)
    if not bool((order == np.arange(len(items))).all()):
        yield "its items are out of order"
    at = np.arange(max(0, len(items) - 1))
    if bool(same_items(items, at, items, at + 1).any()):
        yield "a source has two items"
    if not _below(items.at, prefix, depth, trees.DEEPEST):
        yield "an item is not its own"
    if number == CONTRIBUTIONS and not bool((positions(items) == items.at).all()):
        yield "an item is not where its source belongs"


def _below(at: Codes64, prefix: int, depth: int, own: int) -> bool:
    """Return True if all positions lie below a node and are prefixes of the depth `own`."""
    return bool(((at & MASKS[depth]) == np.uint64(prefix)).all() and ((at & MASKS[own]) == at).all())


def _totals(cell: Accumulator, column: Column) -> tuple[list[Any], str]:
    """Recompute an accumulator from the values of one group. Return its state and the first error's message."""
    none = cell.batch(np.zeros(0, np.int64), 1, Column.nulls(0))
    plus = cell.batch(np.zeros(len(column), np.int64), 1, column)
    totals = cell.update(GroupTotals.none(cell.lanes, 1), plus, none)
    error = next((error_text(error) for error in totals.errors.values()), "")
    return [totals.lanes[:, 0].tolist(), totals.spill.get(0)], error


def _same(one: Any, other: Any) -> bool:
    """Compare two parts of rows by their canonical bytes."""
    return canonical(one) == canonical(other)
