"""The reduce node of views that keep contributions, in trees with partial results.

Each group's row holds its accumulators and the answers of its tree cells and value cells. The row of a small group
also holds its contributions: such a group costs one read and one write. A larger group has a trie of nodes, which are
written later. Invariants:

- memory holds only unwritten nodes, deferred items, depths of tries and a cache of recent rows;
- a removed contribution must be in the tree, or the store is damaged: each batch checks the number of items;
- a group whose user reducer fails shows its last good result until its partials can be computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, StoreDamaged, Writer
from penstock.mapreduce.columns.filtered_column import read_column
from penstock.mapreduce.columns.group_codes import Groups, local_codes
from penstock.mapreduce.columns.items import Items, Mask, SourceKeys, merge, of_named, ranked
from penstock.mapreduce.fold.row_format import RowCodec
from penstock.mapreduce.maps.emissions import Contributions, ContributionSources
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_format import Node, read_leaves
from penstock.mapreduce.nodes.node_levels import Fetch, NewNodes, Tries
from penstock.mapreduce.nodes.node_log import NodeLog, log_row
from penstock.mapreduce.trees import deferred_items as waits
from penstock.mapreduce.trees.batch_items import Side, coming
from penstock.mapreduce.trees.changed_rows import ChangedRows, TreeBatch, TreeRows
from penstock.mapreduce.trees.deferred_items import DeferredItems, KnownRoots, WaitingItems, stepped
from penstock.mapreduce.trees.small_groups import RowsOnce, SmallGroups
from penstock.mapreduce.trees.snapshot_nodes import CONTRIBUTIONS, TreeNodes, node_log_db
from penstock.mapreduce.trees.tree_change import Depths, TreeChange
from penstock.mapreduce.tries.value_trie import Settled, ValueMoves, ValueTree
from penstock.views import TS, GroupTotals, Path, is_accumulator, is_tree_cell, is_value_cell

Field = Path | None
Ints = NDArray[np.int64]
_MOST_DEPTHS = 1 << 16


class TreeReduce:
    """The reducer of one view that keeps contributions."""

    def __init__(self, name: str, number: int, db: str, codec: RowCodec, fields: Sequence[Field], few: int) -> None:
        self.name = name
        self.db = db
        self.codec = codec
        self.number = number
        spans = zip(codec.cells, codec.spans)
        self._totals = tuple((c, span, i) for i, (c, span) in enumerate(spans) if is_accumulator(c))
        self.tree_cells = tuple(c for c in codec.cells if is_tree_cell(c))
        self._rows = TreeRows(codec)
        self.stamped = any(TS in c.beside for c in self.tree_cells)
        self.stored_fields: tuple[Field, ...] = tuple([*fields, TS] if self.stamped else fields)
        wanted = [f for c in codec.cells if is_accumulator(c) for f in (c.field,)]
        self.fields: tuple[Field, ...] = tuple(dict.fromkeys([*fields, *wanted]))
        by_value = [c for c in codec.cells if is_value_cell(c)]
        self.value_trees = [ValueTree(c, self.stored_fields, CONTRIBUTIONS + i) for i, c in enumerate(by_value, 1)]
        self._few = few  # the limit up to which contributions are folded one by one
        self._small_groups = SmallGroups(name, codec, self._rows, self.stored_fields, self.stamped, self.value_trees)
        self._nodes = TreeNodes(number, self.tree_cells, self.stored_fields, self.value_trees)
        self._node_log: NodeLog | None = None
        self._deferred = DeferredItems()
        self._depths: Depths = {}

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        behind = 0 if self._node_log is None else self._node_log.nbytes
        return behind + self._deferred.nbytes + 200 * len(self._depths) + self._rows.nbytes

    def forget(self) -> None:
        """Drop everything in memory."""
        self._node_log = None
        self._deferred = DeferredItems()
        self._depths = {}
        self._rows.forget()

    # -- a batch

    def folded(self, reader: Reader, groups: Groups, plus: Contributions, minus: Contributions) -> TreeChange:
        """Return the change that these contributions make."""
        rows = RowsOnce(reader, self.db)
        if plus.n + minus.n <= self._few:
            changed = self._small_groups.fold(rows, self._depths, groups, plus, minus)
            if changed is not None:
                return TreeChange(self, groups, changed)
        return self._in_columns(reader, rows, groups, plus, minus)

    def _in_columns(
        self, reader: Reader, rows: RowsOnce, groups: Groups, plus: Contributions, minus: Contributions
    ) -> TreeChange:
        """Fold any number of contributions to groups of any size, in columns."""
        codes, loc = local_codes(np.concatenate((plus.code, minus.code)), groups.size)
        here, gone = loc[: plus.n], loc[plus.n :]
        new, removed = coming((plus, here), (minus, gone), self.stored_fields, self.stamped)
        stirred = np.zeros(codes.size, bool)
        stirred[new.node] = True
        if not stirred.all():  # some groups get back all that they lose
            place = np.cumsum(stirred) - 1
            plus, minus = plus.take(stirred[here]), minus.take(stirred[gone])
            codes, here, gone = codes[stirred], place[here[stirred[here]]], place[gone[stirred[gone]]]
            new = new.moved(place[new.node])
        if not codes.size:
            return TreeChange(self, groups, ChangedRows(codes, [], [], [], [], 0))
        keys = [groups.stored[c] for c in codes.tolist()]
        raw = rows.get_many(keys)
        where = f"view {self.name!r}"
        old = self._rows.read(keys, raw, where)
        m = len(keys)
        old_n = np.fromiter((0 if state is None else state.n for state in old), np.int64, m)
        n = old_n + np.bincount(here, minlength=m) - np.bincount(gone, minlength=m)
        batch = TreeBatch(codes, keys, raw, old, old_n, n, groups)
        totals = self._accumulated(batch, plus, minus, here, gone)
        behind = self._ready(reader)

        def fetch(nodes: list[bytes]) -> list[Node | None]:
            return behind.get_many(reader, nodes)

        sure = self._without_trees(fetch, batch, (plus, here), (minus, gone), len(new))
        known = self._known(CONTRIBUTIONS, keys, old_n)
        grown = self._grown(fetch, batch, known, new, removed, sure)
        self._check(batch, grown)
        moved, log = self._moved(batch, grown, new, removed)
        change = TreeChange(self, groups, ChangedRows(codes, [], [], [], [], 0), grown.nodes)
        change.late = None if sure is None else WaitingItems.of(keys, n, new, removed, sure.groups)
        self._deeper(change.depths, CONTRIBUTIONS, known, grown)
        values = self._value_states(fetch, batch, grown, moved, change)
        change.changed = self._rows.changed(batch, totals, grown, values)
        if log is not None and len(log[0]):
            change.log = self._named(batch, *log)
        return change

    def _accumulated(
        self, batch: TreeBatch, plus: Contributions, minus: Contributions, here: Ints, gone: Ints
    ) -> list[GroupTotals]:
        m = len(batch.keys)
        out: list[GroupTotals] = []
        for cell, (a, b), i in self._totals:
            lanes = np.zeros((b - a, m), np.int64)
            spill: dict[int, list[Any]] = {}
            for place, state in enumerate(batch.old):
                if state is not None:
                    lanes[:, place] = state.lanes[a:b]
                    if state.spills is not None and (own := state.spills[i]) is not None:
                        spill[place] = own
            added = cell.batch(here, m, plus.inputs[cell.field])
            out.append(cell.update(GroupTotals(lanes, spill), added, cell.batch(gone, m, minus.inputs[cell.field])))
        return out

    def _without_trees(self, fetch: Fetch, batch: TreeBatch, plus: Side, minus: Side, items: int) -> KnownRoots | None:
        """Return the groups whose rows follow without their trees. Apply the deferred items of all others."""
        behind, late = self._node_log, self._deferred
        assert behind is not None, "what is behind is read first"
        if behind.due({}, items) or len(late) + items > waits.MOST:
            self._lay(fetch, late.take_all())
        if self.value_trees or 2 * items > waits.MOST or behind.due({}, items):
            self._lay(fetch, late.take_all())
            return None
        sure = stepped(self.codec, batch, plus, minus)
        deep = batch.old_n > trees.CAPACITY
        asked = deep if sure is None else deep & ~sure.groups
        self._lay(fetch, late.take(batch.keys[i] for i in np.flatnonzero(asked).tolist()))
        return sure

    def _lay(self, fetch: Fetch, waiting: WaitingItems | None) -> None:
        """Apply deferred items to the nodes. They are committed, so the nodes stay valid if the batch fails."""
        if waiting is None:
            return
        assert self._node_log is not None, "what is behind is read first"
        known = self._known(CONTRIBUTIONS, waiting.keys, waiting.counts)
        trie = self._nodes.trie(waiting.keys.__getitem__)
        grown = trie.change(fetch, known, Items.none(len(self.stored_fields)), waiting.items, waiting.gone)
        self._node_log.laid(grown.nodes)
        depths: Depths = {}
        self._deeper(depths, CONTRIBUTIONS, known, grown)
        _write_depth_hints(self._depths, depths)

    def _grown(
        self, fetch: Fetch, batch: TreeBatch, known: Tries, new: Items, removed: Mask, sure: KnownRoots | None
    ) -> NewNodes:
        """Apply the items to the trees, except to those of `sure` groups."""
        inline = self._inline(batch)
        if sure is None:
            return self._nodes.trie(batch.value).change(fetch, known, inline, new, removed)
        own = np.flatnonzero(~sure.groups)
        place = np.cumsum(~sure.groups) - 1
        mine = ~sure.groups[new.node]
        trie = self._nodes.trie(lambda i: batch.value(int(own[i])))
        few = new.take(mine)
        grown = trie.change(
            fetch, known.take(own), inline.moved(place[inline.node]), few.moved(place[few.node]), removed[mine]
        )
        return grown.among(own, batch.n, mine, sure.groups, sure.partials)

    def _inline(self, batch: TreeBatch) -> Items:
        own = [(i, s.items) for i, s in enumerate(batch.old) if s is not None and s.items is not None]
        if not own:
            return Items.none(len(self.stored_fields))
        items = read_leaves([leaf for _, leaf in own], len(self.stored_fields))
        return items.moved(np.array([i for i, _ in own], np.int64)[items.node])

    def _check(self, batch: TreeBatch, grown: NewNodes) -> None:
        wrong = (grown.items != batch.n).nonzero()[0]
        if wrong.size:
            i = int(wrong[0])
            raise StoreDamaged(
                f"view {self.name!r}, group {batch.value(i)!r}: its tree would have {grown.items[i]} contributions "
                f"and its row {batch.n[i]}; run penstock check --fix"
            )

    def _moved(
        self, batch: TreeBatch, grown: NewNodes, new: Items, removed: Mask
    ) -> tuple[ValueMoves, tuple[Items, Mask] | None]:
        """Return items gained and lost by tries with nodes: the whole trie if its group gets or loses nodes."""
        deep, was_deep = batch.n > trees.CAPACITY, batch.old_n > trees.CAPACITY
        if not (deep | was_deep).any():
            none = Items.none(len(self.stored_fields))
            return ValueMoves(none, none), None
        before, was = grown.before, grown.was
        place = new.node
        hit = ((was >= 0) & was_deep[place]).nonzero()[0]
        minus = [before.take(was[hit]).moved(place[hit])]
        plus = [new.take(~removed & deep[place])]
        logged = [(new.take(deep[place] & was_deep[place]), removed[deep[place] & was_deep[place]])]
        rises = deep & ~was_deep
        if rises.any():
            # The items of the row that stay move to the tree.
            inline = self._inline(batch)
            stay = inline.take(rises[inline.node])
            own = rises[place]
            stay, _ = merge(stay, new.take(own), np.ones(int(own.sum()), bool))
            plus.append(stay)
            risen = Items.join([stay, new.take(own & ~removed)])
            logged.append((risen, np.zeros(len(risen), bool)))
        falls = was_deep & ~deep
        if falls.any():
            own = falls[place]
            left = grown.inline.take(falls[grown.inline.node])
            left, _ = merge(left, new.take(own), np.ones(int(own.sum()), bool))
            minus.append(left)
            fallen = Items.join([left, new.take(own)])
            logged.append((fallen, np.ones(len(fallen), bool)))
        items = Items.join([items for items, _ in logged])
        return ValueMoves(Items.join(minus), Items.join(plus)), (items, np.concatenate([gone for _, gone in logged]))

    def _known(self, trie: int, keys: list[bytes], items: Ints) -> Tries:
        """Return one trie of each group, with its number of items and its known depth."""
        depth = np.zeros(items.size, np.int64)
        if self._depths:
            deep, known = np.flatnonzero(items > trees.CAPACITY), self._depths.get
            depth[deep] = np.fromiter((known((keys[i], trie), 0) for i in deep.tolist()), np.int64, deep.size)
        return Tries(keys, items, depth)

    def _deeper(self, depths: Depths, trie: int, known: Tries, grown: NewNodes) -> None:
        """Record changed depths. Only tries with more than one node have an entry."""
        few = grown.items <= trees.CAPACITY
        for i in np.flatnonzero(few & (known.depth > 0)).tolist():
            depths[known.keys[i], trie] = 0
        for i, depth in grown.depth.items():
            if not few[i]:
                depths[known.keys[i], trie] = depth

    def _value_states(
        self, fetch: Fetch, batch: TreeBatch, grown: NewNodes, moved: ValueMoves, change: TreeChange
    ) -> list[dict[int, Settled]]:
        """Return for each value cell the answers of groups whose values change."""
        out: list[dict[int, Settled]] = []
        if not self.value_trees:
            return out
        small = ((batch.n > 0) & (batch.n <= trees.CAPACITY)).nonzero()[0].tolist()
        starts = np.searchsorted(grown.inline.node, np.arange(len(batch.keys) + 1)).tolist()
        for j, tree in enumerate(self.value_trees):
            had = (0 if s is None or s.values is None else s.values[j] or 0 for s in batch.old)
            distinct = np.fromiter(had, np.int64, len(batch.old))
            known = self._known(tree.number, batch.keys, distinct)
            changed = tree.change(fetch, known, moved)
            change.nodes.update(changed.grown.nodes)
            self._deeper(change.depths, tree.number, changed.known, changed.grown)
            out.append({**tree.settled(fetch, changed), **tree.small(grown.inline, starts, small)})
        return out

    def stage(
        self, change: TreeChange, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]
    ) -> None:
        """Add the tree writes to `during`, and the updates of memory to `after`."""
        behind, log = self._node_log, change.log
        depths = self._depths
        if change.depths:
            after.append(lambda: _write_depth_hints(depths, change.depths))
        if not change.nodes and log is None:
            return
        assert behind is not None, "a change was folded"
        items = 0 if log is None else len(log[1])
        late = self._deferred
        if behind.due(change.nodes, items) and change.late is None and not len(late):
            during.append(lambda writer: behind.write_all(writer, change.nodes))
            after.append(lambda: behind.wrote_all(change.nodes))
            return
        if log is not None:
            key = behind.log_key()
            row = log_row(key, *log)
            during.append(lambda writer: writer.put_many(node_log_db(self.number), [(key, row)], append=True))
        after.append(lambda: behind.logged(change.nodes, items))
        if change.late is not None:
            waiting = change.late
            after.append(lambda: late.add(waiting))

    # -- reads

    def of_sources(self, reader: Reader, groups: Groups, named: Items) -> Contributions:
        """Return the contributions of these documents to these groups. `node` is the group's code, and `rank` is 0."""
        codes, place = local_codes(named.node.astype(np.int32), groups.size)
        keys = [groups.stored[c] for c in codes.tolist()]
        raw = reader.get_many(self.db, keys)
        old = self._rows.read(keys, raw, f"view {self.name!r}")
        n = np.fromiter((0 if state is None else state.n for state in old), np.int64, len(keys))
        batch = TreeBatch(codes, keys, raw, old, n, n, groups)
        inline, first, deep = self._inline(batch), named.moved(place.astype(np.int64)), n > trees.CAPACITY
        if len(named) <= self._few and not deep.any():
            own = inline.take(of_named(inline, first))
            return self._contributed(own, codes[own.node])
        behind = self._ready(reader)

        def fetch(nodes: list[bytes]) -> list[Node | None]:
            return behind.get_many(reader, nodes)

        self._lay(fetch, self._deferred.take(keys[i] for i in np.flatnonzero(deep).tolist()))
        trie, known = self._nodes.trie(batch.value), self._known(CONTRIBUTIONS, keys, n)
        ranks = 1
        while True:
            asked = ranked(first, ranks, len(self.stored_fields))
            before, was = trie.found(fetch, known, inline, asked)
            assert asked.rank is not None, "each is asked by its rank"
            if not bool((was[asked.rank == ranks - 1] >= 0).any()):
                break
            ranks *= 4
        here = np.flatnonzero(was >= 0)
        return self._contributed(before.take(was[here]), codes[asked.node[here]])

    def _contributed(self, items: Items, codes: Ints) -> Contributions:
        """Return items as contributions to the groups with these codes."""
        inputs = dict(zip(self.stored_fields, items.columns, strict=True))
        for path in self.fields:
            if path is not None and path not in inputs:
                inputs[path] = read_column(path, self.stored_fields, inputs.__getitem__, len(items))
        sources = ContributionSources(SourceKeys(items.lane, items.text), np.arange(len(items)), items.rank)
        return Contributions(codes.astype(np.int32), inputs, sources)

    # -- late writes

    def _ready(self, reader: Reader) -> NodeLog:
        if self._node_log is None:
            self._node_log = self.read_node_log(reader)
        return self._node_log

    def read_node_log(self, reader: Reader) -> NodeLog:
        """Return the nodes of a snapshot that are not written yet."""
        return self._nodes.read_node_log(reader)

    def nodes(self, reader: Reader) -> Iterator[tuple[bytes, bytes]]:
        """Yield the address and payload of all nodes of a snapshot, sorted by address."""
        return self._nodes.all(reader)

    def _named(self, batch: TreeBatch, items: Items, gone: Mask) -> tuple[list[bytes], Items, Mask] | None:
        """Return the log entry of a batch, with the encoded groups."""
        if not len(items):
            return None
        used, node = np.unique(items.node, return_inverse=True)
        names = [batch.groups.whole(int(code)) for code in batch.codes[used].tolist()]
        return names, items.moved(node.ravel().astype(np.int64)), gone


def _write_depth_hints(depths: Depths, news: Depths) -> None:
    """Remember depths of tries. Tries with a single node have no entry."""
    if len(depths) + len(news) > _MOST_DEPTHS:
        depths.clear()
    for which, depth in news.items():
        if depth:
            depths[which] = depth
        else:
            depths.pop(which, None)
