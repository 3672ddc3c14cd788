"""A store of several partitions is verified from a copy, as a store of one. Planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import encode_key
from penstock.engine import Member, PartitionedStore, copy_any
from penstock.spark import verify
from penstock.spark.verify_job import remap_task, verify_driver
from tests.harness.worlds import RICH, World
from tests.mapreduce.trees.tree_worlds import TREES
from tests.recovery import damage
from tests.spark.backfill_job.test_agreement_backfill import rich_record, tree_record
from tests.spark.inprocess import InProcess
from tests.spark.verify_job.test_verify import DOCS, shop


def filled(world: World, choose: Random, path: Path, parts: int) -> None:
    """Fill a store of this number of partitions with a history."""
    record = rich_record if world is RICH else tree_record
    with ps.open(world.app(), path, partitions=parts, processes=False) as engine:
        records = [record(choose, n) for n in range(1, 120)]
        for at in range(0, len(records), 20):
            part = [ps.Record(r.table, r.key, r.doc, ts=r.ts) for r in records[at : at + 20]]
            engine.ingest(part, source="test", resume=at + 20)


@settings(max_examples=4, phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32), world=st.sampled_from([RICH, TREES]), parts=st.integers(2, 3))
def test_nothing_is_wrong_with_what_partitions_keep(
    tmp_path_factory: pytest.TempPathFactory, seed: int, world: World, parts: int
) -> None:
    """The tasks run in the test."""
    path = tmp_path_factory.mktemp("verify") / "store"
    filled(world, Random(seed), path, parts)
    found = verify(world.app(), path, spark=InProcess())
    assert found.wrong == [], str(found)
    assert found.documents
    assert len(found.position) == parts


def damaged(engine: ps.Engine) -> set[tuple[str, Any]]:
    """Damage groups in the partitions that own them. Return these groups."""
    assert isinstance(engine.store, PartitionedStore)
    for group in ("n1", "n2"):
        owner = engine.store.ranges.of(encode_key(group))
        member = engine.store.handles[owner]
        assert isinstance(member, Member)
        damage.add_to_lane(ps.Engine(member.engine), "names", group, 2, 7)
    return {("names", "n1"), ("names", "n2")}


def test_what_is_damaged_is_found_and_repaired(spark: Any, tmp_path: Path) -> None:
    app, path = shop(), tmp_path / "store"
    with ps.open(app, path, partitions=2, processes=False) as engine:
        engine.put_many("users", DOCS)
        engine.put_many("users", [{"id": 3, "name": 7, "amount": 1, "ts": 99}])
        engine.settle()
        right, wanted = engine.digest(), damaged(engine)
        found = verify(app, path, spark=spark, fix=True)
        assert {(one.view, one.group) for one in found.wrong} == wanted
        assert found.held == {"initials": 1}
        assert engine.digest() == right
    assert verify(app, path, spark=spark).ok


def in_flight(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a store while contributions are in flight. The copy is beside it."""
    with ps.open(shop(), path, partitions=2, processes=False) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(Member, "owed", lambda member, other: None)
            engine.put_many("users", DOCS)
            copy_any(str(path), str(path.with_name("copy")))
        engine.settle()


def test_contributions_in_flight_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_flight(tmp_path / "first", monkeypatch)
    store = tmp_path / "copy"  # a store whose holder died with contributions in flight
    assert verify(shop(), store, spark=InProcess()).ok
    with pytest.raises(ps.PenstockError, match=r"in flight between its partitions.*penstock migrate"):
        verify(shop(), store, spark=InProcess(), snapshot=store)
    ps.open(shop(), store, processes=False).close()
    assert verify(shop(), store, spark=InProcess(), snapshot=store).ok


# -- planted bugs


def _a_copy_keeps_what_is_in_flight(m: pytest.MonkeyPatch) -> None:
    m.setattr(verify_driver, "_copied", lambda app, store, path, tell: copy_any(store, path, tell))
    m.setattr(verify_driver, "snapshots_at_rest", lambda parts: True)


def _only_the_first_partition_is_read(m: pytest.MonkeyPatch) -> None:
    plain = verify_driver._parts_of
    m.setattr(verify_driver, "_parts_of", lambda snap, i, *own: plain(snap, i, *own) if not i else ())


def _tasks_read_the_first_partition(m: pytest.MonkeyPatch) -> None:
    plain = remap_task._part
    m.setattr(remap_task, "_part", lambda data: (0, *plain(data)[1:]))


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _a_copy_keeps_what_is_in_flight,
    _only_the_first_partition_is_read,
    _tasks_read_the_first_partition,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__.strip("_"))
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_flight(tmp_path / "store", monkeypatch)
    with ps.open(shop(), tmp_path / "store", processes=False) as engine:
        wanted = damaged(engine)
    bug(monkeypatch)
    right = verify(shop(), tmp_path / "copy", spark=InProcess())
    found = verify(shop(), tmp_path / "store", spark=InProcess())
    assert not (right.ok and {(one.view, one.group) for one in found.wrong} == wanted)
