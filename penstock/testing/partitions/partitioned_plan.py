"""A run of a partitioned store as plain data: the records of the sources, and the steps.

    deliver   a source delivers its next records, perhaps after some repeated ones
    write     a client puts records
    send      the messages that one partition owes another go on the wire
    arrive    a message on the wire arrives; a copy may stay there, and arrive late
    drop      a message on the wire is lost
    crash     a partition's process is killed
    restart   the process that serves the partitions is killed, and theirs end with it
    forget    a partition's caches are dropped
    poll      a partition's publisher reads its views
    settle    all messages arrive, and all checks must hold
    mend      an operator restates, reposts, retries or drops
    change    all partitions are opened with another app, whose views are built meanwhile
    build     a step of that build at each partition

A number in a step chooses among the things that exist, by its remainder. So any step can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from penstock.cache import Limits
from penstock.spout import Record
from penstock.testing.seeds.shrinking import cuts
from penstock.testing.simulator.fault_plan import GROWING, SMALL, PutMode, RecordSource
from penstock.testing.simulator.faults import AFTER, Fault, Strike
from penstock.views import App

KINDS = ("deliver", "write", "send", "arrive", "drop", "crash", "restart", "forget", "poll", "settle", "mend")
CHANGING = ("change", "build")
GIVING = ("deliver", "write")
_OFTEN = (6, 3, 12, 14, 2, 1.5, 0.7, 1, 2, 1, 0.8)
_OFTEN_CHANGING = (2.5, 14)
_CHANGES = 0.3  # share of the runs
LOSSES = (Fault.CRASH, Fault.CRASH, Fault.POWER)
FAILURES = (*LOSSES, Fault.FAIL)
"""The faults for views with early sets: a full disk may refuse a batch whose early sets were sent."""
_NTH = (1, 1, 2, 2, 3, 4, 5, 7, 9, 12, 16)
_AFTER_COMMIT = 0.3


@dataclass(frozen=True, slots=True)
class PartitionedStep:
    """One step: its kind, numbers that choose its object, and perhaps a fault that strikes during it.

    If `ends` is set, the process that serves the partitions is killed together with the struck one.
    """

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0
    records: tuple[Record, ...] = ()
    how: PutMode = PutMode.BATCH
    strike: Strike | None = None
    ends: bool = False

    def __str__(self) -> str:
        said = f"{self.kind} {self.a} {self.b} {self.c}"
        if self.records:
            said += f" {self.how.value}: {', '.join(map(str, self.records))}"
        return said if self.strike is None else f"{said}, while {self.strike}{', and all end' if self.ends else ''}"


@dataclass(frozen=True, slots=True)
class PartitionedPlan:
    """A whole run."""

    seed: int
    partitions: int
    sources: tuple[tuple[Record, ...], ...]
    steps: tuple[PartitionedStep, ...]
    limits: Limits
    small_trees: bool
    others: tuple[App, ...] = ()  # apps that this one can change to

    def smaller(self) -> Iterator[PartitionedPlan]:
        """Yield slightly smaller plans, the largest cuts first."""
        for steps in cuts(self.steps):
            yield replace(self, steps=steps)
        for at, log in enumerate(self.sources):
            for records in cuts(log):
                numbered = tuple(replace(record, offset=i) for i, record in enumerate(records))
                yield replace(self, sources=(*self.sources[:at], numbered, *self.sources[at + 1 :]))
        for at, step in enumerate(self.steps):
            if step.strike is not None:
                yield replace(self, steps=(*self.steps[:at], replace(step, strike=None), *self.steps[at + 1 :]))


def partitioned_plan(
    seed: int,
    source: RecordSource,
    losses: Sequence[Fault] = LOSSES,
    others: tuple[App, ...] = (),
    changes: float = _CHANGES,
) -> PartitionedPlan:
    """Return the plan of a seed, with records of a source and faults out of `losses`. In some plans the app changes."""
    choose = Random(seed)
    sizes = [choose.choice((2, 3, 4, 6, 10, 16)) for _ in range(choose.choice((1, 1, 2)))]
    logs = tuple(tuple(replace(source.record(choose), offset=i) for i in range(size)) for size in sizes)
    partitions = choose.choice((2, 2, 3, 4))
    changing = bool(others) and choose.random() < changes
    every, often = (KINDS + CHANGING, _OFTEN + _OFTEN_CHANGING) if changing else (KINDS, _OFTEN)
    kinds = choose.choices(every, often, k=choose.choice((6, 10, 15, 24)))
    giving = [at for at, kind in enumerate(kinds) if kind in GIVING + CHANGING]
    struck = set(choose.sample([*range(len(kinds)), *giving, *giving, *giving], choose.choice((0, 1, 1, 2, 3))))
    steps = tuple(
        _step(choose, kind, losses if at in struck else (), partitions, source) for at, kind in enumerate(kinds)
    )
    limits = replace(choose.choice((Limits(), SMALL, SMALL, GROWING)), few=choose.choice((0, Limits().few)))
    return PartitionedPlan(seed, partitions, logs, steps, limits, choose.random() < 0.75, others if changing else ())


def _step(choose: Random, kind: str, losses: Sequence[Fault], partitions: int, source: RecordSource) -> PartitionedStep:
    step = PartitionedStep(kind, choose.randrange(64), choose.randrange(64), choose.randrange(64))
    if kind == "write":
        how = choose.choice((PutMode.EACH, PutMode.BATCH, PutMode.LIST, PutMode.STRICT))
        step = replace(step, records=tuple(source.record(choose) for _ in range(choose.choice((1, 1, 2, 4)))), how=how)
    if kind == "mend":
        step = replace(step, records=(source.record(choose),))
    if not losses:
        return step
    where = f"{choose.randrange(partitions)} "
    fault = choose.choice(losses if kind in GIVING else LOSSES)
    if choose.random() < _AFTER_COMMIT:
        strike = Strike(fault, choose.choice((1, 1, 2)), f"{where}commit {AFTER}")
    else:
        strike = Strike(fault, choose.choice(_NTH), where)
    return replace(step, strike=strike, ends=choose.random() < 0.4)
