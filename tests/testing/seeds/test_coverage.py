"""The events of seeds are counted, and events that never occurred are named."""

import pytest

from penstock.testing import __main__ as command
from penstock.testing.inputs.trial_apps import trial_of, trials
from penstock.testing.seeds.coverage import Coverage
from penstock.testing.simulator.faults import Fault
from penstock.testing.simulator.run import run


def test_every_kind_of_event_and_every_reducer_comes() -> None:
    """Few seeds reach all but the rarest events; `--coverage --seeds 500` reaches all."""
    coverage, every = Coverage(), trials()
    for seed in range(60):
        trial, plan = trial_of(seed, every)
        coverage.begin(trial.app)
        run(trial.app, plan, follower=coverage)
        coverage.end()
    kinds = {kind for kind, _, _ in coverage.lines()}
    assert {"actions", "faults struck", "downstream", "operators", "definitions", "parts of apps, in seeds"} <= kinds
    missing = [what for what in coverage.missing if not what.startswith(("faults", "struck", "seen", "definitions"))]
    assert missing == []


def test_what_never_came_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--coverage", "--seeds", "1"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 seeds\nactions\n")
    assert f"never came: faults struck: {Fault.POWER.value}" in said
