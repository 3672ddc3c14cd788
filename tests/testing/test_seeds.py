"""Run as many seeds as the budget allows. No seed may fail.

PENSTOCK_CRASH_SEEDS is the budget; .ci/run raises it. `python -m penstock.testing --first N` runs further seeds.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.testing.inputs.trial_apps import trial_of, trials
from penstock.testing.seeds.explanation import explained
from penstock.testing.seeds.seed_search import SeedFile, Seeds, attempt, smallest
from penstock.testing.simulator.faults import Fault
from penstock.testing.simulator.run import Failure, run

SEEDS = int(os.environ.get("PENSTOCK_CRASH_SEEDS", "150"))
FAILED = Path(__file__).with_name("failed.seeds")
TRIALS = trials()


def test_no_seed_finds_anything() -> None:
    seeds = Seeds(0, SEEDS, None, SeedFile(str(FAILED)))
    for seed in seeds:
        trial, plan = trial_of(seed, TRIALS)
        failure = attempt(trial.app, plan, seeds.totals)
        if failure is not None:
            assert seeds.remembered is not None, "given above"
            seeds.remembered.add(seed, f"{trial.name}: {failure.wrong.first}")
            text = explained(trial.app, smallest(trial.app, failure))
            pytest.fail(f"seed {seed}; replay with: python -m penstock.testing --seed {seed}\n{text}")
    print(seeds.totals)
    assert seeds.totals.faults > seeds.totals.seeds / 4, "faults must strike"


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in range(14):
        tallies = []
        for _ in range(2):
            trial, plan = trial_of(seed, trials())
            tallies.append(run(trial.app, plan))
        assert tallies[0] == tallies[1]


def test_a_disk_that_does_not_sync_is_found() -> None:
    """After a power loss, acknowledged records are missing."""
    for seed in range(500):
        trial, plan = trial_of(seed, TRIALS)
        steps = tuple(
            replace(s, strike=s.strike and replace(s.strike, fault=Fault.POWER)) if s.strike else s for s in plan.steps
        )
        try:
            run(trial.app, replace(plan, synced=False, steps=steps))
        except Failure as failure:
            if failure.wrong.first.check == "lost":
                return
    raise AssertionError("no seed found it")
