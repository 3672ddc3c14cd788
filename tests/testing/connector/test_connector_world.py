"""Run seeds of workers and sinks in two-phase commit, with kills, power losses and cut connections. No seed may fail.

`python -m penstock.testing --kind connector --first N` runs more seeds.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from penstock.testing.connector.connector_plan import connector_plan
from penstock.testing.connector.connector_run import run_connector
from penstock.testing.connector.connector_world import ConnectorWorld
from penstock.testing.run_kinds import KINDS
from penstock.testing.seeds.seed_search import Seeds
from tests.harness.planting import Bug
from tests.testing.connector_planted import BUGS, PINS, finds
from tests.testing.planted import pins, planted

SEEDS = int(os.environ.get("PENSTOCK_CRASH_SEEDS", "150")) // 3
FOUND = pins(PINS)


def test_no_seed_finds_anything() -> None:
    seeds = Seeds(0, SEEDS)
    for seed in seeds:
        found = KINDS["connector"](seed, seeds.totals)
        if found is not None:
            pytest.fail(f"seed {seed}; replay with: {found.replay}\n{found.story()}")
    print(seeds.totals)
    assert seeds.totals.faults > seeds.totals.seeds, "faults must strike"


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in range(6):
        assert run_connector(connector_plan(seed)) == run_connector(connector_plan(seed))


def test_seeds_go_through_all_of_the_protocol() -> None:
    """Transactions with one sink and with several are decided, aborted and settled, and workers leave."""
    seen: Counter[str] = Counter()
    for seed in range(25):
        plan = connector_plan(seed)
        world = ConnectorWorld(plan)
        for step in plan.steps:
            decided = [len(worker.decided) for worker in world.workers]
            opened = [worker.end_of_open for worker in world.workers]
            world.do(step)
            seen["workers that left"] += any(worker.has_left for worker in world.workers)
            for worker, before, end in zip(world.workers, decided, opened, strict=True):
                seen[f"decisions with {len(plan.stores)} sinks"] += len(worker.decided) > before
                seen["aborts"] += end is not None and worker.end_of_open is None and len(worker.decided) == before
            votes = [sink.stored(worker.name).vote for sink in world.sinks for worker in world.workers]
            seen["commit votes"] += any(vote is not None and vote.commit for vote in votes)
            seen["abort votes"] += any(vote is not None and not vote.commit for vote in votes)
    expected = {"workers that left", "aborts", "commit votes", "abort votes"}
    assert seen.keys() >= expected | {f"decisions with {number} sinks" for number in (1, 2, 3)}
    assert all(seen.values()), seen


def test_each_planted_bug_has_its_seed() -> None:
    assert {bug.name for bug in BUGS} == FOUND.keys()
    assert len(BUGS) >= 30


@pytest.mark.parametrize("seed", sorted({pin.seed for pin in FOUND.values()}))
def test_nothing_is_found_where_nothing_was_planted(seed: int) -> None:
    failure = finds(seed)
    assert failure is None, str(failure)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with planted(bug):
        found = finds(FOUND[bug.name].seed)
    assert found is not None
    assert found.wrong.first.check == FOUND[bug.name].check
