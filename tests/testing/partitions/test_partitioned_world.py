"""Run seeds over several partitions, on a wire that loses, repeats, delays and reorders messages. No seed may fail.

`python -m penstock.testing --kind weak --first N` runs more seeds, `make campaign ARGS="--kind weak"` many more.
"""

import os

import pytest

from penstock.testing.partitions.partitioned_run import partitioned_run_of, run_partitioned
from penstock.testing.run_kinds import KINDS, TRIALS
from penstock.testing.seeds.seed_search import Seeds
from penstock.views import DeliveryMode
from tests.harness.planting import Bug
from tests.testing import early_planted
from tests.testing.partitioned_planted import BUGS, NAMED, PINS, finds
from tests.testing.planted import pins, planted

PARTED = tuple(production.value for production in DeliveryMode)
SEEDS = int(os.environ.get("PENSTOCK_CRASH_SEEDS", "150")) // len(PARTED)
FOUND, EARLY = pins(PINS), pins(early_planted.PINS)


@pytest.mark.parametrize("kind", PARTED)
def test_no_seed_finds_anything(kind: str) -> None:
    seeds = Seeds(0, SEEDS)
    for seed in seeds:
        found = KINDS[kind](seed, seeds.totals)
        if found is not None:
            pytest.fail(f"seed {seed}; replay with: {found.replay}\n{found.story()}")
    print(seeds.totals)
    assert seeds.totals.faults > seeds.totals.seeds / 2, "faults must strike"


# Faults: a batch in doubt was accepted after the next batch; trees were not restored if no row changed with them.
@pytest.mark.parametrize(("kind", "seed"), [("weak", 25_248), ("weak", 9_187), ("weak", 23_659), ("weak", 108_190)])
def test_a_seed_that_once_failed(kind: str, seed: int) -> None:
    assert KINDS[kind](seed, Seeds().totals) is None


@pytest.mark.parametrize("production", DeliveryMode)
def test_a_seed_is_the_same_run_each_time(production: DeliveryMode) -> None:
    for seed in range(6):
        tallies = []
        for _ in range(2):
            trial, plan = partitioned_run_of(seed, TRIALS, production)
            tallies.append(run_partitioned(trial.app, plan))
        assert tallies[0] == tallies[1]


def test_each_planted_bug_has_its_seed() -> None:
    assert {bug.name for bug in BUGS} == FOUND.keys()
    assert len(BUGS) - len(NAMED) >= 20
    assert {bug.name for bug in early_planted.BUGS} == EARLY.keys()
    cases = [{bug.name.partition(":")[0] for bug in named} for named in (NAMED, early_planted.NAMED)]
    assert cases[0] == cases[1], "each case of the crash analysis, of either"


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


@pytest.mark.parametrize("seed", sorted({pin.seed for pin in EARLY.values()}))
def test_nothing_is_found_early_where_nothing_was_planted(seed: int) -> None:
    failure = early_planted.finds(seed)
    assert failure is None, str(failure)


@pytest.mark.parametrize("bug", early_planted.BUGS, ids=lambda bug: bug.name)
def test_a_bug_in_what_is_told_early_is_found(bug: Bug) -> None:
    with planted(bug):
        found = early_planted.finds(EARLY[bug.name].seed)
    assert found is not None
    assert found.wrong.first.check == EARLY[bug.name].check
