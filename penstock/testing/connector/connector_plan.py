"""A run of workers and sinks as plain data: the sizes, and the steps.

    connect   a worker connects to a sink where it has no session
    produce   a worker sends messages to all its sinks
    gap       the same, and one sink misses a message
    prepare   a worker ends a transaction, and asks for votes
    trail     a worker sends messages while a transaction is open
    decide    a worker that has all votes decides to commit
    abort     a worker aborts its transaction
    deliver   some bytes of one connection arrive, or all, or its end
    turn      all bytes arrive
    cut       a connection is lost, with some bytes on their way
    kill      a process is killed
    power     a machine loses its power
    start     a process that is down starts
    refuse    a program refuses the next transaction
    round     a worker commits a transaction, from its connections to the last bytes
    leave     a worker without an open transaction leaves for good
    name      a worker names those that left, and itself

A number in a step chooses among the things that exist, by its remainder. So any step can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from penstock.testing.seeds.shrinking import cuts
from penstock.testing.simulator.faults import Fault, Strike

_WEIGHTS = {
    "connect": 5.0,
    "produce": 6.0,
    "gap": 0.3,
    "prepare": 6.0,
    "trail": 1.0,
    "decide": 6.0,
    "abort": 0.4,
    "deliver": 14.0,
    "turn": 10.0,
    "cut": 1.2,
    "kill": 0.5,
    "power": 0.7,
    "start": 9.0,
    "refuse": 0.3,
    "round": 5.0,
    "leave": 0.6,
    "name": 0.8,
}
_FAULTS = (Fault.CRASH, Fault.CRASH, Fault.POWER, Fault.POWER, Fault.FAIL)
_NTH = (1, 1, 2, 2, 3, 4, 5, 7, 10, 14)
_STRIKES = 0.2  # share of the steps


@dataclass(frozen=True, slots=True)
class ConnectorStep:
    """One step: its kind, numbers that choose its objects, and perhaps a fault that strikes during it or later."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0
    strike: Strike | None = None

    def __str__(self) -> str:
        said = f"{self.kind} {self.a} {self.b} {self.c}"
        return said if self.strike is None else f"{said}, and {self.strike}"


@dataclass(frozen=True, slots=True)
class ConnectorPlan:
    """A whole run. `stores` tells of each sink whether it is a store. Each worker sends all its messages."""

    seed: int
    stores: tuple[bool, ...]
    messages: tuple[int, ...]  # of each worker
    steps: tuple[ConnectorStep, ...]

    def smaller(self) -> Iterator[ConnectorPlan]:
        """Yield slightly smaller plans, the largest cuts first."""
        for steps in cuts(self.steps):
            yield replace(self, steps=steps)
        for at, step in enumerate(self.steps):
            if step.strike is not None:
                yield replace(self, steps=(*self.steps[:at], replace(step, strike=None), *self.steps[at + 1 :]))


def connector_plan(seed: int) -> ConnectorPlan:
    """Return the plan of a seed."""
    choose = Random(seed)
    stores = tuple(choose.random() < 0.3 for _ in range(choose.choice((1, 1, 2, 3))))
    messages = tuple(choose.choice((5, 9, 14)) for _ in range(choose.choice((1, 2, 2, 3))))
    kinds = choose.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()), k=choose.choice((20, 40, 70, 110)))
    places = [f"sink {number} " for number in range(len(stores))]
    places += [f"worker {number} " for number in range(len(messages))]
    steps = []
    for kind in kinds:
        step = ConnectorStep(kind, choose.randrange(64), choose.randrange(64), choose.randrange(64))
        if choose.random() < _STRIKES:
            step = replace(step, strike=Strike(choose.choice(_FAULTS), choose.choice(_NTH), choose.choice(places)))
        steps.append(step)
    return ConnectorPlan(seed, stores, messages, tuple(steps))
