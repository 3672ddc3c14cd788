"""Joins that change in stores of several partitions, under crashes and delays. Each planted bug is found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.generations.build import GenerationBuild
from penstock.partitions import PartitionedBuilding
from penstock.testing.inputs.joined_trial import altered
from penstock.testing.partitions.partitioned_plan import partitioned_plan
from penstock.testing.partitions.partitioned_run import PartitionedFailure, run_partitioned
from tests.core.crash.crash_points import unsynced
from tests.harness.planting import Bug

SEEDS = 6
TRIAL = altered()


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with unsynced():
        yield


def run(seed: int) -> None:
    """Run the simulator with apps that differ in their joins."""
    run_partitioned(TRIAL.app, partitioned_plan(seed, TRIAL.stream(), others=TRIAL.others, changes=1.0))


def test_no_seed_finds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    switched: list[str] = []
    plain = GenerationBuild.switch

    def switch(self: GenerationBuild) -> None:
        switched.append(self.waits_for)
        plain(self)

    monkeypatch.setattr(GenerationBuild, "switch", switch)
    for seed in range(SEEDS):
        run(seed)
    assert switched.count("") > SEEDS / 2
    assert set(switched) >= {"", "sold", "three", "three:order+customer"}


# -- an engine on disk

ONE, TWO, THREE = (TRIAL.app, *TRIAL.others)


def put(engine: ps.Engine, first: int = 0) -> None:
    """Put documents whose matches lie in several partitions."""
    names = ("Sue", "Joe", "Bob")
    orders = [{"id": i, "c": i % 7, "d": i % 3, "name": names[i % 3], "n": (i + first) % 4} for i in range(first, 60)]
    engine.put_many("orders", [{**order, "ts": first} for order in orders])
    customers = [{"id": i, "name": names[(i + first) % 3], "age": i, "ts": first} for i in range(8)]
    engine.put_many("customers", customers)
    engine.settle()


def digest_of(app: ps.App, *puts: int) -> str:
    """Return the digest of one store of an app with these puts."""
    with ps.open(app, None) as engine:
        for first in puts:
            put(engine, first)
        return engine.digest()


def test_each_app_has_the_content_of_one_store(tmp_path: Path) -> None:
    with ps.open(ONE, tmp_path, partitions=3, processes=False) as engine:
        put(engine)
    for app in (TWO, THREE):
        with ps.open(app, tmp_path, processes=False) as engine:
            assert engine.migrate().changes
            assert engine.digest() == digest_of(app, 0)
            assert engine.check(fix=True).ok


def test_processes_build_beside_writes(tmp_path: Path) -> None:
    with ps.open(ONE, tmp_path, partitions=2) as engine:
        put(engine)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(PartitionedBuilding, "begin", lambda self: None)
        with ps.open(TWO, tmp_path) as engine:
            put(engine, 30)
            assert {"ages", "by_d", "idle_ages"} <= {change.view for change in engine.migrate().changes}
            assert engine.digest() == digest_of(TWO, 0, 30)


def _deliver_late(store: Any) -> None:
    """Let productions wait until something needs all of them."""
    push, carry, waits = store.push, store.carry, True

    def late() -> Any:
        nonlocal waits
        waits = False
        try:
            return carry()
        finally:
            waits = True

    store.push, store.carry = (lambda: None if waits else push()), late


def test_partitions_that_finish_at_different_times_switch_together(tmp_path: Path) -> None:
    with ps.open(ONE, tmp_path, partitions=2, processes=False) as engine:
        engine.put_many("customers", [{"id": i, "name": "Sue", "age": i, "ts": 1} for i in range(4)])
        engine.put_many("orders", [{"id": i, "c": i % 4, "d": 1, "n": 3, "ts": i} for i in range(24)])
        engine.settle()
    with pytest.MonkeyPatch.context() as m:
        m.setattr(PartitionedBuilding, "begin", lambda self: None)
        with ps.open(TWO, tmp_path, processes=False) as engine, ps.open(TWO, None) as whole:
            whole.put_many("customers", [{"id": i, "name": "Sue", "age": i, "ts": 1} for i in range(4)])
            whole.put_many("orders", [{"id": i, "c": i % 4, "d": 1, "n": 3, "ts": i} for i in range(24)])
            store: Any = engine.store
            _deliver_late(store)
            while store.handles[0].build_step(3).more:
                pass
            while store.building.build(3)[0]:
                pass
            engine.settle()
            assert engine.digest() == whole.digest()


def test_a_switch_of_sides_that_fails_at_one_partition_is_finished_before_the_next_batch(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as m:
        _fail_between_partitions(tmp_path, m)


def _fail_between_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ps.open(ONE, tmp_path, partitions=3, processes=False) as engine:
        put(engine)
    plain, left = GenerationBuild._switch_sides, 2

    def fails(self: GenerationBuild, join: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise ps.StoreFull("s", "there is no room left")
        plain(self, join)

    monkeypatch.setattr(GenerationBuild, "_switch_sides", fails)
    monkeypatch.setattr(PartitionedBuilding, "begin", lambda self: None)
    with ps.open(TWO, tmp_path, processes=False) as engine:
        with pytest.raises(ps.StoreFull):
            engine.migrate()
        with engine.snapshot() as snap, ps.open(ONE, None) as whole:  # readers notice nothing
            put(whole)
            with whole.snapshot() as wanted:
                assert dict(snap.view("sums").items()) == dict(wanted.view("sums").items())
        put(engine, 30)
        engine.migrate()
        assert engine.digest() == digest_of(TWO, 0, 30)
    with ps.open(ONE, tmp_path, processes=False) as engine:
        engine.migrate()
    left = 2
    with ps.open(TWO, tmp_path, processes=False) as engine, pytest.raises(ps.StoreFull):
        engine.migrate()
    with ps.open(TWO, tmp_path, processes=False) as engine:  # the opening finishes it
        put(engine, 41)
        engine.migrate()
        assert engine.digest() == digest_of(TWO, 0, 30, 41)


# -- planted bugs

BUGS = [
    Bug(
        "a side that is being built misses the changes of other partitions",
        "join.side_node:SideNode._crossed",
        "if not came:",
        "if not came or self.building is not None:",
    ),
    Bug(
        "each partition switches the sides of a join by itself",
        "core.commit:Core._build_step",
        "not self.build.waits",
        "(not self.build.waits or self.build.waits_for)",
    ),
    Bug(
        "sides switch while entries are on their way",
        "partitions.union.view_building:PartitionedBuilding.build",
        "self._store.still()",
        "suppress()",
    ),
    Bug(
        "an opening does not complete a switch of sides",
        "core.generation_switch:complete_switches",
        "_switched_elsewhere(catalog, known)",
        "()",
    ),
    Bug(
        "a row of a prefix that comes again counts twice",
        "join.side_node:applied_sets",
        "changed_entries(before, sets.put())",
        "(before.slice(0, 0), sets.put())",
    ),
    Bug(
        "a view on a changed join gets the rows of its own partition only",
        "join.joined_view:RowInput.add",
        "view.crossing is not None and",
        "view.crossing is not None and view.building is None and",
    ),
]


def finds(seed: int) -> Any:
    """Return the error of a seed, or of a test, or None."""
    try:
        if seed >= 0:
            run(seed)
            return None
        with tempfile.TemporaryDirectory() as folder:
            TESTS[seed](Path(folder))
    except (PartitionedFailure, PenstockError, AssertionError, KeyError) as error:
        return error
    return None


TESTS = {
    -1: test_partitions_that_finish_at_different_times_switch_together,
    -2: test_a_switch_of_sides_that_fails_at_one_partition_is_finished_before_the_next_batch,
}
FOUND_BY = dict(zip((bug.name for bug in BUGS), (2, -1, -1, -2, 3, 2), strict=True))
"""By name of a bug, a seed that finds it, or the number of a test."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert finds(FOUND_BY[bug.name]) is not None
