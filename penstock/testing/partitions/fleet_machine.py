"""Where a simulated store of several partitions stands: their disks, who has them open, and what of it is in.

A partition that is killed begins anew in its next epoch, and what it was given then is given to it again, as its
supervisor does; or all end at once, and sources go on from where the least partition stands. Invariant: the oracle has
the records of every commit of a partition, in the order of these, and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from penstock.cache import MemoryStore, StoreFull, encode_key
from penstock.engine import (
    Catalog,
    Concert,
    Core,
    Member,
    MemberStanding,
    Parted,
    Parting,
    PartitionHandle,
    SavedBatches,
    Settings,
    complete_switches,
    concerted,
    layout_of,
    open_partition,
    read_catalog,
)
from penstock.mapreduce import Ranges, even_starts
from penstock.recovery import Early
from penstock.spout import Record
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.partitions.fleet_plan import FleetPlan
from penstock.testing.partitions.simulated_handle import SimulatedHandle
from penstock.testing.simulator.checks import HASH_SEED, Finding, Wrong
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.faults import Crash, Fault, Points
from penstock.testing.simulator.publisher import Downstream, Pub
from penstock.views import App, Changed

_MEMORY = 256 << 20
_T = TypeVar("_T")


class Ended(Exception):
    """Who serves the partitions is killed: whatever it was at does not go on."""


@dataclass(slots=True)
class Flying:
    """Records on their way to their owners."""

    records: Sequence[Record]
    source: str | None
    resume: int = 0
    number: int = 0
    landed: set[int] = field(default_factory=set)
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """Records of an atomic batch that one partition saved, and another one takes with a production of this number."""

    sender: int
    to: int
    number: int
    records: Sequence[Record]


class _Served(Parted):
    """What serves the partitions: the wire of a fleet carries, and nobody switches while a snapshot waits."""

    looks = 0

    def __init__(
        self, fleet: FleetStanding, cores: list[Core], seats: Sequence[PartitionHandle], changed: Sequence[Changed]
    ) -> None:
        self._fleet = fleet
        super().__init__(fleet.app, fleet.layout, cores, seats, lambda: None, None, None, changed=changed)
        self._saved = SavedBatches(seats, [seat.standing() for seat in seats], fleet.traffic)

    def carry(self) -> list[str]:
        """All that is owed arrives."""
        self._fleet.carried()
        return []


class FleetStanding(ABC):
    """What is there, who has it open, and what is known of it."""

    concert: Concert | None  # which views all partitions build, where the app is another one

    def __init__(self, app: App, plan: FleetPlan) -> None:
        self.app = app
        self.apps = (app, *plan.others)
        self.ranges = Ranges(even_starts(plan.partitions), HASH_SEED)
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
        self._flying: Flying | None = None
        self._given: set[tuple[str, int | None]] = set()  # records of sources that are in
        self.tokens: set[int] = set()  # of all records that are in, where they have some
        self.saved: list[Saved] = []  # of atomic batches that are in
        self._sources: list[dict[str, int]] = [{} for _ in self.disks]  # what each partition's owner was told is in
        self.members: list[Member] = []
        self._begin()

    @abstractmethod
    def carried(self) -> None:
        """All that partitions owe each other has arrived."""

    @abstractmethod
    def traffic(self) -> None:
        """The wire carries for a while."""

    @abstractmethod
    def told_early(self, here: int) -> Callable[[Mapping[int, Early]], Collection[int]]:
        """How one of them tells others early."""

    # -- processes

    def _begin(self) -> None:
        self._over = False
        changed = self.agree()
        self.members = [self.member(i) for i in range(len(self.disks))]
        self.pubs = [Pub(disk.open(), self.downstream, self.points) for disk in self.pub_disks]
        cores = [member.core for member in self.members]
        seats = [SimulatedHandle(self, i) for i in range(len(self.disks))]
        self.engine = _Served(self, cores, seats, changed)

    def agree(self) -> Sequence[Changed]:
        """Find out which views all partitions build for the app, and why."""
        complete_switches([disk.rows for disk in self.disks], feed=True)
        self.concert, changed = concerted(self.app, [_catalog(disk.rows) for disk in self.disks])
        return changed

    def turn(self, app: int) -> None:
        """The app is this one of those that there are from now on."""
        self.app = self.apps[app % len(self.apps)]

    def member(self, i: int) -> Member:
        """Open a partition, whatever strikes meanwhile."""
        while True:
            try:
                settings = Settings(_MEMORY, self._limits)
                store, parting = self.disks[i].open(), Parting(i, self.ranges)
                engine = open_partition(self.app, store, parting, None, None, settings, None, self.concert)
            except Crash as crash:
                self._killed(i, crash.fault)
                continue
            except StoreFull:
                continue  # who looks after it tries again
            epoch = engine.core.state.epoch
            if epoch <= self.epochs[i]:
                raise Wrong([Finding("epoch", f"partition {i}", f"{epoch} after {self.epochs[i]}")])
            self.epochs[i] = epoch
            member = Member(engine)
            member.tells(self.told_early(i))
            return member

    def _killed(self, i: int, fault: Fault) -> None:
        self.faults += 1
        for disk in (self.disks[i], self.pub_disks[i]):
            if fault is Fault.POWER:
                disk.lose_power(self._choose)
            else:
                disk.end_process()

    def follow(self, i: int, fault: Fault = Fault.CRASH) -> None:
        """A partition's process is gone, and another one takes its place; or all end."""
        self._killed(i, fault)
        self.members[i] = self.member(i)
        self.pubs[i] = Pub(self.pub_disks[i].open(), self.downstream, self.points)
        self.engine._cores[i] = self.members[i].core
        self._landed_if(i)
        if self._ends:
            self._over = True
            raise Ended

    def still_there(self) -> None:
        """What a process was at ends with it, whatever it would tidy up."""
        if self._over:
            raise Ended

    def done(self, i: int, work: Callable[[Member], _T]) -> _T:
        """Have a partition do it, once more by the next owner where one ends at it."""
        while True:
            self.still_there()
            member = self.members[i]
            try:
                return work(member)
            except Crash as crash:
                if member is self.members[i]:  # while it waited, it may have been followed
                    self.follow(i, crash.fault)

    def end(self) -> None:
        """Who serves the partitions is killed, and they end with it."""
        for i in range(len(self.disks)):
            self._killed(i, Fault.CRASH)
        self._flying = None

    def restart(self) -> None:
        """All end, and begin anew."""
        self.end()
        self.oracle.turn(self.app)
        self._begin()

    # -- what is in

    def owner(self, record: Record) -> int:
        """The partition that a record goes to."""
        table = self.oracle.tables[record.table]
        key = table.key_of(record)
        return 0 if key is None else self.ranges.of(encode_key(key))

    def give(self, i: int, number: int) -> None:
        """A batch with this number is given to a partition."""
        if self._flying is not None:
            self._flying.number = number
        if any(saved.to == i for saved in self.saved):
            text = "is given a batch before its records of a saved one"
            raise Wrong([Finding("order", f"partition {i}", text)])

    def landed(self, i: int) -> None:
        """A partition has its part of what is on its way."""
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
        """A partition has committed these records."""
        self.oracle.take(records)
        docs = [record.doc for record in records if isinstance(record.doc, dict)]
        self.tokens |= {doc["token"] for doc in docs if "token" in doc}

    def _save(self, i: int, flying: Flying) -> None:
        """A partition has its part of an atomic batch: the others are to take theirs."""
        numbers = self.members[i].core.state.batches
        flying.atomic = False
        for other in {self.owner(record) for record in flying.records} - {i}:
            records = [record for record in flying.records if self.owner(record) == other]
            self.saved.append(Saved(i, other, numbers.get(other, 0), records))
            flying.landed.add(other)

    def took(self, i: int) -> None:
        """A partition may have taken its records of atomic batches."""
        taken = self.members[i].core.state.taken
        for saved in [own for own in self.saved if own.to == i]:
            if taken.get(saved.sender, (0, 0))[1] >= saved.number:
                self.saved.remove(saved)
                self._in(saved.records)

    def _landed_if(self, i: int) -> None:
        """It was in when the process was killed, or not."""
        self.took(i)
        flying = self._flying
        state = self.members[i].core.state
        if flying is not None and flying.number and state.batch >= flying.number:
            self.landed(i)
        for source, offset in self._sources[i].items():
            if state.sources.get(source, 0) < offset:
                text = f"partition {i} stands at {state.sources.get(source, 0)}, and {offset} was acknowledged"
                raise Wrong([Finding("lost", f"source {source!r}", text)])

    def standing(self, i: int) -> MemberStanding:
        """How far a partition is."""
        return self.done(i, Member.standing)


def _catalog(rows: MemoryStore) -> Catalog | None:
    with rows.read() as reader:
        return read_catalog(reader, "memory")
