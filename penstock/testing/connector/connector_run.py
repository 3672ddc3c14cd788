"""One run of workers and sinks: every step in order, then the healing phase, and all checks.

A run is a function of its plan. `python -m penstock.testing --kind connector --seed N` replays a seed.
"""

from __future__ import annotations

from penstock.testing.connector.connector_plan import ConnectorPlan, connector_plan
from penstock.testing.connector.connector_world import ConnectorWorld
from penstock.testing.seeds.seed_search import Totals, collected_after
from penstock.testing.seeds.shrinking import descended
from penstock.testing.simulator.checks import Finding, Wrong
from penstock.testing.simulator.run import HEALING, RunTally


class ConnectorFailure(Exception):
    """A run in which a check failed: at which step, counted from 0, or in the healing phase."""

    def __init__(self, plan: ConnectorPlan, step: int, wrong: Wrong) -> None:
        super().__init__(str(wrong))
        self.plan = plan
        self.step = step
        self.wrong = wrong


def run_connector(plan: ConnectorPlan) -> RunTally:
    """Run the plan. Raise `ConnectorFailure` if a check fails."""
    number = HEALING
    try:
        world = ConnectorWorld(plan)
        for step in plan.steps:
            number += 1
            world.do(step)
        number = HEALING
        world.heal()
    except Wrong as wrong:
        raise ConnectorFailure(plan, number, wrong) from wrong
    except Exception as error:
        found = Finding("raised", "the run", f"{type(error).__name__}: {error}")
        raise ConnectorFailure(plan, number, Wrong([found])) from error
    return RunTally(len(plan.steps), world.points.passed, world.faults)


def attempt_connector(plan: ConnectorPlan, totals: Totals) -> ConnectorFailure | None:
    """Run a plan. Return its failure, or None."""
    try:
        with collected_after():
            totals.add(run_connector(plan))
    except ConnectorFailure as failure:
        totals.seeds += 1
        return failure
    return None


def finds(seed: int) -> ConnectorFailure | None:
    """Return the failure of a seed, or None."""
    return attempt_connector(connector_plan(seed), Totals())


def smallest_connector(failure: ConnectorFailure) -> ConnectorFailure:
    """Return a failure of the same check by the smallest plan that was found."""
    return descended(failure, lambda plan: attempt_connector(plan, Totals()), ConnectorPlan.smaller)


def explained_connector(failure: ConnectorFailure) -> str:
    """Return the story of a failure: the processes, the steps, and the failed checks."""
    plan = failure.plan
    lines = [f"sink {number}: a {'store' if store else 'program'}" for number, store in enumerate(plan.stores)]
    lines += [f"worker {number}: {messages} messages" for number, messages in enumerate(plan.messages)]
    for number, step in enumerate(plan.steps):
        lines.append(f"{'→' if number == failure.step else ' '} {number}: {step}")
    lines.append("→ healing" if failure.step == HEALING else "")
    return "\n".join([*filter(None, lines), str(failure.wrong)])
