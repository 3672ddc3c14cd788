"""Count the reads and writes of tree updates, in a view with one large group and many groups of one source.

Nodes are written with each batch here, so that no deferred write hides a read. `python -m bench --only update` counts
the same with 1,000,000 sources and 100,000 groups of one source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest

import penstock as ps
from penstock.cache import Limits, MemoryStore, encode_key
from penstock.cache.store.memory_store import MemoryWriter
from penstock.engine import open_on
from penstock.mapreduce import SourceKeys, TreeReduce, check_trees, nodes_db, rows_db, small_trees
from penstock.mapreduce.nodes import node_log
from penstock.mapreduce.nodes.node_levels import address, depths_for
from penstock.mapreduce.trees import tree_fold as tree

LARGE, SMALL = 100_000, 10_000
DEPTH = int(depths_for(np.array([LARGE]))[0])
TOGETHER = 1_000


@dataclass
class Calls:
    """The calls of one step, each as a database and a number of keys."""

    reads: list[tuple[str, int]] = field(default_factory=list)
    writes: list[tuple[str, int]] = field(default_factory=list)

    def of(self, db: str) -> tuple[list[int], list[int]]:
        """Return the number of keys of each read and of each write of a database."""
        return [n for name, n in self.reads if name == db], [n for name, n in self.writes if name == db]


class CountingWriter(MemoryWriter):
    """A transaction that records its calls."""

    calls: Calls

    def get_many(self, db: str, keys: Any) -> list[bytes | None]:
        self.calls.reads.append((db, len(keys)))
        return super().get_many(db, keys)

    def put_many(self, db: str, items: Any, append: bool = False, new: Any = None) -> None:
        self.calls.writes.append((db, len(items)))
        super().put_many(db, items, append)

    def delete_many(self, db: str, keys: Any) -> None:
        self.calls.writes.append((db, len(keys)))
        super().delete_many(db, keys)


class CountingStore(MemoryStore):
    """A store that records the calls of each transaction in `calls`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Calls()

    def write(self) -> MemoryWriter:
        writer = CountingWriter(self)
        writer.calls = self.calls
        return writer


def app() -> ps.App:
    """Return an app with a view of the greatest value by group."""
    out = ps.App("costs")
    table = out.table("t", key="id")
    table.view("max", key="g", value="v", reduce=ps.max())
    return out


class Large:
    """The engine with the large group, "all", and the groups of one source."""

    def __init__(self) -> None:
        self.store = CountingStore()
        self.engine, core = open_on(app(), self.store, Limits(fold_least=1 << 30))
        lines = [b'{"id":%d,"g":"all","v":%d}' % (i, i % 997) for i in range(LARGE)]
        lines += [b'{"id":%d,"g":%d,"v":1}' % (LARGE + i, i) for i in range(SMALL)]
        for at in range(0, len(lines), 50_000):
            self.engine.put_many("t", lines[at : at + 50_000])
        self.tree: Any = core.views["max"].reduce
        self.nodes, self.rows = nodes_db(self.tree.number), rows_db(self.tree.number)

    def put(self, docs: list[dict[str, Any]]) -> Calls:
        """Put documents in one batch. Return the calls that it made."""
        calls = self.store.calls
        self.tree._node_log._written.clear()  # as if the last writes were long ago
        calls.reads.clear()
        calls.writes.clear()
        self.engine.put_many("t", docs)
        return calls

    def paths(self, keys: list[int]) -> int:
        """Return the number of distinct nodes on the paths to these sources."""
        with self.engine.snapshot() as snap:
            assert isinstance(self.tree, TreeReduce)
            there = {node for node, _ in self.tree.nodes(snap.reader())}
        ats = positions_of(keys)
        found = set()
        for at in ats:
            for depth in range(17):
                node = address(b"\x05all", 0, at & ~((1 << (64 - 4 * depth)) - 1), depth)
                if node not in there:
                    break
                found.add(node)
        return len(found)


def positions_of(keys: list[int]) -> list[int]:
    """Return the positions of these keys in a tree."""
    return list(map(int, SourceKeys.of(keys).hashes().tolist()))


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    with mock.patch.object(node_log, "MOST_ITEMS", 0):
        found = Large()
        yield found
        found.engine.close()


def test_a_group_with_few_sources_costs_one_read_and_one_write(large: Large) -> None:
    calls = large.put([{"id": LARGE + 17, "g": 17, "v": 5}])
    assert calls.of(large.rows) == ([1], [1])
    assert calls.of(large.nodes) == ([], [])
    assert not [db for db, _ in [*calls.reads, *calls.writes] if db.startswith("behind")]


def test_so_do_a_thousand_of_them_together(large: Large) -> None:
    calls = large.put([{"id": LARGE + i, "g": i, "v": 6} for i in range(TOGETHER)])
    assert calls.of(large.rows) == ([TOGETHER], [TOGETHER])
    assert calls.of(large.nodes) == ([], [])


def test_a_source_that_moves_costs_a_row_of_each_group(large: Large) -> None:
    calls = large.put([{"id": LARGE + 33, "g": 34, "v": 6}])
    reads, writes = calls.of(large.rows)
    assert (reads, sum(writes)) == ([2], 2), "a row is put, and one is deleted"


def test_one_read_fetches_a_whole_path(large: Large) -> None:
    for key in range(0, LARGE, LARGE // 20):  # until the depth of the deepest of them is known
        large.put([{"id": key, "g": "all", "v": 2_000 + key}])
    for key in range(3, LARGE, LARGE // 10):
        calls = large.put([{"id": key, "g": "all", "v": 3_000}])
        assert calls.of(large.rows) == ([1], []), "what the group shows stays, so its row does"
        reads, writes = calls.of(large.nodes)
        path = large.paths([key])
        assert path >= DEPTH + 1
        assert len(reads) == 1, "the path is read at once"
        assert path <= reads[0] <= path + 1, "a hint may be one level too deep"
        assert writes == [path]


def test_a_hint_that_is_short_costs_a_read_and_is_remembered(large: Large) -> None:
    deep = next(key for key in range(LARGE) if large.paths([key]) > DEPTH + 1)
    large.tree._depths.clear()
    first, _ = large.put([{"id": deep, "g": "all", "v": 1}]).of(large.nodes)
    assert len(first) == 2, "the guess from the count is one level short"
    second, _ = large.put([{"id": deep, "g": "all", "v": 2}]).of(large.nodes)
    assert len(second) == 1


def test_a_hint_is_held_only_for_a_group_that_is_deeper_than_its_size_says(large: Large) -> None:
    large.put([{"id": key, "g": "all", "v": 1} for key in range(0, LARGE, 10)])
    [((key, trie), depth)] = large.tree._depths.items()
    assert (key, trie) == (encode_key("all"), 0)
    assert depth > DEPTH


@pytest.mark.parametrize("most", [0, 1, 5])
def test_hints_are_bounded(most: int) -> None:
    docs = [{"id": i, "g": i % 40, "v": i} for i in range(600)]
    with small_trees(capacity=2), mock.patch.object(tree, "_MOST_DEPTHS", most):
        engine, core = open_on(app(), MemoryStore())
        view: Any = core.views["max"].reduce
        held = []
        for at in range(0, len(docs), 5):
            engine.put_many("t", docs[at : at + 5])
            held.append(len(view._depths))
        assert max(held) <= max(most, 5), "those of one batch, or as many as there may be"
        assert most < 5 or len(set(held)) > 2, "some are held, and dropped"
        for doc in docs[10:]:
            engine.delete("t", doc["id"])
        assert not view._depths, "what has no nodes has no hint"
        with engine.snapshot() as snap:
            assert dict(snap.view("max").items()) == {i: i for i in range(10)}
            assert not list(check_trees(view, snap.reader()))
        engine.close()


def test_updates_of_a_batch_share_their_paths(large: Large) -> None:
    keys = list(range(5, LARGE, LARGE // TOGETHER))
    large.put([{"id": key, "g": "all", "v": 3_000} for key in keys])  # until all of their depths are known
    calls = large.put([{"id": key, "g": "all", "v": 200_000} for key in keys])
    reads, writes = calls.of(large.nodes)
    paths = large.paths(keys)
    assert paths < len(keys) * (DEPTH + 1) // 2, "the nodes near the root are shared"
    assert sum(writes) == paths
    assert len(reads) <= 2, "so many are read as deep as most paths are, and what lies deeper together after that"
    assert calls.of(large.rows) == ([1], [1])


def test_a_few_updates_together_are_one_read(large: Large) -> None:
    keys = list(range(7, LARGE, LARGE // 40))
    large.put([{"id": key, "g": "all", "v": 3_000} for key in keys])
    reads, writes = large.put([{"id": key, "g": "all", "v": 3_001} for key in keys]).of(large.nodes)
    assert len(reads) == 1
    assert sum(writes) == large.paths(keys)


def test_all_of_it_is_right(large: Large) -> None:
    with large.engine.snapshot() as snap:
        assert snap.view("max")["all"] == max(doc["v"] for _, doc in snap.table("t").items() if doc["g"] == "all")
        assert not list(check_trees(large.tree, snap.reader()))


@mock.patch.object(node_log, "MOST_ITEMS", 1 << 17)
def test_a_group_that_keeps_its_greatest_leaves_its_tree_alone() -> None:
    store = CountingStore()
    engine, core = open_on(app(), store, Limits(fold_least=1 << 30))
    tree = core.views["max"].reduce
    assert isinstance(tree, TreeReduce)
    engine.put_many("t", [{"id": i, "g": "all", "v": i} for i in range(1_000)])
    nodes = dict(tree._node_log.nodes) if tree._node_log is not None else {}
    for i in range(100):
        engine.put("t", {"id": i, "g": "all", "v": -1 - i})
    assert tree._node_log is not None
    assert tree._node_log.nodes == nodes
    assert len(tree._deferred) == 100
    engine.put("t", {"id": 999, "g": "all", "v": 0})
    with engine.snapshot() as snap:
        assert snap.view("max")["all"] == 998
        assert not list(check_trees(tree, snap.reader()))
    assert tree._node_log.nodes != nodes
    assert len(tree._deferred) == 0
    engine.close()
