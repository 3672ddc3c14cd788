"""Seeds over several partitions, on a wire that loses, repeats, delays and reorders: none may find anything.

`python -m penstock.testing --kind strong --first N` goes further, `make campaign ARGS="--kind strong"` much further.
"""

import os

import pytest

from penstock.testing.fleetrun import fleet_of, run_fleet
from penstock.testing.hunt import Seeds
from penstock.testing.kinds import KINDS, TRIALS
from tests.engine.planting import Bug
from tests.testing.fleet_planted import BUGS, NAMED, PINS, finds
from tests.testing.planted import pins, planted

BUDGET = float(os.environ.get("PENSTOCK_CRASH_SECONDS", "4")) / 2
SEEDS = 600
FOUND = pins(PINS)


def test_no_seed_finds_anything() -> None:
    seeds = Seeds(0, SEEDS, BUDGET)
    for seed in seeds:
        found = KINDS["strong"](seed, seeds.totals)
        if found is not None:
            pytest.fail(f"seed {seed}; replay with: {found.replay}\n{found.story()}")
    print(seeds.totals)
    assert seeds.totals.faults > seeds.totals.seeds / 2, "faults must strike"


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in range(12):
        tallies = []
        for _ in range(2):
            trial, plan = fleet_of(seed, TRIALS)
            tallies.append(run_fleet(trial.app, plan))
        assert tallies[0] == tallies[1]


def test_each_planted_bug_has_its_seed() -> None:
    assert {bug.name for bug in BUGS} == FOUND.keys()
    assert len(BUGS) - len(NAMED) >= 20


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
