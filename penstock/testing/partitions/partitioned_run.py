"""One run of a partitioned store: every step in order, then the healing phase, and all checks.

A run is a function of the plan and the app. `python -m penstock.testing --kind weak --seed N` replays a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from penstock.mapreduce import small_trees
from penstock.testing.inputs.trial_apps import Trial, tokens
from penstock.testing.partitions.partitioned_plan import FAILURES, PartitionedPlan, partitioned_plan
from penstock.testing.partitions.partitioned_world import PartitionedWorld
from penstock.testing.seeds.seed_search import Totals, collected_after
from penstock.testing.seeds.shrinking import descended
from penstock.testing.simulator.app_changes import with_production
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.run import HEALING, RunTally
from penstock.views import App, DeliveryMode

_EVERY, _TOKENS = 8, 4  # with early sets, each 8th seed has records with tokens, at remainder 4


class PartitionedFailure(Exception):
    """A run in which a check failed: at which step, counted from 0, or in the healing phase."""

    def __init__(self, plan: PartitionedPlan, step: int, wrong: Wrong) -> None:
        super().__init__(str(wrong))
        self.plan = plan
        self.step = step
        self.wrong = wrong


def run_partitioned(app: App, plan: PartitionedPlan) -> RunTally:
    """Run the plan. Raise `PartitionedFailure` if a check fails."""
    number = HEALING
    try:
        with small_trees() if plan.small_trees else nullcontext():
            world = PartitionedWorld(app, plan)
            for step in plan.steps:
                number += 1
                world.do(step)
            number = HEALING
            world.heal()
    except Wrong as wrong:
        raise PartitionedFailure(plan, number, wrong) from wrong
    return RunTally(len(plan.steps), world.points.passed, world.faults)


def attempt_partitioned(app: App, plan: PartitionedPlan, totals: Totals) -> PartitionedFailure | None:
    """Run a plan. Return its failure, or None."""
    try:
        with collected_after():
            totals.add(run_partitioned(app, plan))
    except PartitionedFailure as failure:
        totals.seeds += 1
        return failure
    return None


def partitioned_run_of(
    seed: int, every: Sequence[Trial], production: DeliveryMode = DeliveryMode.STRONG
) -> tuple[Trial, PartitionedPlan]:
    """Return the app and the plan of a seed, for several partitions. Views on tables use this delivery mode."""
    trial = every[seed % len(every)]
    if production.early and seed % _EVERY == _TOKENS:
        trial = tokens()
    if not production.early:
        return trial, partitioned_plan(seed, trial.stream(), others=trial.others)
    others = tuple(with_production(other, production) for other in trial.others)
    own = replace(trial, app=with_production(trial.app, production), others=others)
    return own, partitioned_plan(seed, trial.stream(), FAILURES, others)


def smallest_partitioned(app: App, failure: PartitionedFailure) -> PartitionedFailure:
    """Return a failure of the same check by the smallest plan that was found."""
    return descended(failure, lambda plan: attempt_partitioned(app, plan, Totals()), PartitionedPlan.smaller)


def explained_partitioned(failure: PartitionedFailure) -> str:
    """Return the story of a failure: the records of the sources, the steps, and the failed checks."""
    plan = failure.plan
    lines = [f"{plan.partitions} partitions"]
    lines += [f"source {i}: {', '.join(map(str, log)) or 'nothing'}" for i, log in enumerate(plan.sources)]
    for number, step in enumerate(plan.steps):
        lines.append(f"{'→' if number == failure.step else ' '} {number}: {step}")
    lines.append("→ healing" if failure.step == HEALING else "")
    return "\n".join([*filter(None, lines), str(failure.wrong)])
