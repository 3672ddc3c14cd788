"""Planted bugs in builds of joins: simulated runs whose apps change their joins must find them."""

from dataclasses import replace

import pytest

from penstock.testing.inputs.joined_trial import joined, layered
from penstock.testing.inputs.trial_apps import trial_of
from penstock.testing.seeds.seed_search import Totals, attempt
from penstock.testing.simulator.app_changes import variants_of
from tests.join.test_oracle_join_builds import BUGS

TRIALS = tuple(replace(own, others=variants_of(own.app)) for own in (joined(), layered()))
NAMES = (
    "a view that is being built gets rows that its pass has not reached",
    "a view that is being built gets no changes",
)
SEEDS = (12, 29)  # each bug is found by one of them, at present


def _finds(seed: int) -> bool:
    trial, plan = trial_of(seed, TRIALS)
    return attempt(trial.app, plan, Totals()) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_bug_planted_in_a_build_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (bug,) = (bug for bug in BUGS if bug.name == name)
    bug.plant(monkeypatch)
    assert any(map(_finds, (*SEEDS, *range(60))))


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_bug_these_runs_are_right(seed: int) -> None:
    assert not _finds(seed)
