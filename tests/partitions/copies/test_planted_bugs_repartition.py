"""Planted bugs in reads over partitions and in repartitioning: the tests find each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine import repartition
from penstock.mapreduce import small_trees
from tests.harness.planting import Bug
from tests.mapreduce.trees.tree_worlds import TREES
from tests.partitions.copies.test_oracle_repartition import grown, quarantined, turned, which_came_first
from tests.partitions.stores import Partitions, misplaced
from tests.partitions.union.test_union_reading import own
from tests.recovery.quarantine.held_worlds import VIEWS, Fails, rows, world


def trees(path: Path) -> None:
    """Move trees to other partitions and back, check them, and write to them again."""
    with small_trees():
        model, digest = grown(TREES, path, 3, 14)
        turned(path, TREES.app(), model, digest)
        with ps.open(TREES.app(), path, listen=False) as engine:
            assert engine.check().ok


def holding(path: Path) -> None:
    """Move held, resting and rejected rows to other partitions and back."""
    app = world(Fails(), Fails())
    docs = [{"id": i, "name": "ab"[i % 2] * (1 + i % 3), "v": i % 7, "w": i % 5, "bad": i % 4 == 0} for i in range(24)]
    with ps.open(app, path, listen=False) as engine:
        engine.put_many("docs", [{**doc, "bad": False} for doc in docs])
        engine.put_many("docs", docs)
        engine.put_many("docs", [{"name": "keyless"}])
        engine.drop(view="tree", limit=2)
        before, kept, digest = {view: rows(engine, view) for view in VIEWS}, quarantined(engine), engine.digest()
        counted = {name: about["held_groups"] for name, about in engine.status()["views"].items()}
    for to in (3, 1):
        repartition(path, to)
        with ps.open(app, path, readonly=True) as engine:
            assert {view: rows(engine, view) for view in VIEWS} == before
            assert quarantined(engine) == kept
            assert engine.digest() == digest
            assert not misplaced(engine)
            views = engine.status()["views"]
            assert {name: about["held_groups"] for name, about in views.items()} == counted
    with ps.open(app, path, listen=False) as engine:
        assert engine.check().ok


def following(path: Path) -> None:
    """Read a feed from every position that it gave, and a feed that began again."""
    partitions = Partitions(own(), path, 3)
    for turn in range(1, 4):
        partitions.put("users", [{"id": i, "n": turn} for i in range(12)])
    with ps.open(own(), path, readonly=True) as engine:
        changes = list(engine.changes("mine"))
        for i, change in enumerate(changes):
            assert len(list(engine.changes("mine", since=change.position))) == len(changes) - i - 1
        last = changes[-1].position
    partitions.close()
    repartition(path, 2)
    repartition(path, 3)
    with ps.open(own(), path, readonly=True) as engine, pytest.raises(ps.PositionExpired):
        engine.changes("mine", since=last)


STORIES: dict[str, Callable[[Path], None]] = {
    "trees": trees,
    "holding": holding,
    "following": following,
    "rejecting": which_came_first,
}
BUGS = [
    (
        "trees",
        Bug(
            "rows come store by store",
            "cache.store.merged_stores:MergedReader.scan",
            "heapq.merge(*scans, key=itemgetter(0), reverse=reverse)",
            "(row for scan in scans for row in scan)",
        ),
    ),
    (
        "trees",
        Bug(
            "look-ups ask the first store alone",
            "cache.store.merged_stores:MergedReader.get_many",
            "left = [i for i in left if out[i] is None]",
            "left = []",
        ),
    ),
    (
        "trees",
        Bug(
            "rows of an index go with their own keys",
            "partitions.copies.row_moves:_owned",
            "not isinstance(view.reduce, IndexReduce)",
            "True",
        ),
    ),
    (
        "trees",
        Bug(
            "what is not written of nodes is left behind",
            "mapreduce.nodes.node_log:log_by_owner",
            "if found is None:",
            "if True:",
        ),
    ),
    (
        "trees",
        Bug(
            "the log of nodes has items of other groups",
            "mapreduce.nodes.node_log:log_by_owner",
            "gone[mine])",
            "~gone[mine])",
        ),
    ),
    (
        "trees",
        Bug(
            "what functions yielded is taken from other lines",
            "partitions.copies.row_moves:RowMoves._segment",
            "emissions.take(own)",
            "emissions.take(own[::-1])",
        ),
    ),
    (
        "trees",
        Bug(
            "dead lines come along",
            "partitions.copies.row_moves:RowMoves._segment",
            "at = every[part.log(name).newest(segment.k0, segment.k1, segment.base + every)]",
            "at = every",
        ),
    ),
    (
        "holding",
        Bug(
            "held rows go anywhere",
            "partitions.copies.row_moves:RowMoves._view",
            "_owned(source, own)",
            "own[::-1]",
        ),
    ),
    (
        "holding",
        Bug(
            "held groups are not counted",
            "partitions.copies.row_moves:RowMoves._count_held",
            "counts.get(view.name, 0) + 1",
            "0",
        ),
    ),
    (
        "holding",
        Bug(
            "what rests is forgotten",
            "partitions.copies.row_moves:RowMoves._view",
            "self._move(resting_db(number), by_resting)",
            "pass",
        ),
    ),
    (
        "rejecting",
        Bug(
            "records in quarantine are as old as can be",
            "partitions.copies.row_moves:RowMoves._rejects",
            "before + reject.tail",
            "0",
        ),
    ),
    (
        "rejecting",
        Bug(
            "lines are newer than records",
            "partitions.copies.row_moves:RowMoves._table",
            "before if ordered else None",
            "None",
        ),
    ),
    (
        "following",
        Bug(
            "each partition's position is given alone",
            "partitions.union.union_feed:_follow",
            "(*at[:i], own, *at[i + 1 :])",
            "(*[0] * i, own, *[0] * (len(at) - i - 1))",
        ),
    ),
    (
        "following",
        Bug(
            "positions begin anew",
            "partitions.copies.row_moves:RowMoves._finish",
            "1 + max(part.state.position for part in snap.parts)",
            "1",
        ),
    ),
]


@pytest.mark.parametrize("story", STORIES)
def test_no_bug_is_found_where_none_was_planted(story: str, store_path: Path) -> None:
    STORIES[story](store_path)


@pytest.mark.parametrize(("story", "bug"), BUGS, ids=[bug.name for _, bug in BUGS])
def test_a_planted_bug_is_found(story: str, bug: Bug, store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ps.PenstockError)):
        STORIES[story](store_path)
