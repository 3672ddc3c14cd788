"""A simulated store of several partitions: the real members, and who serves them, over simulated disks and a wire that
loses, repeats, delays and reorders; and what must hold of it.

The wire knows whole messages: what one partition owes another, in an epoch of its own, and the answer to that. One of
a process that is gone may still arrive. A partition that is killed begins anew in its next epoch, and what it was given
then is given to it again, as its supervisor does; or all end at once, and sources go on from where the least partition
stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from penstock.cache import BatchRejected, StoreFull, encode_key
from penstock.engine import (
    Concert,
    Member,
    MemberStanding,
    Parted,
    Parting,
    Settings,
    guard_of,
    layout_of,
    open_partition,
)
from penstock.mapreduce import Ranges, even_starts
from penstock.recovery import OldEpoch
from penstock.spout import Record
from penstock.testing.checks import HASH_SEED, Finding, Wrong, demand, differences
from penstock.testing.client import calls_of, is_list, put_by
from penstock.testing.disk import Disk
from penstock.testing.faults import Crash, Fault, Points
from penstock.testing.fleetchecks import AtRest
from penstock.testing.fleetplan import FleetPlan, FleetStep
from penstock.testing.fleetseat import FleetSeat
from penstock.testing.fleetwire import EarlyWire, Packet
from penstock.testing.oracle import Oracle
from penstock.testing.plan import How
from penstock.testing.pub import Downstream, Pub
from penstock.testing.standing import source_name
from penstock.views import App

_MEMORY = 256 << 20
_POLLS = 4
_ROUNDS = 60  # of carrying all that is owed; views stand on each other in fewer


class _Ended(Exception):
    """Who serves the partitions is killed."""


@dataclass(slots=True)
class _Flying:
    """Records on their way to their owners."""

    records: Sequence[Record]
    source: str | None
    resume: int = 0
    number: int = 0
    landed: set[int] = field(default_factory=set)


class Fleet:
    """All of it, and what can be done to it."""

    concert: Concert | None = None  # which views all partitions build, where the app is another one

    def __init__(self, app: App, plan: FleetPlan) -> None:
        self.app = app
        self.ranges = Ranges(even_starts(plan.partitions), HASH_SEED)
        self.layout = layout_of(app.name, HASH_SEED, self.ranges.starts, 0)
        self.points = Points()
        self.disks = [Disk(self.points, f"{i} ") for i in range(plan.partitions)]
        self.pub_disks = [Disk(self.points, f"pub {i} ") for i in range(plan.partitions)]
        self.downstream = Downstream()
        self.oracle = Oracle(app)
        self.logs = plan.sources
        self.wire: list[Packet] = []
        self.faults = self.refused = 0  # refused: what zombies said
        self.heard: dict[tuple[int, int], int] = {}  # by sender and receiver the epoch that was heard of
        self.epochs = [0] * plan.partitions
        self.early = EarlyWire(self, plan.seed)
        self._limits = plan.limits
        self._choose = Random(plan.seed)
        self._ends = False
        self._flying: _Flying | None = None
        self._given: set[tuple[str, int | None]] = set()  # records of sources that are in
        self._sources: list[dict[str, int]] = [{} for _ in self.disks]  # what each partition's owner was told is in
        self.members: list[Member] = []
        self._begin()

    # -- processes

    def _begin(self) -> None:
        self.members = [self._member(i) for i in range(len(self.disks))]
        self.pubs = [Pub(disk.open(), self.downstream, self.points) for disk in self.pub_disks]
        cores = [member.core for member in self.members]
        seats = [FleetSeat(self, i) for i in range(len(self.disks))]
        self.engine = Parted(self.app, self.layout, cores, seats, lambda: None, None, None)  # the wire carries

    def _member(self, i: int) -> Member:
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
            epoch = engine._core.state.epoch
            if epoch <= self.epochs[i]:
                raise Wrong([Finding("epoch", f"partition {i}", f"{epoch} after {self.epochs[i]}")])
            self.epochs[i] = epoch
            member = Member(engine)
            member.tells(self.early.of(i))
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
        self.members[i] = self._member(i)
        self.pubs[i] = Pub(self.pub_disks[i].open(), self.downstream, self.points)
        self.engine._cores[i] = self.members[i].core
        self._landed_if(i)
        if self._ends:
            raise _Ended

    def restart(self) -> None:
        """Who serves the partitions is killed, and they end with it."""
        for i in range(len(self.disks)):
            self._killed(i, Fault.CRASH)
        self._flying = None
        self._begin()

    # -- what is done

    def do(self, step: FleetStep) -> None:
        """One step, whatever strikes meanwhile."""
        deeds: dict[str, Callable[[FleetStep], None]] = {
            "deliver": self._deliver,
            "write": self._write,
            "send": lambda s: self.send(s.a % len(self.members), s.b % len(self.members)),
            "arrive": self._arrive,
            "drop": self._drop,
            "crash": lambda s: self.follow(s.a % len(self.members)),
            "restart": lambda s: self.restart(),
            "forget": self._forget,
            "poll": lambda s: self._poll(s.a % len(self.members)),
            "settle": lambda s: self.settle(),
        }
        if step.strike is not None:
            self.points.arm(step.strike)
        self._ends = step.ends
        self.early.faulty = True
        self._survives(lambda: deeds[step.kind](step))

    def _survives(self, act: Callable[[], None]) -> None:
        try:
            act()
        except _Ended:
            self.restart()
        except Wrong:
            raise
        except Exception as error:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error
        finally:
            self.points.arm(None)
            self._ends = self.early.faulty = False

    def _deliver(self, step: FleetStep) -> None:
        at = step.a % len(self.logs)
        self.deliver(at, step.b % 6, step.c % 4)

    def deliver(self, at: int, n: int, back: int = 0) -> None:
        """A source hands over its next n records, from `back` before them on."""
        log, name = self.logs[at], source_name(at)
        done = self.engine.remembered(name)
        offset = 0 if done is None else done.offset
        start, end = max(0, offset - back), min(len(log), offset + n)
        self._flying = _Flying(log[start:end], name, end)
        with suppress(StoreFull):
            self.engine.ingest(log[start:end], name, end)
        self._flying = None

    def _write(self, step: FleetStep) -> None:
        for part in calls_of(step.how, step.records):
            strict = step.how is How.STRICT and is_list(part)
            refused = strict and any(self.oracle.tables[r.table].refuses(r) for r in part)
            self._flying = None if refused else _Flying(part, None)
            try:
                put_by(self.engine, step.how, part)
            except BatchRejected:
                if not refused:
                    raise
            except StoreFull:
                pass  # what its partitions took of it is in
            else:
                if refused:
                    raise Wrong([Finding("strict", "store", f"took a batch with a record that it must reject: {part}")])
            self._flying = None

    def send(self, sender: int, to: int) -> None:
        """What one owes another is put on the wire."""
        if sender == to:
            return
        news = self.members[sender].news(to)
        if news is not None:
            self.wire.append(Packet(sender, to, early=news))
        owed = self.members[sender].owed(to)
        if owed is not None:
            self.wire.append(Packet(sender, to, owed))

    def _drop(self, step: FleetStep) -> None:
        self._off_wire(step.a)

    def _off_wire(self, at: int) -> Packet | None:
        return self.wire.pop(at % len(self.wire)) if self.wire else None

    def _arrive(self, step: FleetStep) -> None:
        packet = self._off_wire(step.a)
        if packet is None:
            return
        if step.c % 3 == 0:
            self.wire.append(packet)
        self.arrive(packet)

    def arrive(self, packet: Packet) -> None:
        """It is there."""
        member = self.members[packet.to]
        said = packet.owed or packet.early
        if packet.heard is not None:
            self.early.answered(packet)
            return
        if said is None:
            member.arrived(packet.sender, packet.number)
            return
        way = packet.sender, packet.to
        old = said.epoch < self.heard.get(way, 0)
        try:
            answer = self._taken(member, packet)
        except OldEpoch:
            if not old:
                raise
            self.refused += 1
            return
        except StoreFull:
            return  # who sent it hears of an error, and sends it again
        except Crash as crash:
            try:
                self.follow(packet.to, crash.fault)
            finally:
                self._hears(way)  # it may be in all the same
            return
        if old:
            text = f"took what partition {packet.sender} said in epoch {said.epoch}, after {self.heard[way]}"
            raise Wrong([Finding("zombie", f"partition {packet.to}", text)])
        self._hears(way)
        self.wire.append(answer)

    def _hears(self, way: tuple[int, int]) -> None:
        """Which epoch of a sender was heard of."""
        sender, to = way
        self.heard[way] = guard_of(self.members[to].core.state, sender)[0]

    @staticmethod
    def _taken(member: Member, packet: Packet) -> Packet:
        """What is said is taken; the answer."""
        if packet.early is not None:
            member.hear(packet.early)
            return Packet(packet.to, packet.sender, heard=packet.early)
        assert packet.owed is not None, "it says something"
        return Packet(packet.to, packet.sender, number=member.receive(packet.owed))

    def _forget(self, step: FleetStep) -> None:
        for node in self.members[step.a % len(self.members)].core.tables.values():
            node.forget()

    def _poll(self, i: int) -> None:
        try:
            with self.members[i].engine.snapshot() as snap:
                self.pubs[i].poll(snap, snap.schema.views)
        except Crash as crash:
            self.follow(i, crash.fault)

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

    def landed(self, i: int) -> None:
        """A partition has its part of what is on its way."""
        flying = self._flying
        if flying is None or i in flying.landed:
            return
        flying.landed.add(i)
        records = [record for record in flying.records if self.owner(record) == i]
        if flying.source is not None:
            done = self._sources[i].get(flying.source, 0)
            records = [record for record in records if record.offset is None or record.offset >= done]
            self._sources[i][flying.source] = max(done, flying.resume)
            self._given |= {(flying.source, record.offset) for record in records}
        self.oracle.take(records)

    def _landed_if(self, i: int) -> None:
        """It was in when the process was killed, or not."""
        flying = self._flying
        state = self.members[i].core.state
        if flying is not None and flying.number and state.batch >= flying.number:
            self.landed(i)
        for source, offset in self._sources[i].items():
            if state.sources.get(source, 0) < offset:
                text = f"partition {i} stands at {state.sources.get(source, 0)}, and {offset} was acknowledged"
                raise Wrong([Finding("lost", f"source {source!r}", text)])

    # -- what must hold

    def settle(self) -> None:
        """Carry all that is owed, and look: nothing pending, and views as the oracle has them."""
        self.carried()
        with self.engine.snapshot() as snap:
            demand(differences(snap, self.oracle))

    def carried(self) -> None:
        """All that partitions owe each other has arrived."""
        for _ in range(_ROUNDS):
            before = [member.core.state.sent for member in self.members]
            for sender in range(len(self.members)):
                for to in range(len(self.members)):
                    self.send(sender, to)
            while self.wire:
                self.arrive(self.wire.pop(0))
            standing = [self.standing(i) for i in range(len(self.members))]
            if not any(own.pending for own in standing) and before == [own.sent for own in standing]:
                return
        raise Wrong([Finding("progress", "store", "what partitions owe each other never arrives")])

    def standing(self, i: int) -> MemberStanding:
        while True:
            try:
                return self.members[i].standing()
            except Crash as crash:
                self.follow(i, crash.fault)

    def heal(self) -> None:
        """No fault from now on: all is delivered, carried and published, and then all must hold."""
        self._survives(self._heal)

    def _heal(self) -> None:
        for at, log in enumerate(self.logs):
            self.deliver(at, len(log))
            name = source_name(at)
            lost = [record.offset for record in log if (name, record.offset) not in self._given]
            if lost:
                raise Wrong([Finding("lost", f"source {name!r}", f"the records at {lost} are nowhere")])
        self.settle()
        for _ in range(_POLLS):
            for i in range(len(self.pubs)):
                self._poll(i)
        at_rest = AtRest(self.engine, self.members, self.pubs, self.downstream, self.oracle)
        demand(at_rest.findings())
