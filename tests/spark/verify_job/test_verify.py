"""A store is verified from a copy: a correct one has no fault, and damage is found and repaired.

The tests need pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import DefinitionError
from penstock.engine import copy_size
from penstock.spark import verify
from tests.harness.worlds import RICH, World
from tests.mapreduce.trees.tree_worlds import TREES
from tests.recovery import damage
from tests.spark.backfill_job.test_agreement_backfill import rich_record, tree_record
from tests.spark.inprocess import InProcess

DOCS = [{"id": i, "name": f"n{i % 5}", "amount": i, "ts": i} for i in range(60)]


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce={"n": ps.count(), "total": ps.sum("amount")})
    users.view("largest", key="name", reduce={"max": ps.max("amount"), "last": ps.last("amount")})
    users.view("listed", key="name", value="amount", reduce=None)
    users.view("initials", reduce=ps.sum())(initials)
    names.view("sizes", key="value.n", reduce=ps.count())
    return app


def initials(user: dict[str, Any]) -> Iterator[Any]:
    """Yield groups of one letter. Fail on values that are not text."""
    yield user["name"][0], user["amount"]


def filled(app: ps.App, world: World, choose: Random, path: Path) -> None:
    """Fill a store with a history."""
    record = rich_record if world is RICH else tree_record
    with ps.open(app, path) as engine:
        records = [record(choose, n) for n in range(1, 160)]
        for at in range(0, len(records), 20):
            part = [ps.Record(r.table, r.key, r.doc, ts=r.ts) for r in records[at : at + 20]]
            engine.ingest(part, source="test", resume=at + 20)


@settings(max_examples=12, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32), world=st.sampled_from([RICH, TREES]))
def test_nothing_is_wrong_with_what_the_engine_keeps(
    tmp_path_factory: pytest.TempPathFactory, seed: int, world: World
) -> None:
    """The tasks run in the test."""
    app, path = world.app(), tmp_path_factory.mktemp("verify") / "store"
    filled(app, world, Random(seed), path)
    found = verify(app, path, spark=InProcess())
    assert found.wrong == [], str(found)
    assert found.documents
    assert found.rows
    assert not list(path.parent.glob("penstock-verify-*"))


def test_what_is_damaged_is_found_with_the_documents_behind_it_and_repaired(spark: Any, tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "store"
    with ps.open(app, path) as engine:
        engine.put_many("users", DOCS)
        right = engine.digest()
        damage.add_to_lane(engine, "names", "n1", 2, 7)
        damage.tell(engine, "largest", [(1000, "ghost", {"max": 1, "last": 1})], [])
        damage.tell(engine, "initials", [], [(0, "n", 0)])
        found = verify(app, path, spark=spark, fix=True)
        assert {(one.view, one.group) for one in found.wrong} == {
            ("names", "n1"),
            ("largest", "ghost"),
            ("initials", "n"),
        }
        by_view = {one.view: one for one in found.wrong}
        assert by_view["names"].expected == {"n": 12, "total": sum(range(1, 60, 5))}
        assert by_view["names"].stored == {"n": 12, "total": sum(range(1, 60, 5)) + 7}
        assert set(by_view["names"].by) <= set(range(1, 60, 5))
        assert by_view["largest"].expected is ps.ABSENT
        assert {(one.view, one.group) for one in found.repaired} >= {("names", "n1"), ("largest", "ghost")}
        assert engine.digest() == right
    assert verify(app, path, spark=spark).ok


def test_what_is_held_and_what_is_told_otherwise_is_counted_apart(spark: Any, tmp_path: Path) -> None:
    app, path, copy = shop(), tmp_path / "store", tmp_path / "copy"
    with ps.open(app, path) as engine:
        engine.put_many("users", DOCS)
        engine.put_many("users", [{"id": 3, "name": 7, "amount": 1, "ts": 99}, {"id": 90, "name": None, "ts": 1}])
        damage.yield_otherwise(engine, "initials", lambda pairs: [[(b"\x05x", 1)], *pairs[1:]])
    found = verify(app, path, ["initials"], spark=spark, snapshot=copy)
    assert found.ok, str(found)
    assert found.held == {"initials": 2}
    assert found.told == {"initials": 1}
    assert (copy / "data.mdb").exists()
    assert verify(app, path, ["names"], spark=spark, snapshot=copy).ok


def test_documents_that_are_missing_or_stale_are_found_in_their_source_and_put(spark: Any, tmp_path: Path) -> None:
    app, path, file = shop(), tmp_path / "store", tmp_path / "users.jsonl"
    file.write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    with ps.open(app, path) as engine:
        engine.put_many("users", [doc for doc in DOCS if doc["id"] not in (5, 6)])
        engine.put("users", {"id": 6, "name": "old", "amount": 0, "ts": 0})
        engine.put_many(
            "users", [{"id": 7, "name": "newer", "amount": 1, "ts": 999}, {"id": 1000, "name": "x", "ts": 1}]
        )
        found = verify(app, path, ["names"], spark=spark, against={"users": str(file)}, fix=True)
        assert [(one.key, one.stored is ps.ABSENT) for one in sorted(found.stale, key=lambda one: one.key)] == [
            (5, True),
            (6, False),
        ]
        assert found.beyond == {"users": 1}
        assert not found.ok
        with engine.snapshot() as snap:
            assert snap.table("users")[5] == DOCS[5]
            assert snap.table("users")[6] == DOCS[6]
            assert snap.table("users")[7]["name"] == "newer"
    assert verify(app, path, spark=spark, against={"users": str(file)}).ok


def test_a_copy_that_has_no_room_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, path = shop(), tmp_path / "store"
    with ps.open(app, path) as engine:
        engine.put_many("users", DOCS)
    assert copy_size(str(path), str(path)) > 4096
    full = types.SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda folder: full)
    for refused in (lambda: copy_size(str(path), str(path)), lambda: verify(app, path, spark=InProcess())):
        with pytest.raises(ps.CopyFailed, match=r"the copy takes .* and 4.1 kB are free on that disk; free some room"):
            refused()
    assert os.listdir(tmp_path) == ["store"]


def test_a_view_that_the_store_has_otherwise_is_named(spark: Any, tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "store"
    with ps.open(app, path) as engine:
        engine.put_many("users", DOCS)
    other = ps.App("shop")
    other.table("users", key="id", ts="ts").view("names", key="name", reduce=ps.count())
    with pytest.raises(DefinitionError, match="view 'names' is not in the store as the app has it"):
        verify(other, path, spark=spark)
    with pytest.raises(ps.UnknownName):
        verify(app, path, ["nmaes"], spark=spark)
