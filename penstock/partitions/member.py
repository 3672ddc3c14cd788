"""A partition at work beside others: what it takes, what it owes them, and how far it stands.

The same whether they are in one process, in processes of their own, or in the simulator: who carries productions is
not said here. Invariant: all that a member says it has is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.cache import BatchRejected, PenstockError
from penstock.core import Batch, Compacted, Core, FairLock, Resume, Snapshot, read_spout_state
from penstock.gateway import TableBatch
from penstock.generations import BuildProgress, Switch, take_build_step
from penstock.mapreduce import Writes
from penstock.partitions.exchange.batch_part import records_part
from penstock.partitions.exchange.exchange import PartitionExchange, clear, receive, take_early_set
from penstock.partitions.routing import Router
from penstock.recovery import EarlySet, Production, RepairSteps, Sent, changes_of, in_flight, owed_after, take_step
from penstock.remote import repaired_data
from penstock.views import Counts

_T = TypeVar("_T")
Tables = dict[str, list[Batch]]
MOST = 4 << 20
"""Bytes of productions that are sent at once, about."""
MOST_EARLY = 1000
"""Records up to which a batch is told early: in a larger one each has waited longer than its save takes."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """How far a member is.

    By partition the numbers that it gave last, and that it took last; its sources; its epoch; how much
    is stored that is owed; the number of the last batch that it took; by table the kind of its ts; by partition why it
    does not take what that one owes it, and the number of the last production with records of an atomic batch.
    """

    sent: Sent
    taken: Sent
    sources: dict[str, int]
    epoch: int
    pending: int
    batch: int
    kinds: dict[str, str]
    refused: dict[int, str]
    batches: Sent

    def data(self) -> list[Any]:
        """The same as plain data."""
        return [
            list(self.sent.items()),
            list(self.taken.items()),
            self.sources,
            self.epoch,
            self.pending,
            self.batch,
            self.kinds,
            list(self.refused.items()),
            list(self.batches.items()),
        ]

    @classmethod
    def of_data(cls, data: list[Any]) -> MemberStatus:
        """The standing that this is the data of."""
        sent, taken, *rest, refused, batches = data
        sources, epoch, stored, batch, kinds = rest
        return cls(
            dict(map(tuple, sent)),
            dict(map(tuple, taken)),
            sources,
            epoch,
            stored,
            batch,
            kinds,
            dict(map(tuple, refused)),
            dict(map(tuple, batches)),
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The numbers of productions at one partition, each by the other partition.

    `batches` are the last ones that it owes with records of a batch, `taken` the last ones that it took. `refused` says
    why it can't take what it is owed.
    """

    batches: Sent
    taken: Sent
    refused: dict[int, str]

    def data(self) -> list[Any]:
        """Make plain data of them."""
        return [list(own.items()) for own in (self.batches, self.taken, self.refused)]

    @classmethod
    def of_data(cls, data: list[Any]) -> Marks:
        """Make the marks that this is the data of."""
        batches, taken, refused = (dict(map(tuple, own)) for own in data)
        return cls(batches, taken, refused)


class PartitionEngine(Protocol):
    """The open store of one partition."""

    @property
    def core(self) -> Core:
        """The writer of the partition's store."""
        ...

    @property
    def lock(self) -> FairLock:
        """The lock before the writer."""
        ...

    def write_each(
        self, tables: Tables, sources: dict[str, Resume] | None, strict: bool, dry: Writes | None = None
    ) -> tuple[Counts, dict[int, Counts]]:
        """Commit these batches in one transaction; the counts of all, and of each by its identity."""
        ...

    def snapshot(self) -> Snapshot:
        """All views and tables of the partition at one position."""
        ...

    def compact(self) -> Compacted:
        """Give back the space of old versions."""
        ...

    def close(self) -> None:
        """Finish the work under way, and let go of the store."""
        ...


class Member:
    """One partition, by its open store."""

    def __init__(self, engine: PartitionEngine) -> None:
        parting = engine.core.parting
        if not isinstance(parting, PartitionExchange):
            raise PenstockError("this store is no partition of another one; open the store that is meant")
        self.engine = engine
        self.here = parting.here
        self.core = engine.core
        self._lock = engine.lock
        self._parting = parting

    @property
    def others(self) -> Sequence[int]:
        """The partitions that it may owe something."""
        return self._parting.others

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """One transaction of records that it owns, and the offsets after them; one with this number once only.

        The answer has the counts of each batch. What is in already counts as equal. `kinds` are those of the ts of
        tables, which are the same everywhere. The records of an atomic batch that `others` own are saved in the same
        transaction, and sent to them.
        """
        parting = self._parting
        with parting.turn:
            early = {} if strict or others else self._early(tables, number, kinds)
            records = {other: records_part(own, kinds) for other, own in (others or {}).items()}
            try:
                by = parting.tell(early) if early else ()
                with self._lock:
                    self._learn(kinds)
                    if number <= self.core.state.batch:
                        return [Counts(equal=part.size) for parts in tables.values() for part in parts]
                    with parting.taking(number, early, by, records):
                        counts, each = self.engine.write_each(tables, dict(sources) or None, strict)
            finally:
                told = [other for other in early if other not in parting.unheard]
                parting.heard.update(dict.fromkeys(told, number))
                if self.core.state.batch < number:  # it is not stored, and never will be
                    parting.unheard.update(dict.fromkeys(told, self.core.state.batch))
                if told:
                    parting.wake()
        if strict and counts.rejected:
            raise BatchRejected(0, counts.rejections)
        return [each[id(part)] for parts in tables.values() for part in parts]

    def _early(self, tables: Tables, number: int, kinds: Mapping[str, str]) -> dict[int, EarlySet]:
        """What others are told of a batch before it is saved: of one that is small, and not in yet."""
        if not self.core.state.early or sum(part.size for parts in tables.values() for part in parts) > MOST_EARLY:
            return {}
        with self._lock:
            self._learn(kinds)
            if number <= self.core.state.batch or not any(view.early for view in self.core.views.values()):
                return {}
            asked = Writes(planning=True)
            self.engine.write_each(tables, None, False, dry=asked)
            early = self._parting.early(asked.leaving, self.core.state, number)
        for other in early:
            if other not in self._parting.unheard:
                self._parting.heard.pop(other, None)  # the next early set says whether that batch is saved
        return early

    @property
    def unheard(self) -> Collection[int]:
        """The partitions that have to hear which batch is in before anything else."""
        return self._parting.unheard

    def sends_early(self, tell: Callable[[Mapping[int, EarlySet]], Collection[int]]) -> None:
        """This carries what others are told early."""
        self._parting.tell = tell

    def urgent(self, other: int) -> bool:
        """Whether another one is to hear the news now: before anything else, or since somebody waits for that."""
        return other in self._parting.unheard or other in self._parting.asked

    def news(self, other: int) -> EarlySet | None:
        """What another one is to hear before anything else: which batch is in, of those that it was told early."""
        parting, state = self._parting, self.core.state
        batch = parting.heard.get(other)
        saved = parting.unheard.get(other)
        if saved is not None:
            return EarlySet(self.here, state.epoch, max(batch or 0, saved), saved, [])
        return None if batch is None else EarlySet(self.here, state.epoch, max(batch, state.batch), state.batch, [])

    def knows(self, other: int, early: EarlySet) -> None:
        """Another one has heard that."""
        parting = self._parting
        parting.asked.discard(other)
        if parting.heard.get(other, early.batch) <= early.batch:
            parting.heard.pop(other, None)
            if parting.unheard.get(other) == early.saved:
                del parting.unheard[other]

    def hear(self, early: EarlySet) -> None:
        """Take what another one tells early."""
        self._unless_refused(early.sender, lambda: take_early_set(self.core, early))

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        with self._lock:
            self._learn(kinds)
            return self.engine.write_each(tables, None, True, dry=Writes())[0]

    def _learn(self, kinds: Mapping[str, str]) -> None:
        self.core.ready()
        for name, kind in kinds.items():
            self.core.tables[name].ts_kind = kind

    def receive(self, production: Production) -> int:
        """Take what another one sent; the number up to which all that it sent is durable here."""
        return self._unless_refused(production.sender, lambda: receive(self.core, production))

    def _unless_refused(self, sender: int, take: Callable[[], _T]) -> _T:
        """Take what another one said; where that can't be, it is remembered why."""
        refused = self._parting.refused
        with self._lock:
            try:
                out = take()
            except PenstockError as error:
                refused[sender] = str(error)
                raise
            refused.pop(sender, None)
            return out

    def owed(self, other: int) -> Production | None:
        """What another one is owed and has not said to have."""
        number = self._parting.arrived.get(other, 0)
        if other in self._parting.unheard:
            return None
        if self.core.state.sent.get(other, 0) <= number:
            return None
        with self.core.store.read() as reader:
            found = owed_after(reader, other, number, MOST)
        return Production(self.here, self.core.state.epoch, found) if found else None

    def arrived(self, other: int, number: int) -> None:
        """Another one has all up to this number."""
        arrived = self._parting.arrived
        arrived[other] = max(number, arrived.get(other, 0))

    def clear(self) -> None:
        """Delete what has arrived."""
        with self._lock:
            clear(self.core)

    def standing(self) -> MemberStatus:
        """How far it is; what has arrived is deleted first."""
        self._parting.asked = set(self.others)
        self._parting.wake()
        with self._lock:
            clear(self.core)
            state = self.core.state
            taken = {other: number for other, (_, number) in state.taken.items()}
            with self.core.store.read() as reader:
                stored = in_flight(reader) + sum(self.news(other) is not None for other in self.others)
        sources, kinds = dict(state.sources), dict(state.ts)
        refused, batches = dict(self._parting.refused), dict(state.batches)
        return MemberStatus(dict(state.sent), taken, sources, state.epoch, stored, state.batch, kinds, refused, batches)

    def marks(self) -> Marks:
        """The numbers of productions as they are now."""
        state, refused = self.core.state, dict(self._parting.refused)
        return Marks(dict(state.batches), {other: number for other, (_, number) in state.taken.items()}, refused)

    def note(self, source: str) -> bytes:
        """What the spout of a source noted with its last batch."""
        with self.core.store.read() as reader:
            return read_spout_state(reader, source)

    def compact(self) -> dict[str, Any]:
        """Give back what old versions take."""
        return self.engine.compact().data()

    def repair(self, do: str, *what: Any) -> Any:
        """A step of a repair: between "note" and "noted" what changes here is gathered."""
        noted = self._parting.noted
        if do == "noted":
            self._parting.noted = None
            return repaired_data(changes_of(self.core, noted or []))
        if do == "note":
            self._parting.noted = []
            return None
        steps = RepairSteps(self.core, self._lock, [] if noted is None else noted, self._foreign)
        return take_step(steps, do, *what)

    def _foreign(self, table: str, records: TableBatch) -> Mapping[int, int]:
        return Router(self.core.app, self._parting.ranges).foreign(table, records, self.here)

    def swept(self, limit: int | None, switch: Switch | None = None) -> BuildProgress:
        """One step of building views, of about so many documents, or of the switch; with neither a look."""
        with self._lock:
            return take_build_step(self.core, limit, switch)

    def close(self) -> None:
        """Let go of the partition."""
        self.engine.close()
