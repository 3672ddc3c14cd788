"""A store that moves from one number of partitions to another: it shows the same, and later batches work as before.

A store of one partition and the oracle get any history. Then the store gets three partitions, then two, then one
again. After each move every process reads the same as the oracle, with the same digest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.engine import repartition
from penstock.mapreduce import small_trees
from tests.harness import strategies as some
from tests.harness.checks import Picture, check
from tests.harness.worlds import RICH, TINY, TOLD, World
from tests.mapreduce.trees.tree_histories import TABLES as TREE_TABLES
from tests.mapreduce.trees.tree_histories import document
from tests.mapreduce.trees.tree_worlds import TREES
from tests.oracle.model import Model, Record
from tests.partitions.stores import misplaced
from tests.recovery.quarantine.held_worlds import VIEWS, Fails, rows, world
from tests.recovery.quarantine.test_quarantine_records import PLAIN, plant
from tests.recovery.quarantine.test_quarantine_records import app as quarantine_app

TURNS = (3, 2, 5, 1)


@contextmanager
def folder() -> Iterator[Path]:
    """Return a path without a store."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as made:
        yield Path(made) / "store"


def turned(path: Path, app: ps.App, model: Model, digest: str) -> None:
    """Change the number of partitions several times, and check that the store shows the same each time."""
    before = 1
    for to in TURNS:
        done = repartition(path, to)
        assert (done.before, done.after) == (before, to)
        before = to
        with ps.open(app, path, readonly=True) as engine:
            with engine.snapshot() as snap:
                found = Picture(model).differences(snap)
                assert len(snap.parts) == to
            assert not found, "\n" + "\n".join(found)
            assert engine.digest() == digest
            assert not misplaced(engine)
            assert len(engine.status().get("partitions", "1")) == to


@settings(max_examples=8)
@given(data=st.data())
def test_any_history_of_documents_moves(data: st.DataObject) -> None:
    ts = data.draw(st.sampled_from([some.NUMBERS, some.INSTANTS]))
    model, log = RICH.model(), list[Record]()
    with folder() as path:
        with ps.open(RICH.app(), path, limits=TINY, listen=False) as engine:
            for _ in range(data.draw(st.integers(1, 8))):
                table = data.draw(st.sampled_from(TOLD))
                docs = data.draw(st.lists(some.documents(table, ts), max_size=8))
                engine.put_many(table.name, docs)
                model.put_many(table.name, docs)
                if data.draw(st.booleans()):
                    key = data.draw(some.keys(table))
                    engine.delete(table.name, key)
                    model.delete(table.name, key, None)
            log = [Record("plain", i, {"id": i, "name": "Sue"}, None, i) for i in range(data.draw(st.integers(0, 3)))]
            told = [ps.Record(r.table, r.key, r.doc, offset=r.offset) for r in log]
            engine.ingest(told, source="file:a", resume=len(log))
            model.ingest(log, "file:a", len(log))
            digest = engine.digest()
        turned(path, RICH.app(), model, digest)
        with ps.open(RICH.app(), path, limits=TINY, listen=False) as engine:
            for table in TOLD:
                docs = data.draw(st.lists(some.documents(table, ts), min_size=1, max_size=8))
                engine.put_many(table.name, docs)
                model.put_many(table.name, docs)
            check(engine, model)


def grown(world: World, path: Path, seed: int, batches: int) -> tuple[Model, str]:
    """Make a store with trees of several levels, in which some nodes are written and others are not."""
    choose, model = Random(seed), world.model()
    with ps.open(world.app(), path, limits=TINY, listen=False) as engine:
        for ts in range(batches):
            name = choose.choice(list(TREE_TABLES))
            docs = [document(name, choose, ts, wrong=True) for _ in range(choose.choice([1, 3, 20]))]
            engine.put_many(name, docs)
            model.put_many(name, docs)
        return model, engine.digest()


@pytest.mark.parametrize("seed", range(4))
def test_trees_move_with_what_is_not_written_of_them(seed: int) -> None:
    with small_trees(), folder() as path:
        model, digest = grown(TREES, path, seed, 12)
        turned(path, TREES.app(), model, digest)
        with ps.open(TREES.app(), path, limits=TINY, listen=False) as engine:
            assert engine.check().ok
            docs = [document("users", Random(seed), 99, wrong=False) for _ in range(20)]
            engine.put_many("users", docs)
            model.put_many("users", docs)
            check(engine, model)
            assert engine.check().ok


def test_trees_as_large_as_they_are_move() -> None:
    with folder() as path:
        model, digest = grown(TREES, path, 7, 40)
        turned(path, TREES.app(), model, digest)


def test_what_is_held_and_rejected_moves_and_is_released() -> None:
    fails, bad = Fails(), Fails()
    app = world(fails, bad)
    docs = [{"id": i, "name": "ab"[i % 2] * (1 + i % 3), "v": i % 7, "w": i % 5, "bad": i % 4 == 0} for i in range(40)]
    with folder() as path:
        with ps.open(app, path, limits=TINY, listen=False) as engine:
            engine.put_many("docs", [{**doc, "bad": False} for doc in docs[:20]])
            engine.put_many("docs", docs)
            engine.put_many("merged", [{"id": i, "ts": i, "name": "n", "bad": i % 3 == 0} for i in range(12)])
            engine.put_many("docs", [{"id": 7, "name": {}}, {"name": "keyless"}, b"{"])
            engine.drop(view="tree", limit=2)
            before = {view: rows(engine, view) for view in VIEWS}
            kept = quarantined(engine)
            digest = engine.digest()
        for to in TURNS:
            repartition(path, to)
            with ps.open(app, path, readonly=True) as engine:
                assert {view: rows(engine, view) for view in VIEWS} == before
                assert quarantined(engine) == kept
                assert engine.digest() == digest
                status = engine.status()
                assert sum(table["quarantined"] for table in status["tables"].values()) == 2
        fails.now = bad.now = False
        with ps.open(app, path, limits=TINY, listen=False) as engine, ps.open(app, None) as twin:
            engine.retry(kind="document")
            engine.retry(kind="group")
            assert engine.check().ok
            later = [{**doc, "v": doc["v"] + 1} for doc in docs]  # the dropped records wait for them
            engine.put_many("docs", later)
            engine.put_many("merged", [{"id": 0, "ts": 99, "name": "m"}])
            twin.put_many("docs", later)
            twin.put_many("merged", [{"id": i, "ts": i, "name": "n", "bad": i % 3 == 0} for i in range(12)])
            twin.put_many("merged", [{"id": 0, "ts": 99, "name": "m"}])
            assert engine.digest() == twin.digest()
            assert engine.check().ok


def which_came_first(path: Path) -> None:
    """A table without ts knows after a move if the key of a rejected record was written later."""
    with ps.open(quarantine_app(), path, limits=TINY, listen=False) as engine:
        engine.put_many(PLAIN, [{"id": i, "name": f"n{i}"} for i in range(30)])
        for i in range(10):
            plant(engine, PLAIN, {"id": i, "name": "planted"})
        engine.put_many(PLAIN, [{"id": i, "name": "now"} for i in range(4)])
        for turn in range(9):
            engine.put_many(PLAIN, [{"id": i, "name": f"{turn}"} for i in range(20, 30)])
        engine.compact()
    for to in (3, 2, 1):
        repartition(path, to)
    with ps.open(quarantine_app(), path, limits=TINY, listen=False) as engine:
        engine.put(PLAIN, {"id": 4, "name": "later"})
        engine.put_many(PLAIN, [{"id": i, "name": "x"} for i in range(20, 30)])
        engine.compact()
        done = engine.retry(kind="record")
        assert done.applied == 5
        assert done.left == 5
        assert all("its key was written since" in left.reason for left in done.why)
        with engine.snapshot() as snap:
            names = [document["name"] for document in snap.table(PLAIN).get_many(range(10))]
        assert names == ["now"] * 4 + ["later"] + ["planted"] * 5


def test_rejected_records_know_which_came_first(store_path: Path) -> None:
    which_came_first(store_path)


def quarantined(engine: ps.Engine) -> list[tuple[Any, ...]]:
    """Return the quarantine without the ids, because each partition assigns its own."""
    found = [(one.kind.value, one.table, one.view, repr(one.key), one.reason) for one in engine.quarantine()]
    return sorted(found, key=repr)
