"""Restatement: it does not change a sound store, and returns a damaged store to its former content.

Random histories make the stores. They have every reducer, views on views, and documents and groups that views hold.
Trees have several levels and a node log, and tables are folded and compacted between batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.histories import History
from tests.mapreduce.trees.tree_histories import TreeHistory
from tests.recovery.damage import content_of, damage_bytes

seeds = st.integers(0, 1 << 16)


def restate_all(engine: Any) -> list[Any]:
    """Restate every table. Return all reports."""
    return [one for table in engine.store.core.app.tables() for one in engine.restate(table.name)]


@contextmanager
def trees(seed: int, wrong: bool) -> Iterator[TreeHistory]:
    """Yield an engine with small tree nodes, after some batches, reopenings and lost caches."""
    history = TreeHistory(Random(seed), wrong)
    choose, own = history.choose, history.trees
    try:
        for _ in range(6):
            own.take(list(history.records(choose.choice([1, 3, 20, 40]))))
            if choose.random() < 0.3:
                choose.choice([own.reopen, own.lose, own.forget])()
            if choose.random() < 0.2:
                own.take(list(history.deletions(choose, choose.choice([0.3, 0.8]))))
        yield history
    finally:
        own.close()


def untouched(engine: Any, choose: Random, known: dict[str, list[Any]]) -> None:
    """Check that restatements and reposts of a sound store do not change a byte."""
    engine.store.core.ready()  # do the work that is due between batches
    before, position = content_of(engine), engine.status()["position"]
    assert restate_all(engine) == []
    for table, docs in known.items():
        for doc in choose.sample(docs, min(2, len(docs))):
            assert engine.repost(table, doc) == []
            assert engine.restate(table, doc["id"]) == []
        assert engine.repost_many({table: docs[:20]}) == []
    for view in engine.store.core.app.views():
        with engine.snapshot() as snap:
            groups = [row.key for row in snap.view(view.name).items(limit=1)]
        for group in groups:
            assert engine.restate(view.name, group[0] if view.index else group) == []
    assert content_of(engine) == before
    assert engine.status()["position"] == position


def mended(engine: Any, choose: Random) -> None:
    """Check that restatements repair random damage completely and report each group once."""
    before = engine.digest()
    done = [damage_bytes(engine, choose) for _ in range(choose.randrange(1, 4))]
    reported = restate_all(engine)
    assert engine.digest() == before, done
    assert restate_all(engine) == [], "once is enough"
    assert len({(one.view, repr(one.group)) for one in reported}) == len(reported), "each group is named once"


@settings(max_examples=settings().max_examples // 12)
@given(seed=seeds)
def test_accumulators_that_are_right_are_not_touched(seed: int) -> None:
    history = History(seed)
    history.run(25)
    known = {table: [doc for doc in docs if isinstance(doc, dict)] for table, docs in history.known.items()}
    untouched(history.engine, history.choose, known)


@settings(max_examples=settings().max_examples // 15)
@given(seed=seeds, wrong=st.booleans())
def test_trees_that_are_right_are_not_touched(seed: int, wrong: bool) -> None:
    with trees(seed, wrong) as history:
        known: dict[str, list[Any]] = {}
        for record in history.known:
            if record.doc is not None:
                known.setdefault(record.table, []).append(record.doc)
        untouched(history.trees.engine, history.choose, known)


@settings(max_examples=settings().max_examples // 12)
@given(seed=seeds)
def test_damaged_accumulators_are_as_before(seed: int) -> None:
    history = History(seed)
    history.run(25)
    mended(history.engine, history.choose)


@settings(max_examples=settings().max_examples // 15)
@given(seed=seeds)
def test_damaged_trees_are_as_before(seed: int) -> None:
    with trees(seed, wrong=False) as history:
        mended(history.trees.engine, history.choose)
