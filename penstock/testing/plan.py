"""A run as plain data: what the sources hold, and what happens step by step. A seed makes one, and shrinking another.

A step is an action and perhaps a fault. The actions:

    Deliver   a source partition hands over its next records, from some way back, or with its first ones twice
    Write     a client puts records itself, and again until it is told that they are in
    Poll      the node that publishes looks at the views
    Route     downstream answers otherwise from now on, and some of what is late arrives
    Look      a reader compares all it sees with the oracle, and keeps its snapshot; the next one looks at that again
    Forget    memory ran out
    Reopen    the engine is closed, or lost, and opened
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Protocol

from penstock.cache import Limits
from penstock.spout import Record
from penstock.testing.faults import Fault, Strike
from penstock.testing.pub import Link

SMALL = Limits(fold_least=4, fold_most=8, fold_buckets=2, bucket=1, space=1.5, entries=4)
"""Folding and compacting begin after a handful of documents."""

GROWING = Limits(fold_least=4, fold_most=8, fold_buckets=1, bucket=1, space=2.5, entries=16)
"""The index doubles, in many steps."""


class How(Enum):
    """How a client puts records."""

    EACH = "one by one"
    BATCH = "in one batch"
    LIST = "as a list a table"
    STRICT = "as a strict list a table"


@dataclass(frozen=True, slots=True)
class Deliver:
    """The next `n` records of a partition, after `back` that it delivers once more; the first `twice` come twice."""

    partition: int
    n: int
    back: int = 0
    twice: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Records put by a client."""

    how: How
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The node that publishes looks."""


@dataclass(frozen=True, slots=True)
class Route:
    """How downstream answers, and how many late changes arrive before."""

    link: Link
    arrive: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """A reader looks."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Memory is dropped."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """The engine is opened anew; `clean` where it was closed before."""

    clean: bool


Action = Deliver | Write | Poll | Route | Look | Forget | Reopen


@dataclass(frozen=True, slots=True)
class Step:
    """What happens, the fault that strikes meanwhile, and the one that strikes while that is recovered from."""

    action: Action
    strike: Strike | None = None
    again: Strike | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run."""

    seed: int
    partitions: tuple[tuple[Record, ...], ...]
    steps: tuple[Step, ...]
    limits: Limits = field(default_factory=Limits)
    synced: bool = True
    small_trees: bool = False

    @property
    def size(self) -> int:
        """How much of it there is, to compare shrunk ones by."""
        logs = [*self.partitions, *(s.action.records for s in self.steps if isinstance(s.action, Write))]
        records = [record for log in logs for record in log]
        delivered = sum(
            s.action.n + s.action.back + s.action.twice for s in self.steps if isinstance(s.action, Deliver)
        )
        strikes = sum((s.strike is not None) + (s.again is not None) for s in self.steps)
        fields = sum(len(r.doc) for r in records if isinstance(r.doc, Mapping))
        return 16 * len(records) + 8 * len(self.steps) + 4 * strikes + delivered + fields


class Source(Protocol):
    """Where records come from."""

    def record(self, choose: Random) -> Record:
        """The next record: a version that is mostly later than those before it."""
        ...

    def widen(self) -> None:
        """Many keys from now on, instead of few that meet often."""
        ...


_LINKS = (Link.UP, Link.UP, Link.DOWN, Link.DEAF, Link.SLOW)
_FAULTS = (Fault.CRASH, Fault.CRASH, Fault.CRASH, Fault.POWER, Fault.FAIL, Fault.INTERRUPT)
_NTH = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 26, 34)
_OFTEN: dict[type[Action], float] = {Deliver: 9, Write: 3, Poll: 3, Route: 1.4, Look: 1.6, Forget: 0.8, Reopen: 1.2}
_SIZES, _LARGE = (1, 2, 2, 3, 4, 6, 10), 0.08
_SWARM = (0.2, 1, 1, 4)
_STRICT_SHARE = 0.2


def plan_of(seed: int, source: Source) -> Plan:
    """The run that a seed means, over the records of a source."""
    choose = Random(seed)
    sizes = [choose.choice(_SIZES) for _ in range(choose.choice((1, 1, 1, 2, 3)))]
    large = choose.random() < _LARGE
    if large:
        sizes[0] = 48
        source.widen()
    partitions = tuple(tuple(_numbered(source.record(choose), i) for i in range(size)) for size in sizes)
    actions = list(_actions(choose, source, sizes))
    faulty = choose.choice((0, 1, 1, 2, 3))
    struck = set(choose.sample(range(len(actions)), min(faulty, len(actions))))
    steps = tuple(_step(choose, action, at in struck) for at, action in enumerate(actions))
    few = choose.choice((0, Limits().few))
    limits = replace(choose.choice((SMALL, GROWING) if large else (Limits(), SMALL, SMALL, GROWING)), few=few)
    return Plan(seed, partitions, steps, limits, small_trees=choose.random() < 0.75)


def _numbered(record: Record, offset: int) -> Record:
    return Record(record.table, record.key, record.doc, record.ts, offset)


def _step(choose: Random, action: Action, struck: bool) -> Step:
    if not struck:
        return Step(action)
    again = Strike(choose.choice(_FAULTS[:4]), choose.choice(_NTH)) if choose.random() < 0.25 else None
    return Step(action, Strike(choose.choice(_FAULTS), choose.choice(_NTH)), again)


def _actions(choose: Random, source: Source, sizes: list[int]) -> Iterator[Action]:
    """Actions until every partition has been delivered once; how often each kind comes is drawn once for all."""
    left = list(sizes)
    kinds = list(_OFTEN)
    weights = [often * (1 if kind is Deliver else choose.choice(_SWARM)) for kind, often in _OFTEN.items()]
    while any(left):
        kind = choose.choices(kinds, weights)[0]
        if kind is Deliver:
            partition = choose.choice([i for i, n in enumerate(left) if n])
            n = min(left[partition], choose.choice((1, 1, 2, 3, 5, 8, 20)))
            left[partition] -= n
            yield Deliver(partition, n, choose.choice((0, 0, 0, 1, 3)), choose.choice((0, 0, 0, 1, 2)))
        elif kind is Write:
            how = How.STRICT if choose.random() < _STRICT_SHARE else choose.choice((How.EACH, How.BATCH, How.LIST))
            yield Write(how, tuple(source.record(choose) for _ in range(choose.choice((1, 1, 2, 3)))))
        elif kind is Route:
            yield Route(choose.choice(_LINKS), choose.randrange(3))
        elif kind is Reopen:
            yield Reopen(choose.random() < 0.5)
        else:
            yield Poll() if kind is Poll else Look() if kind is Look else Forget()
