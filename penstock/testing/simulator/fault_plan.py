"""A run as plain data: the records of the sources, and the steps. A seed makes a plan; shrinking makes smaller ones.

A step is an action, perhaps with a fault. The actions:

    Deliver   a source partition delivers its next records, and perhaps repeats some
    Write     a client puts records, and repeats each call until it returns
    Poll      the publisher reads the views
    Route     some late changes arrive, and downstream answers in another way from now on
    Look      a reader compares everything with the oracle, and keeps its snapshot; the next one checks that snapshot
    Forget    the caches are dropped
    Reopen    the engine is closed or killed, and opened
    Redefine  the engine is opened with another app, whose views are built meanwhile
    BuildViews  some steps of that build
    Operate   an operator restates, reposts, retries or drops
    Outage    the service that map functions ask fails from now on, or works again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Protocol

from penstock.cache import Limits
from penstock.spout import Record
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.outage import Switch
from penstock.testing.simulator.publisher import Link
from penstock.views import App

SMALL = Limits(fold_least=4, fold_most=8, fold_buckets=2, bucket=1, space=1.5, entries=4)
"""Index folds and compaction begin after a handful of documents."""

GROWING = Limits(fold_least=4, fold_most=8, fold_buckets=1, bucket=1, space=2.5, entries=16)
"""The index doubles in many steps."""


class PutMode(Enum):
    """The way in which a client puts records."""

    EACH = "one by one"
    BATCH = "in one batch"
    LIST = "as a list a table"
    STRICT = "as a strict list a table"


@dataclass(frozen=True, slots=True)
class Deliver:
    """A delivery of a partition's next `n` records, after `back` repeated ones. The first `twice` come twice."""

    partition: int
    n: int
    back: int = 0
    twice: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Records put by a client."""

    how: PutMode
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The publisher reads the views."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way in which downstream answers, and the number of late changes that arrive before."""

    link: Link
    arrive: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """A reader compares everything with the oracle, or its kept snapshot with its former rows."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The caches are dropped."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """The engine is opened again. If `clean`, it was closed before, otherwise it was killed."""

    clean: bool


@dataclass(frozen=True, slots=True)
class Redefine:
    """The engine is opened with the app of this number; 0 is the first one. If `clean`, it was closed before."""

    app: int
    clean: bool = True


@dataclass(frozen=True, slots=True)
class BuildViews:
    """Some steps of a build, each of about `limit` documents or rows."""

    steps: int
    limit: int


class OperatorAction(Enum):
    """The kind of a repair."""

    VIEW = "restates a view"
    KEY = "restates a document"
    REPOST = "reposts"
    RETRY = "retries what is in quarantine"
    DROP = "drops the records in quarantine"


@dataclass(frozen=True, slots=True)
class Operate:
    """A repair of a correct store: of a view by its number, or of the document of a record."""

    how: OperatorAction
    view: int = 0
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """The service that map functions ask fails from now on, or works again."""

    on: bool


Action = Deliver | Write | Poll | Route | Look | Forget | Reopen | Redefine | BuildViews | Operate | Outage


@dataclass(frozen=True, slots=True)
class Step:
    """An action, the fault that strikes during it, and the fault that strikes during the recovery."""

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
    others: tuple[App, ...] = ()  # apps that this one can change to
    outage: Switch | None = None  # the service that map functions ask

    @property
    def size(self) -> int:
        """The size of the plan, to compare shrunk plans."""
        logs = [*self.partitions, *(s.action.records for s in self.steps if isinstance(s.action, Write))]
        records = [record for log in logs for record in log]
        delivered = sum(
            s.action.n + s.action.back + s.action.twice for s in self.steps if isinstance(s.action, Deliver)
        )
        delivered += sum(s.action.steps for s in self.steps if isinstance(s.action, BuildViews))
        strikes = sum((s.strike is not None) + (s.again is not None) for s in self.steps)
        fields = sum(len(r.doc) for r in records if isinstance(r.doc, Mapping))
        return 16 * len(records) + 8 * len(self.steps) + 4 * strikes + delivered + fields


class RecordSource(Protocol):
    """A generator of records."""

    def record(self, choose: Random) -> Record:
        """Return the next record: mostly a later version than those before."""
        ...

    def widen(self) -> None:
        """Use many keys from now on, instead of a few that repeat often."""
        ...


_LINKS = (Link.UP, Link.UP, Link.DOWN, Link.DEAF, Link.SLOW)
_FAULTS = (Fault.CRASH, Fault.CRASH, Fault.CRASH, Fault.POWER, Fault.FAIL, Fault.INTERRUPT)
_NTH = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 26, 34)
_SHORT = 10  # entries of these for actions that pass few places
_OFTEN: dict[type[Action], float] = {
    Deliver: 9,
    Write: 3,
    Poll: 3,
    Route: 1.4,
    Look: 1.6,
    Forget: 0.8,
    Reopen: 1.2,
    Operate: 0.8,
}
_CHANGING: dict[type[Action], float] = {Redefine: 4, BuildViews: 7}
_FAILING: dict[type[Action], float] = {Outage: 3}
_MOST = (6, 9, 12, 16, 24)  # actions
_BUILDING = 8  # more actions, if the app changes
_FEW = 0.7  # share of runs that take small batches record by record, not in columns
_SIZES, _CHANGED_SIZES, _LARGE = (1, 2, 2, 3, 4, 6, 10), (4, 6, 10, 16), 0.08
_SWARM = (0.2, 1, 1, 4)
_STRICT_SHARE, _REPOSTED, _CHANGES = 0.2, 0.03, 0.4


def plan_of(seed: int, source: RecordSource, others: tuple[App, ...] = (), outage: Switch | None = None) -> Plan:
    """Return the plan of a seed, with records of a source. The app may change to `others` meanwhile."""
    choose = Random(seed)
    sizes = [choose.choice(_SIZES) for _ in range(choose.choice((1, 1, 1, 2, 3)))]
    large = choose.random() < _LARGE
    if large:
        sizes[0] = 48
        source.widen()
    often = dict(_OFTEN)
    if others and choose.random() < _CHANGES:
        often |= _CHANGING
        sizes[0] = max(sizes[0], choose.choice(_CHANGED_SIZES))
    if outage is not None:
        often |= _FAILING
    partitions = tuple(tuple(_numbered(choose, source.record(choose), i) for i in range(size)) for size in sizes)
    actions = list(_Actions(choose, source, len(others)).of(sizes, often))
    faulty = choose.choice((0, 1, 1, 2, 3))
    building = [at for at, action in enumerate(actions) if isinstance(action, Redefine | BuildViews)]
    struck = set(choose.sample([*range(len(actions)), *building, *building], min(faulty, len(actions))))
    steps = tuple(_step(choose, action, at in struck) for at, action in enumerate(actions))
    few = Limits().few if choose.random() < _FEW else 0
    limits = replace(choose.choice((SMALL, GROWING) if large else (Limits(), SMALL, SMALL, GROWING)), few=few)
    small = choose.random() < 0.75
    return Plan(seed, partitions, steps, limits, small_trees=small, others=others, outage=outage)


def _numbered(choose: Random, record: Record, offset: int) -> Record:
    return replace(record, offset=offset, repost=record.doc is not None and choose.random() < _REPOSTED)


def _step(choose: Random, action: Action, struck: bool) -> Step:
    if not struck:
        return Step(action)
    again = Strike(choose.choice(_FAULTS[:4]), choose.choice(_NTH)) if choose.random() < 0.25 else None
    near = _NTH[: _SHORT if isinstance(action, BuildViews | Poll) else len(_NTH)]
    return Step(action, Strike(choose.choice(_FAULTS), choose.choice(near)), again)


class _Actions:
    """The actions of one plan."""

    def __init__(self, choose: Random, source: RecordSource, others: int) -> None:
        self._choose = choose
        self._source = source
        self._apps = others + 1
        self._app = 0
        self._begun = False  # there may be documents

    def of(self, sizes: list[int], often: Mapping[type[Action], float]) -> Iterator[Action]:
        """Yield actions until every partition has delivered its records, or there are enough.

        The healing phase delivers the rest. The frequency of each kind is drawn once per plan.
        """
        choose, left, kinds = self._choose, list(sizes), list(often)
        weights = [much * (1 if kind is Deliver else choose.choice(_SWARM)) for kind, much in often.items()]
        most = choose.choice(_MOST) + (_BUILDING if Redefine in often else 0)
        while any(left) and most:
            most -= 1
            kind = choose.choices(kinds, weights)[0]
            if kind is Deliver:
                partition = choose.choice([i for i, n in enumerate(left) if n])
                n = min(left[partition], choose.choice((0, 1, 1, 2, 2, 3, 5, 8, 20)))
                left[partition] -= n
                self._begun = True
                yield Deliver(partition, n, choose.choice((0, 0, 0, 1, 3)), choose.choice((0, 0, 0, 1, 2)))
            elif self._begun or kind is not Redefine:
                yield self._other(kind)

    def _other(self, kind: type[Action]) -> Action:
        choose = self._choose
        made: dict[type[Action], Callable[[], Action]] = {
            Write: self._write,
            Route: lambda: Route(choose.choice(_LINKS), choose.randrange(3)),
            Reopen: lambda: Reopen(choose.random() < 0.5),
            Redefine: self._change,
            BuildViews: lambda: BuildViews(choose.choice((1, 1, 1, 2, 4)), choose.choice((1, 1, 2, 3, 8, 1024))),
            Operate: self._repair,
            Outage: lambda: Outage(choose.random() < 0.6),
        }
        return made[kind]() if kind in made else Poll() if kind is Poll else Look() if kind is Look else Forget()

    def _change(self) -> Action:
        choose = self._choose
        self._app = choose.choice([app for app in range(self._apps) if app != self._app])
        return Redefine(self._app, choose.random() < 0.5)

    def _write(self) -> Action:
        self._begun = True
        choose = self._choose
        how = (
            PutMode.STRICT
            if choose.random() < _STRICT_SHARE
            else choose.choice((PutMode.EACH, PutMode.BATCH, PutMode.LIST))
        )
        return Write(how, tuple(self._source.record(choose) for _ in range(choose.choice((1, 1, 2, 3)))))

    def _repair(self) -> Action:
        choose = self._choose
        how = choose.choice((*OperatorAction, OperatorAction.RETRY))
        return Operate(how, choose.randrange(8), self._source.record(choose))
