"""Change views in a partitioned store under crashes. No seed may fail; each planted bug is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.commit import Core
from penstock.generations import app_comparison as agreeing
from penstock.generations import build as sweep
from penstock.generations import generation_numbers
from penstock.partitions.exchange import exchange
from penstock.partitions.union import view_building
from penstock.testing.inputs.trial_apps import trials
from penstock.testing.partitions import simulated_processes
from penstock.testing.partitions.partitioned_plan import partitioned_plan
from penstock.testing.partitions.partitioned_run import PartitionedFailure, run_partitioned

SEEDS = 60
MOST = 320  # the seeds that find each planted bug
TRIALS = [trial for trial in trials() if trial.others]


def run(seed: int) -> None:
    trial = TRIALS[seed % len(TRIALS)]
    run_partitioned(trial.app, partitioned_plan(seed, trial.stream(), others=trial.others, changes=1.0))


def test_no_seed_finds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    switches = 0
    plain = sweep.GenerationBuild.switch

    def switch(self: sweep.GenerationBuild, *args: Any) -> Any:
        nonlocal switches
        switches += 1
        return plain(self, *args)

    monkeypatch.setattr(sweep.GenerationBuild, "switch", switch)
    for seed in range(SEEDS):
        run(seed)
    assert switches > SEEDS / 2, "views must come to be built"


def _nothing_is_owed(m: pytest.MonkeyPatch) -> None:
    plain = Core.owing
    m.setattr(Core, "owing", lambda self, w, writes, state: state if self.build else plain(self, w, writes, state))


def _switch_before_all_arrived(m: pytest.MonkeyPatch) -> None:
    m.setattr(simulated_processes._Served, "carry", lambda self: [])


def _begin_anew_with_each_process(m: pytest.MonkeyPatch) -> None:
    def agreement(self: generation_numbers.GenerationNumbers, known: Any, app: Any) -> agreeing.Agreement:
        own = generation_numbers.compared(known, app)
        return agreeing.Agreement(own.wanted, dict(self.changes), False, self.numbers)

    m.setattr(generation_numbers.GenerationNumbers, "agreement", agreement)


def _steps_fold_nothing(m: pytest.MonkeyPatch) -> None:
    plain = sweep.GenerationBuild._write

    def write(self: sweep.GenerationBuild, *args: Any) -> Any:
        self._core.settle = lambda *_: None
        try:
            return plain(self, *args)
        finally:
            del self._core.settle

    m.setattr(sweep.GenerationBuild, "_write", write)


def _rows_are_not_waited_for(m: pytest.MonkeyPatch) -> None:
    def waits(self: sweep.GenerationBuild) -> bool:
        nodes = self._core.tables.values()
        return self._core.exchange is not None and all(node.build is None or node.build.done for node in nodes)

    m.setattr(sweep.GenerationBuild, "waits", property(waits))


def _the_first_partition_speaks_for_all(m: pytest.MonkeyPatch) -> None:
    plain = generation_numbers._begun
    m.setattr(
        generation_numbers, "_begun", lambda wanted, known, changes, unlike: plain(wanted, known[:1], changes, ())
    )


def _each_switches_by_itself(m: pytest.MonkeyPatch) -> None:
    def build(self: Any, limit: int) -> tuple[bool, list[Any]]:
        steps = self._build_steps(limit)
        self._store.push()
        if any(own.waits for own in steps):
            with self._store.still():
                steps = self._build_steps(None, switch="switch")
        return any(own.more or own.waits for own in steps), steps

    m.setattr(view_building.PartitionedBuilding, "build", build)


def _generations_that_gave_way_are_owed_something(m: pytest.MonkeyPatch) -> None:
    plain = exchange.PartitionExchange.gather
    m.setattr(
        exchange.PartitionExchange,
        "gather",
        lambda self, views, _, parts, writes: plain(self, views, -1, parts, writes),
    )


def _each_partition_counts_for_itself(m: pytest.MonkeyPatch) -> None:
    def number(self: Any, name: str) -> int:
        self._last += 1
        return int(self._last)

    m.setattr(agreeing._Beginning, "_number", number)


BUGS = (
    _nothing_is_owed,
    _switch_before_all_arrived,
    _begin_anew_with_each_process,
    _steps_fold_nothing,
    _rows_are_not_waited_for,
    _the_first_partition_speaks_for_all,
    _each_switches_by_itself,
    _generations_that_gave_way_are_owed_something,
    _each_partition_counts_for_itself,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__.strip("_"))
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    for seed in range(MOST):
        try:
            run(seed)
        except PartitionedFailure as found:
            print(f"{bug.__name__}: seed {seed}: {found}")
            return
    raise AssertionError("no seed found it")
