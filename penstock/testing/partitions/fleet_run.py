"""One run of a partitioned store: every step in order, then the healing phase, and all checks.

A run is a function of the plan and the app. `python -m penstock.testing --kind weak --seed N` replays a seed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from penstock.mapreduce import small_trees
from penstock.testing.inputs.trial_apps import Trial, tokens
from penstock.testing.partitions.fleet import Fleet
from penstock.testing.partitions.fleet_plan import FAILURES, FleetPlan, fleet_plan
from penstock.testing.seeds.seed_search import Totals, collected_after
from penstock.testing.seeds.shrinking import descended
from penstock.testing.simulator.app_changes import told_by
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.run import HEALING, Tally
from penstock.views import App, Production

_EVERY, _TOKENS = 8, 4  # with early sets, each 8th seed has records with tokens, at remainder 4


class FleetFailure(Exception):
    """A run in which a check failed: at which step, counted from 0, or in the healing phase."""

    def __init__(self, plan: FleetPlan, step: int, wrong: Wrong) -> None:
        super().__init__(str(wrong))
        self.plan = plan
        self.step = step
        self.wrong = wrong


def run_fleet(app: App, plan: FleetPlan) -> Tally:
    """Run the plan. Raise `FleetFailure` if a check fails."""
    number = HEALING
    try:
        with small_trees() if plan.small_trees else nullcontext():
            fleet = Fleet(app, plan)
            for step in plan.steps:
                number += 1
                fleet.do(step)
            number = HEALING
            fleet.heal()
    except Wrong as wrong:
        raise FleetFailure(plan, number, wrong) from wrong
    return Tally(len(plan.steps), fleet.points.passed, fleet.faults)


def attempt_fleet(app: App, plan: FleetPlan, totals: Totals) -> FleetFailure | None:
    """Run a plan. Return its failure, or None."""
    try:
        with collected_after():
            totals.add(run_fleet(app, plan))
    except FleetFailure as failure:
        totals.seeds += 1
        return failure
    return None


def fleet_of(
    seed: int, every: tuple[Trial, ...], production: Production = Production.STRONG
) -> tuple[Trial, FleetPlan]:
    """Return the app and the plan of a seed, for several partitions. Views on tables use this delivery mode."""
    trial = every[seed % len(every)]
    if production.early and seed % _EVERY == _TOKENS:
        trial = tokens()
    if not production.early:
        return trial, fleet_plan(seed, trial.stream(), others=trial.others)
    others = tuple(told_by(other, production) for other in trial.others)
    own = replace(trial, app=told_by(trial.app, production), others=others)
    return own, fleet_plan(seed, trial.stream(), FAILURES, others)


def smallest_fleet(app: App, failure: FleetFailure) -> FleetFailure:
    """Return a failure of the same check by the smallest plan that was found."""
    return descended(failure, lambda plan: attempt_fleet(app, plan, Totals()), FleetPlan.smaller)


def explained_fleet(failure: FleetFailure) -> str:
    """Return the story of a failure: the records of the sources, the steps, and the failed checks."""
    plan = failure.plan
    lines = [f"{plan.partitions} partitions"]
    lines += [f"source {i}: {', '.join(map(str, log)) or 'nothing'}" for i, log in enumerate(plan.sources)]
    for number, step in enumerate(plan.steps):
        lines.append(f"{'→' if number == failure.step else ' '} {number}: {step}")
    lines.append("→ healing" if failure.step == HEALING else "")
    return "\n".join([*filter(None, lines), str(failure.wrong)])
