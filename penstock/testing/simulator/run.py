"""One run of a plan: every step in order, then the healing phase, and all checks.

In the healing phase no fault strikes, and everything is built, delivered and published. A run is a function of the plan
and the app: it draws nothing else, and reads no clock. A failed check raises `Failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock.mapreduce import small_trees
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import (
    Action,
    BuildViews,
    Deliver,
    Forget,
    Look,
    Operate,
    Outage,
    Plan,
    Poll,
    Redefine,
    Reopen,
    Route,
    Step,
    Write,
)
from penstock.testing.simulator.machine import Machine, Witness
from penstock.testing.simulator.world import World
from penstock.views import App

HEALING = -1


@dataclass(slots=True)
class RunTally:
    """The counts of a run."""

    steps: int = 0
    places: int = 0
    faults: int = 0


class Failure(Exception):
    """A run in which a check failed: at which step, counted from 0, or in the healing phase."""

    def __init__(self, plan: Plan, step: int, wrong: Wrong) -> None:
        super().__init__(str(wrong))
        self.plan = plan
        self.step = step
        self.wrong = wrong


class StepWitness(Witness, Protocol):
    """A witness that is notified of steps too."""

    def stepping(self, world: Machine, number: int, step: Step | None) -> None:
        """React to the start of a step. Without a step, the healing phase starts."""
        ...

    def stepped(self, world: Machine) -> None:
        """React to the end of a step."""
        ...


def run(app: App, plan: Plan, exempt: Collection[str] = (), follower: StepWitness | None = None) -> RunTally:
    """Run the plan. Raise `Failure` if a check fails."""
    with small_trees() if plan.small_trees else nullcontext():
        return _run(app, plan, exempt, follower)


def _run(app: App, plan: Plan, exempt: Collection[str], follower: StepWitness | None) -> RunTally:
    number = HEALING
    if plan.outage is not None:
        plan.outage.on = False
    try:
        world = World(
            app,
            plan.partitions,
            plan.limits,
            plan.synced,
            plan.seed,
            exempt,
            follower,
            others=plan.others,
            outage=plan.outage,
        )
        for number, step in enumerate(plan.steps):
            _follow(follower, world, number, step)
            world.during(_deed(world, step.action), step.strike, step.again)
            if follower is not None:
                follower.stepped(world)
        number = HEALING
        _follow(follower, world, number, None)
        world.during(world.heal)
    except Wrong as wrong:
        raise Failure(plan, number, wrong) from wrong
    return RunTally(len(plan.steps), world.points.passed, world.faults)


def _follow(follower: StepWitness | None, world: World, number: int, step: Step | None) -> None:
    if follower is not None:
        follower.stepping(world, number, step)


def _deed(world: World, action: Action) -> Callable[[], None]:
    """Return the function that performs an action."""
    match action:
        case Deliver(partition_number, n, back, twice):
            return partial(world.deliver, partition_number, n, back, twice)
        case Write(how, records):
            return partial(world.write, how, records)
        case Poll():
            return world.poll
        case Route(link, arrive):
            return partial(world.route, link, arrive)
        case Look():
            return world.look
        case Forget():
            return world.forget
        case Reopen(clean):
            return partial(world.reopen, clean)
        case Redefine(app, clean):
            return partial(world.change, app, clean)
        case BuildViews(steps, limit):
            return partial(world.build, steps, limit)
        case Operate():
            return partial(world.repair, action)
        case Outage(on):
            return partial(world.fail, on)
