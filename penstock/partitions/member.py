"""A member: one partition at work, with the productions that it sends, applies and acknowledges.

A member works alike in a shared process, in its own process and in the simulator. Other modules deliver the
productions. Invariant: everything that a member reports as stored is durable.
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
from penstock.partitions.exchange.batch_production import records_part
from penstock.partitions.exchange.exchange import PartitionExchange, clear, receive, take_early_set
from penstock.partitions.record_router import Router
from penstock.recovery import EarlySet, Production, RepairSteps, Sent, changes_of, in_flight, owed_after, take_step
from penstock.remote import repaired_data
from penstock.views import Counts

_T = TypeVar("_T")
Tables = dict[str, list[Batch]]
MOST = 4 << 20
"""The approximate limit of one message of productions, in bytes."""
MOST_EARLY = 1000
"""The largest batch that sends early sets, in records: in a larger one, records wait longer than its save takes."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of a member.

    `sent` and `taken` number the last production saved for, and applied from, each partition. `pending` counts messages
    in flight. `batch` is the number of the last batch. `kinds` are the kinds of ts by table. `refused` says why a
    sender's productions can't be applied. `batches` number the last production with records of an atomic batch.
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
        """Return the status as plain data."""
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
        """Make the status from plain data."""
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

    `batches` number the last productions saved with records of an atomic batch, `taken` the last ones applied.
    `refused` says why the productions of a partition can't be applied.
    """

    batches: Sent
    taken: Sent
    refused: dict[int, str]

    def data(self) -> list[Any]:
        """Return the marks as plain data."""
        return [list(own.items()) for own in (self.batches, self.taken, self.refused)]

    @classmethod
    def of_data(cls, data: list[Any]) -> Marks:
        """Make the marks from plain data."""
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
        """Commit these batches in one transaction; return the counts of all, and of each by its identity."""
        ...

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the partition."""
        ...

    def compact(self) -> Compacted:
        """Reclaim the space of old versions."""
        ...

    def close(self) -> None:
        """Finish the running work, and close the store."""
        ...


class Member:
    """One partition at work on its open store."""

    def __init__(self, engine: PartitionEngine) -> None:
        exchange = engine.core.exchange
        if not isinstance(exchange, PartitionExchange):
            raise PenstockError("this store is no partition of another one; open the store that is meant")
        self.engine = engine
        self.partition = exchange.partition
        self.core = engine.core
        self._lock = engine.lock
        self._exchange = exchange

    @property
    def others(self) -> Sequence[int]:
        """The partitions to which it may send productions."""
        return self._exchange.others

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """Commit records of this partition and the offsets after them, in one transaction and once per batch number.

        Return the counts of each batch. The records of a batch already stored count as equal. `kinds` are the kinds of
        ts by table, the same in all partitions. The transaction also saves the records of an atomic batch that the
        partitions in `others` own. They are sent afterwards.
        """
        exchange = self._exchange
        with exchange.turn:
            early = {} if strict or others else self._early(tables, number, kinds)
            records = {other: records_part(own, kinds) for other, own in (others or {}).items()}
            try:
                by = exchange.tell(early) if early else ()
                with self._lock:
                    self._add_kinds(kinds)
                    if number <= self.core.state.batch:
                        return [Counts(equal=part.size) for parts in tables.values() for part in parts]
                    with exchange.taking(number, early, by, records):
                        counts, each = self.engine.write_each(tables, dict(sources) or None, strict)
            finally:
                receivers = [other for other in early if other not in exchange.unheard]
                exchange.heard.update(dict.fromkeys(receivers, number))
                if self.core.state.batch < number:  # it is not stored, and never will be
                    exchange.unheard.update(dict.fromkeys(receivers, self.core.state.batch))
                if receivers:
                    exchange.wake()
        if strict and counts.rejected:
            raise BatchRejected(0, counts.rejections)
        return [each[id(part)] for parts in tables.values() for part in parts]

    def _early(self, tables: Tables, number: int, kinds: Mapping[str, str]) -> dict[int, EarlySet]:
        """Return the early sets of a batch by receiver; none for a large batch, or for one already stored."""
        if self._exchange.hands_out or not self.core.state.early:
            return {}
        if sum(part.size for parts in tables.values() for part in parts) > MOST_EARLY:
            return {}
        with self._lock:
            self._add_kinds(kinds)
            if number <= self.core.state.batch or not any(view.early for view in self.core.views.values()):
                return {}
            asked = Writes(planning=True)
            self.engine.write_each(tables, None, False, dry=asked)
            early = self._exchange.early(asked.leaving, self.core.state, number)
        for other in early:
            if other not in self._exchange.unheard:
                self._exchange.heard.pop(other, None)  # the next early set says whether that batch is saved
        return early

    @property
    def unheard(self) -> Collection[int]:
        """The partitions that must hear which batch is saved before anything else."""
        return self._exchange.unheard

    def sends_early(self, tell: Callable[[Mapping[int, EarlySet]], Collection[int]]) -> None:
        """Use `tell` to send early sets."""
        self._exchange.tell = tell

    def urgent(self, other: int) -> bool:
        """Return True if a partition must hear now which batch is saved: it comes first, or a caller waits for it."""
        return other in self._exchange.unheard or other in self._exchange.asked

    def news(self, other: int) -> EarlySet | None:
        """Return an early set without parts, which tells a partition which batch is saved; None if it needs none."""
        exchange, state = self._exchange, self.core.state
        batch = exchange.heard.get(other)
        saved = exchange.unheard.get(other)
        if saved is not None:
            return EarlySet(self.partition, state.epoch, max(batch or 0, saved), saved, [])
        return (
            None if batch is None else EarlySet(self.partition, state.epoch, max(batch, state.batch), state.batch, [])
        )

    def knows(self, other: int, early: EarlySet) -> None:
        """Note that a partition has received this message."""
        exchange = self._exchange
        exchange.asked.discard(other)
        if exchange.heard.get(other, early.batch) <= early.batch:
            exchange.heard.pop(other, None)
            if exchange.unheard.get(other) == early.saved:
                del exchange.unheard[other]

    def hear(self, early: EarlySet) -> None:
        """Apply an early set of another partition."""
        self._unless_refused(early.sender, lambda: take_early_set(self.core, early))

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> list[Counts]:
        """Return the counts that each batch would have, without storing its records."""
        with self._lock:
            self._add_kinds(kinds)
            each = self.engine.write_each(tables, None, True, dry=Writes())[1]
        return [each[id(part)] for parts in tables.values() for part in parts]

    def _add_kinds(self, kinds: Mapping[str, str]) -> None:
        self.core.ready()
        for name, kind in kinds.items():
            self.core.tables[name].ts_kind = kind

    def receive(self, production: Production) -> int:
        """Apply a production; return the number up to which all productions of its sender are durable here."""
        return self._unless_refused(production.sender, lambda: receive(self.core, production))

    def _unless_refused(self, sender: int, take: Callable[[], _T]) -> _T:
        """Apply a message of another partition; if that fails, remember why."""
        refused = self._exchange.refused
        with self._lock:
            try:
                out = take()
            except PenstockError as error:
                refused[sender] = str(error)
                raise
            refused.pop(sender, None)
            return out

    def owed(self, other: int) -> Production | None:
        """Return the next productions that a partition has not acknowledged; None if none can be sent now."""
        number = self._exchange.arrived.get(other, 0)
        if other in self._exchange.unheard:
            return None
        if self.core.state.sent.get(other, 0) <= number:
            return None
        with self.core.store.read() as reader:
            found = owed_after(reader, other, number, MOST)
        return Production(self.partition, self.core.state.epoch, found) if found else None

    def arrived(self, other: int, number: int) -> None:
        """Note that a partition has stored all productions up to this number."""
        arrived = self._exchange.arrived
        arrived[other] = max(number, arrived.get(other, 0))

    def clear(self) -> None:
        """Delete acknowledged productions."""
        with self._lock:
            clear(self.core)

    def standing(self) -> MemberStatus:
        """Delete acknowledged productions, and return the status of the partition."""
        self._exchange.asked = set(self.others)
        self._exchange.wake()
        with self._lock:
            clear(self.core)
            state = self.core.state
            taken = {other: number for other, (_, number) in state.taken.items()}
            with self.core.store.read() as reader:
                stored = in_flight(reader) + sum(self.news(other) is not None for other in self.others)
        sources, kinds = dict(state.sources), dict(state.ts)
        refused, batches = dict(self._exchange.refused), dict(state.batches)
        return MemberStatus(dict(state.sent), taken, sources, state.epoch, stored, state.batch, kinds, refused, batches)

    def marks(self) -> Marks:
        """Return the current numbers of productions."""
        state, refused = self.core.state, dict(self._exchange.refused)
        return Marks(dict(state.batches), {other: number for other, (_, number) in state.taken.items()}, refused)

    def spout_state(self, source: str) -> bytes:
        """Return the spout state of a source, as its last batch left it."""
        with self.core.store.read() as reader:
            return read_spout_state(reader, source)

    def compact(self) -> dict[str, Any]:
        """Reclaim the space of old versions."""
        return self.engine.compact().data()

    def repair(self, do: str, *what: Any) -> Any:
        """Perform a step of a repair; between "collect" and "collected", collect the changes made here."""
        repair_changes = self._exchange.repair_changes
        if do == "collected":
            self._exchange.repair_changes = None
            return repaired_data(changes_of(self.core, repair_changes or []))
        if do == "collect":
            self._exchange.repair_changes = []
            return None
        steps = RepairSteps(self.core, self._lock, [] if repair_changes is None else repair_changes, self._foreign)
        return take_step(steps, do, *what)

    def _foreign(self, table: str, records: TableBatch) -> Mapping[int, int]:
        return Router(self.core.app, self._exchange.ranges).foreign(table, records, self.partition)

    def build_step(self, limit: int | None, switch: Switch | None = None, of: str = "") -> BuildProgress:
        """Build about `limit` documents, or take a step of a switch; with neither, only return the progress."""
        with self._lock:
            return take_build_step(self.core, limit, switch, of)

    def close(self) -> None:
        """Close the partition."""
        self.engine.close()
