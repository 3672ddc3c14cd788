"""Bugs planted in reduce trees: seeded histories of small trees must find each.

The same histories without a planted bug find nothing in `test_oracle_trees`. Bugs that show only if hashes tie are
searched in histories of ties.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import penstock as ps
from tests.harness.planting import Bug, Edit
from tests.mapreduce.trees import tree_histories
from tests.mapreduce.trees.planted_ties import TIES

STEPS, SEEDS = 14, range(8)
FOUND_BY = {  # the histories that find rare bugs soonest, tried before the others
    "an unmerge is used where values tie": 4,
    "the children of a node that is folded back stay": 2,
    "the root of a group that has become small stays": 2,
    "a group that gets nodes and no value answers with those that it had in its row": 4,
    "a held group shows what half of its reducers say": 1,
    "values of one code are in the order of their bytes": 9,
    "a group whose values are all gone says that it has none, not nothing": 3,
    "what shares a hash stands as it came": 2,
    "items that share a hash are merged by it": 7,
    "the exact merge forgets where an item was": 2,
    "a source that has a new ts and the same values is passed over": 8,
    "a group in which everything comes as it goes is looked for in its tree": 10,
    "a place among values is one off at a node's end": 1,
    "a node that was just written is remembered as it was before": 1,
    "a node that went behind is read from the store": 3,
    "the greatest value went, and is shown": 6,
    "a greater value that came is not shown": 1,
    "what came and is no better counts for what went": 4,
    "what waits for a group is not laid over its tree before that changes": 1,
    "what was laid over a tree waits on": 1,
    "what came first counts of what waits": 2,
    "the log is emptied while something waits": 4,
    "a group that falls to few waits": 1,
}
_STALE = """was = merge(old, new, nodes.items == 0)[1]
    both = [Column.join([a, b]) for a, b in zip(old.columns[1:], new.columns[1:])]
    kept = np.where(was >= 0, was, len(old) + np.arange(len(new)))
    new.columns = (new.columns[0], *(column.take(kept) for column in both))
    children, _ = merge(old, new, nodes.items == 0)"""
_UNMERGED = """self._check(batch, grown)
    from penstock.mapreduce.columns.column import Column
    for i in np.flatnonzero(removed).tolist() if grown.partials else ():
        shown, gone = grown.partials[0].values(), new.columns[0].values()[i]
        if shown[new.node[i]] == gone:
            shown[new.node[i]] = None
            grown.partials = (Column.of(shown), *grown.partials[1:])"""

BUGS = [
    # values in order
    Bug(
        "changes of one value stand apart",
        "mapreduce.tries.value_trie:_summed",
        "np.append(True, ~same)",
        "np.append(True, same | ~same)",
    ),
    # rows of nodes
    Bug(
        "a leaf that is cut among others loses its ranks",
        "mapreduce.nodes.node_format:Cut._ranks_of_each",
        "own[x:y] if some else None",
        "None",
    ),
    # nodes and their partials
    Bug(
        "a partial of a child that changed is not refreshed",
        "mapreduce.tries.path_refold:TrieUpdate._up",
        "children, _ = merge(old, new, nodes.items == 0)",
        _STALE,
    ),
    Bug(
        "a partial is that of the first child",
        "mapreduce.tries.path_refold:TrieUpdate._up",
        "joined = self._join(children.columns[1:], starts, place[full])",
        "joined = tuple(c.take(starts) for c in children.columns[1:])",
    ),
    Bug(
        "what a row shows of its root is not refreshed",
        "mapreduce.trees.changed_rows:TreeRows._say",
        "spills.append(answers)",
        "spills.append([b.spills[i] if b and b.spills and not b.items else a for a, b in zip(answers, batch.old)])",
    ),
    Bug(
        "a node that has become small is not folded back",
        "mapreduce.tries.path_refold:TrieUpdate._up",
        "few = counts[full] <= trees.CAPACITY",
        "few = counts[full] < 0",
    ),
    Bug(
        "a node is folded back late",
        "mapreduce.tries.path_refold:TrieUpdate._up",
        "few = counts[full] <= trees.CAPACITY",
        "few = counts[full] < trees.CAPACITY",
    ),
    Bug(
        "the children of a node that is folded back stay",
        "mapreduce.tries.path_refold:TrieUpdate._fold_back",
        "self._nodes.update(dict.fromkeys(below))",
        "pass",
    ),
    Bug(
        "the root of a group that has become small stays",
        "mapreduce.tries.path_refold:TrieUpdate._fold_back",
        "self._nodes.update(dict.fromkeys(keys))",
        "pass",
    ),
    Bug(
        "a leaf is cut late",
        "mapreduce.tries.path_refold:TrieUpdate._split",
        "big = (stop - start > trees.CAPACITY)",
        "big = (stop - start > trees.CAPACITY + 1)",
    ),
    Bug(
        "the parts of a split leaf keep its address",
        "mapreduce.tries.path_refold:TrieUpdate._split",
        "np.repeat(named & ~big, size)",
        "np.repeat(named, size)",
    ),
    Bug(
        "a leaf that has become empty stays",
        "mapreduce.tries.path_refold:TrieUpdate.folded",
        "self._nodes.update(dict.fromkeys(self._names(leaves, empty, depth)))",
        "pass",
    ),
    Bug(
        "a node without items keeps its place in the node above",
        "mapreduce.tries.path_refold:TrieUpdate._up",
        "merge(old, new, nodes.items == 0)",
        "merge(old, new, nodes.items < 0)",
    ),
    Bug(
        "a hint is trusted too far",
        "mapreduce.tries.path_refold:TrieUpdate.find_leaves",
        "depth = 0\n    while",
        "depth = int(known[new.node[todo]].min()) if todo.size else 0\n    while",
    ),
    Bug(
        "an item that is replaced stays beside the one that replaces it",
        "mapreduce.columns.items:merge",
        "keep[place[hit]] = False",
        "keep[place[hit]] = ~gone[hit]",
    ),
    Bug(
        "an unmerge is used where values tie",
        "mapreduce.trees.tree_fold:TreeReduce._in_columns",
        "self._check(batch, grown)",
        _UNMERGED,
    ),
    # additions and removals
    Bug(
        "a source that has a new ts and the same values is passed over",
        "mapreduce.trees.batch_items:coming",
        "if not stamped:",
        "if True:",
        Edit(
            "mapreduce.trees.batch_items:_equal_rows",
            "for column in items.columns:",
            "for column in items.columns[:1]:",
        ),
    ),
    Bug(
        "a group in which everything comes as it goes is looked for in its tree",
        "mapreduce.trees.tree_fold:TreeReduce._in_columns",
        "if not stirred.all():",
        "if False:",
    ),
    Bug(
        "all values of a document for a group have one rank",
        "mapreduce.maps.emissions:Contributions.of",
        "rank = _ranks(np.repeat(np.arange(who.size), counts), self.code)",
        "rank = None",
    ),
    Bug(
        "a group that gets nodes and no value answers with those that it had in its row",
        "mapreduce.trees.changed_rows:TreeRows._unmoved",
        "if before is None or before.items is not None:",
        "if before is None:",
    ),
    Bug(
        "a row that was made a moment ago is known by its key, whatever became of it",
        "mapreduce.trees.changed_rows:TreeRows.read",
        "known is not None and known[0] == row",
        "known is not None",
    ),
    Bug("a group that empties keeps its row", "mapreduce.trees.changed_rows:TreeRows.settled", "if n:", "if n >= 0:"),
    Bug(
        "a row is not written while what it shows stays",
        "mapreduce.trees.changed_rows:TreeRows.settled",
        "if row == batch.raw[place]:",
        "if before is not None and before.spills == after.spills:",
    ),
    Bug(
        "a held group shows what half of its reducers say",
        "mapreduce.trees.changed_rows:TreeRows._say",
        "errors.setdefault(place, error)",
        "pass",
    ),
    # values
    Bug(
        "a removed item stays in a tree of values",
        "mapreduce.trees.tree_fold:TreeReduce._moved",
        "hit = ((was >= 0) & was_deep[place]).nonzero()[0]",
        "hit = ((was >= 0) & was_deep[place] & ~removed).nonzero()[0]",
    ),
    Bug(
        "a value goes with the first of the sources that have it",
        "mapreduce.tries.path_refold:_added",
        "count = new.columns[0].lane + np.where",
        "count = np.where(new.columns[0].lane < 0, 0, new.columns[0].lane) + (new.columns[0].lane > 0) * np.where",
    ),
    Bug(
        "the values of a group that gets nodes are only those that came",
        "mapreduce.trees.tree_fold:TreeReduce._moved",
        "plus.append(stay)",
        "pass",
    ),
    Bug(
        "the values of a group that loses its nodes keep theirs",
        "mapreduce.trees.tree_fold:TreeReduce._moved",
        "minus.append(left)",
        "pass",
    ),
    Bug(
        "a place among values is one off at a node's end",
        "mapreduce.tries.value_trie:ValueTree._at",
        'np.searchsorted(upto, place, "right")',
        'np.searchsorted(upto, place, "left")',
    ),
    Bug(
        "values of one code are in the order of their bytes",
        "mapreduce.tries.value_trie:ValueTree._sorted",
        "key=lambda v: (v[0], key(v[1]))",
        "key=lambda v: v[:2]",
    ),
    Bug(
        "a group whose values are all gone says that it has none, not nothing",
        "mapreduce.trees.changed_rows:TreeRows._say",
        "distinct.append([count or None for count, _ in settled])",
        "distinct.append([count for count, _ in settled])",
    ),
    # deferred writes
    Bug(
        "the last row of the log is not replayed",
        "mapreduce.nodes.node_log:read_log",
        "reader.scan(db):",
        "list(reader.scan(db))[:-1]:",
    ),
    Bug(
        "the log's first word on an item counts, not its last",
        "mapreduce.nodes.node_log:last_of_each",
        "last[:-1] = (",
        "last[1:] = (",
    ),
    Bug(
        "what the log removes comes back", "mapreduce.nodes.node_log:last_of_each", "gone[order]", "gone[order] & False"
    ),
    Bug(
        "the log has only what came to a group that gets nodes",
        "mapreduce.trees.tree_fold:TreeReduce._moved",
        "risen = Items.join([stay, new.take(own & ~removed)])",
        "risen = new.take(own & ~removed)",
    ),
    Bug(
        "the log does not say that a group lost its nodes",
        "mapreduce.trees.tree_fold:TreeReduce._moved",
        "logged.append((fallen, np.ones(len(fallen), bool)))",
        "pass",
    ),
    Bug(
        "only the nodes of the last batch are written",
        "mapreduce.nodes.node_log:NodeLog.write_all",
        "{**self.nodes, **nodes}",
        "{**nodes}",
    ),
    Bug(
        "nodes that went are not deleted",
        "mapreduce.nodes.node_log:NodeLog.write_all",
        "gone = [key for key, node in every if node is None]",
        "gone = []",
    ),
    Bug(
        "what is behind is not remembered", "mapreduce.nodes.node_log:NodeLog._take", "self.nodes.update(nodes)", "pass"
    ),
    Bug(
        "a node that was just written is remembered as it was before",
        "mapreduce.nodes.node_log:NodeLog.wrote_all",
        "{**self.nodes, **nodes}",
        "{**nodes, **self.nodes}",
    ),
    Bug(
        "a node that went behind is read from the store",
        "mapreduce.nodes.node_log:NodeLog.get_many",
        "repeat(())))",
        "repeat(()))); out = [node or () for node in out]",
    ),
    Bug(
        "values are not replayed",
        "mapreduce.trees.snapshot_nodes:TreeNodes.read_node_log",
        "for tree in self._value_trees:",
        "for tree in ():",
    ),
    # deferred items
    Bug(
        "the greatest value went, and is shown",
        "mapreduce.reducers.extremes:Extreme.stepped",
        "(lost >= best)",
        "(lost > best)",
    ),
    Bug(
        "a greater value that came is not shown",
        "mapreduce.reducers.extremes:Extreme.stepped",
        "codes = np.maximum(best, top)",
        "codes = best",
    ),
    Bug(
        "what came and is no better counts for what went",
        "mapreduce.reducers.extremes:Extreme.stepped",
        "(new & (top >= best))",
        "new",
    ),
    Bug(
        "what waits for a group is not laid over its tree before that changes",
        "mapreduce.trees.tree_fold:TreeReduce._without_trees",
        "late.take(batch.keys[i] for i in np.flatnonzero(asked).tolist())",
        "None",
    ),
    Bug(
        "what was laid over a tree waits on",
        "mapreduce.trees.deferred_items:DeferredItems.take",
        "self._parts = [(items.take(rest), gone[rest])]",
        "pass",
    ),
    Bug(
        "what came first counts of what waits",
        "mapreduce.trees.deferred_items:DeferredItems._joined",
        "return Items.join",
        "self._parts = self._parts[::-1]; return Items.join",
    ),
    Bug(
        "the log is emptied while something waits",
        "mapreduce.trees.tree_fold:TreeReduce.stage",
        "and change.late is None and not len(late)",
        "",
    ),
    Bug(
        "a group that falls to few waits",
        "mapreduce.trees.deferred_items:stepped",
        "(batch.old_n > trees.CAPACITY) & (batch.n > trees.CAPACITY)",
        "(batch.old_n > trees.CAPACITY)",
    ),
    # indexes
    Bug(
        "of a document's values for a group one is listed",
        "mapreduce.plain_index:_entry",
        "(group, whose, rank)",
        "(group, whose, 0)",
    ),
]


def test_every_seed_that_is_named_is_that_of_a_bug() -> None:
    assert FOUND_BY.keys() <= {bug.name for bug in (*BUGS, *TIES)}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    _search(bug, monkeypatch, ties=False)


@pytest.mark.parametrize("bug", TIES, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_where_hashes_tie(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    _search(bug, monkeypatch, ties=True)


def _search(bug: Bug, monkeypatch: pytest.MonkeyPatch, ties: bool) -> None:
    bug.plant(monkeypatch)
    first = FOUND_BY.get(bug.name)
    with pytest.raises((AssertionError, ps.StoreDamaged)):
        _run(SEEDS if first is None else [first, *SEEDS], ties)


def _run(seeds: Iterable[int], ties: bool) -> None:
    for seed in seeds:
        tree_histories.run(seed, STEPS, ties=ties)
