"""The state of a simulated partitioned store: its disks, its processes, and the records that are stored.

A killed partition starts again in its next epoch, and gets its current batch again, as from its supervisor. Or all
processes end together. Then sources resume at the partition with the lowest offset. Invariant: the oracle has exactly
the records of each partition's commits, in the order of these commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from penstock.cache import MemoryStore, StoreFull, encode_key
from penstock.engine import (
    AtomicBatches,
    Catalog,
    Core,
    Engine,
    GenerationNumbers,
    Member,
    MemberStatus,
    PartitionedStore,
    PartitionExchange,
    PartitionHandle,
    Settings,
    agree_numbers,
    complete_switches,
    layout_of,
    open_partition,
    read_catalog,
)
from penstock.mapreduce import KeyRanges, even_starts
from penstock.recovery import EarlySet
from penstock.spout import Record
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.partitions.partitioned_plan import PartitionedPlan
from penstock.testing.partitions.simulated_handle import SimulatedHandle
from penstock.testing.simulator.checks import HASH_SEED, Finding, Wrong
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.faults import Crash, Fault, Points
from penstock.testing.simulator.publisher import Downstream, Pub
from penstock.views import App, Changed

_MEMORY = 256 << 20
_T = TypeVar("_T")


class Ended(Exception):
    """The process that serves the partitions was killed. Its current call ends."""


@dataclass(slots=True)
class RoutedRecords:
    """Records on their way to their owners."""

    records: Sequence[Record]
    source: str | None
    resume: int = 0
    number: int = 0
    landed: set[int] = field(default_factory=set)
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """Records of an atomic batch saved by one partition. Another one takes them with the production of this number."""

    sender: int
    to: int
    number: int
    records: Sequence[Record]


class _Served(PartitionedStore):
    """The store over the partitions. Its messages travel on the simulated wire."""

    def __init__(
        self,
        world: PartitionedMachine,
        cores: list[Core],
        handles: Sequence[PartitionHandle],
        changed: Sequence[Changed],
    ) -> None:
        self._world = world
        super().__init__(world.app, world.layout, cores, handles, lambda: None, None, None, changed)
        self.reading.looks = 0
        self.writing.saved = AtomicBatches(handles, [handle.standing() for handle in handles], world.traffic)

    def carry(self) -> list[str]:
        """Deliver everything that is owed."""
        self._world.carried()
        return []


class PartitionedMachine(ABC):
    """The state of a simulated partitioned store, and the state to expect."""

    generation_numbers: GenerationNumbers | None  # the views that all partitions build if the app changed

    def __init__(self, app: App, plan: PartitionedPlan) -> None:
        self.app = app
        self.apps = (app, *plan.others)
        self.ranges = KeyRanges(even_starts(plan.partitions), HASH_SEED)
        self.layout = layout_of(app.name, HASH_SEED, self.ranges.starts, 0)
        self.points = Points()
        self.disks = [Disk(self.points, f"{i} ") for i in range(plan.partitions)]
        self.pub_disks = [Disk(self.points, f"pub {i} ") for i in range(plan.partitions)]
        self.downstream = Downstream()
        self.oracle = Oracle(app)
        self.faults = 0
        self.epochs = [0] * plan.partitions
        self._limits = plan.limits
        self._choose = Random(plan.seed)
        self._ends = self._over = False
        self._flying: RoutedRecords | None = None
        self._given: set[tuple[str, int | None]] = set()  # stored records of sources
        self.tokens: set[int] = set()  # the tokens of all stored records, if they have some
        self.saved: list[Saved] = []  # records of saved atomic batches that are still to be taken
        self._sources: list[dict[str, int]] = [{} for _ in self.disks]  # by partition, the offsets that it acknowledged
        self.members: list[Member] = []
        self._begin()

    @abstractmethod
    def carried(self) -> None:
        """Deliver everything that partitions owe each other."""

    @abstractmethod
    def traffic(self) -> None:
        """Let the wire deliver some messages."""

    @abstractmethod
    def early_sender(self, partition: int) -> Callable[[Mapping[int, EarlySet]], Collection[int]]:
        """Return the function by which a partition sends its early sets."""

    # -- processes

    def _begin(self) -> None:
        self._over = False
        changed = self.agree()
        self.members = [self.member(i) for i in range(len(self.disks))]
        self.pubs = [Pub(disk.open(), self.downstream, self.points) for disk in self.pub_disks]
        cores = [member.core for member in self.members]
        handles = [SimulatedHandle(self, i) for i in range(len(self.disks))]
        self.store = _Served(self, cores, handles, changed)
        self.engine = Engine(self.store)

    def agree(self) -> Sequence[Changed]:
        """Find the views that all partitions build for the app. Return the changed views."""
        complete_switches([disk.rows for disk in self.disks], feed=True)
        self.generation_numbers, changed = agree_numbers(self.app, [_catalog(disk.rows) for disk in self.disks])
        return changed

    def turn(self, app: int) -> None:
        """Switch to the app of this number."""
        self.app = self.apps[app % len(self.apps)]

    def member(self, i: int) -> Member:
        """Open a partition. If a fault strikes meanwhile, try again."""
        while True:
            try:
                settings = Settings(_MEMORY, self._limits)
                store, exchange = self.disks[i].open(), PartitionExchange(i, self.ranges)
                opened = open_partition(self.app, store, exchange, None, None, settings, self.generation_numbers)
            except Crash as crash:
                self._killed(i, crash.fault)
                continue
            except StoreFull:
                continue  # the supervisor tries again
            epoch = opened.core.state.epoch
            if epoch <= self.epochs[i]:
                raise Wrong([Finding("epoch", f"partition {i}", f"{epoch} after {self.epochs[i]}")])
            self.epochs[i] = epoch
            member = Member(opened)
            member.sends_early(self.early_sender(i))
            return member

    def _killed(self, i: int, fault: Fault) -> None:
        self.faults += 1
        for disk in (self.disks[i], self.pub_disks[i]):
            if fault is Fault.POWER:
                disk.lose_power(self._choose)
            else:
                disk.end_process()

    def follow(self, i: int, fault: Fault = Fault.CRASH) -> None:
        """Kill a partition's process and start its replacement. If `_ends` is set, the serving process ends too."""
        self._killed(i, fault)
        self.members[i] = self.member(i)
        self.pubs[i] = Pub(self.pub_disks[i].open(), self.downstream, self.points)
        self.store.reading.cores[i] = self.members[i].core
        self._landed_if(i)
        if self._ends:
            self._over = True
            raise Ended

    def check_alive(self) -> None:
        """Raise `Ended` if the serving process was killed, so that its call ends without cleaning up."""
        if self._over:
            raise Ended

    def done(self, i: int, work: Callable[[Member], _T]) -> _T:
        """Have a partition do some work. If it crashes, its replacement does the work again."""
        while True:
            self.check_alive()
            member = self.members[i]
            try:
                return work(member)
            except Crash as crash:
                if member is self.members[i]:  # it may have been replaced while it waited
                    self.follow(i, crash.fault)

    def end(self) -> None:
        """Kill the serving process, and the partitions with it."""
        for i in range(len(self.disks)):
            self._killed(i, Fault.CRASH)
        self._flying = None

    def restart(self) -> None:
        """End all processes, and start them again."""
        self.end()
        self.oracle.turn(self.app)
        self._begin()

    # -- what is in

    def owner(self, record: Record) -> int:
        """Return the partition that owns a record."""
        table = self.oracle.tables[record.table]
        key = table.key_of(record)
        return 0 if key is None else self.ranges.of(encode_key(key))

    def give(self, i: int, number: int) -> None:
        """Record that a partition is given a batch of this number, and check that it took earlier saved batches."""
        if self._flying is not None:
            self._flying.number = number
        if any(saved.to == i for saved in self.saved):
            self.took(i)  # a full disk may fail a message after the commit that takes its records
        if any(saved.to == i for saved in self.saved):
            text = "is given a batch before its records of a saved one"
            raise Wrong([Finding("order", f"partition {i}", text)])

    def landed(self, i: int) -> None:
        """Record that a partition stored its records of the batch in flight."""
        flying = self._flying
        if flying is None or i in flying.landed:
            return
        flying.landed.add(i)
        if flying.atomic:
            self._save(i, flying)
        records = [record for record in flying.records if self.owner(record) == i]
        if flying.source is not None:
            done = self._sources[i].get(flying.source, 0)
            records = [record for record in records if record.offset is None or record.offset >= done]
            self._sources[i][flying.source] = max(done, flying.resume)
            self._given |= {(flying.source, record.offset) for record in records}
        self._in(records)

    def _in(self, records: Sequence[Record]) -> None:
        """Record that a partition committed these records."""
        self.oracle.take(records)
        docs = [record.doc for record in records if isinstance(record.doc, dict)]
        self.tokens |= {doc["token"] for doc in docs if "token" in doc}

    def _save(self, i: int, flying: RoutedRecords) -> None:
        """Record that a partition saved an atomic batch, and that other partitions are to take their records."""
        numbers = self.members[i].core.state.batches
        flying.atomic = False
        for other in {self.owner(record) for record in flying.records} - {i}:
            records = [record for record in flying.records if self.owner(record) == other]
            self.saved.append(Saved(i, other, numbers.get(other, 0), records))
            flying.landed.add(other)

    def took(self, i: int) -> None:
        """Record which saved records a partition has taken."""
        taken = self.members[i].core.state.taken
        for saved in [own for own in self.saved if own.to == i]:
            if 0 < saved.number <= taken.get(saved.sender, (0, 0))[1]:
                self.saved.remove(saved)
                self._in(saved.records)

    def _landed_if(self, i: int) -> None:
        """Find out whether the batch in flight was stored when the process ended."""
        self.took(i)
        flying = self._flying
        state = self.members[i].core.state
        if flying is not None and flying.number and state.batch >= flying.number:
            self.landed(i)
        for source, offset in self._sources[i].items():
            if state.sources.get(source, 0) < offset:
                text = f"partition {i} stands at {state.sources.get(source, 0)}, and {offset} was acknowledged"
                raise Wrong([Finding("lost", f"source {source!r}", text)])

    def standing(self, i: int) -> MemberStatus:
        """Return the progress of a partition."""
        return self.done(i, Member.standing)


def _catalog(rows: MemoryStore) -> Catalog | None:
    with rows.read() as reader:
        return read_catalog(reader, "memory")
