"""A simulated partitioned store with its checks: real members and a real engine on simulated disks and wires.

The wire loses, repeats, delays and reorders whole messages: productions and early sets, in their sender's epoch, and
the answers to them. A message may arrive after its sender's process has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from penstock.cache import BatchRejected, StoreFull
from penstock.engine import Member, Switching, guard_of
from penstock.recovery import EarlySet, OldEpoch
from penstock.testing.partitions.partitioned_checks import AtRest
from penstock.testing.partitions.partitioned_operator import PartitionedOperator
from penstock.testing.partitions.partitioned_plan import PartitionedPlan, PartitionedStep
from penstock.testing.partitions.partitioned_reader import SavedReader
from penstock.testing.partitions.simulated_processes import Ended, PartitionedMachine, RoutedRecords
from penstock.testing.partitions.simulated_wire import EarlyWire, Packet
from penstock.testing.simulator.checks import Finding, Wrong, demand, differences
from penstock.testing.simulator.client import calls_of, is_list, put_by
from penstock.testing.simulator.fault_plan import PutMode
from penstock.testing.simulator.faults import Crash
from penstock.testing.simulator.machine import source_name
from penstock.views import App

_POLLS = 4
_WAITS = 200
_ROUNDS = 60  # rounds of delivery; chains of views are shorter


class PartitionedWorld(PartitionedMachine):
    """A partitioned store, and everything that can be done to it."""

    def __init__(self, app: App, plan: PartitionedPlan) -> None:
        self.logs = plan.sources
        self.wire: list[Packet] = []
        self.refused = 0  # number of refused messages of zombies
        self.heard: dict[tuple[int, int], int] = {}  # by (sender, receiver), the last epoch of the sender
        self.early = EarlyWire(self, plan.seed)
        self._waits = 0  # times that batches waited for partitions in this step
        self.operator = PartitionedOperator(self)
        self.reader = SavedReader(self, plan.partitions)
        super().__init__(app, plan)

    def early_sender(self, partition: int) -> Callable[[Mapping[int, EarlySet]], Collection[int]]:
        """Return the function by which a partition sends its early sets over the wire."""
        return self.early.of(partition)

    def traffic(self) -> None:
        """Send again everything that partitions owe each other, and let the wire deliver some of it."""
        self.check_alive()
        self._waits += 1
        if self._waits > _WAITS:
            raise Wrong([Finding("progress", "store", "a partition never takes its records of a saved batch")])
        self.send_all()
        self.early.carry()

    # -- what is done

    def do(self, step: PartitionedStep) -> None:
        """Perform one step while a fault may strike."""
        deeds: dict[str, Callable[[PartitionedStep], None]] = {
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
            "build": self.operator.build,
            "change": self.operator.change,
            "mend": self.operator.repair,
        }
        self._waits = 0
        if step.strike is not None:
            self.points.arm(step.strike)
        self._ends = step.ends
        self.early.faulty = True
        self._survives(lambda: deeds[step.kind](step))

    def _survives(self, act: Callable[[], None]) -> None:
        try:
            act()
            self.reader.look()
        except Ended:
            self.restart()
        except Wrong:
            raise
        except Exception as error:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error
        finally:
            self.points.arm(None)
            self._ends = self.early.faulty = False

    def _deliver(self, step: PartitionedStep) -> None:
        at = step.a % len(self.logs)
        self.deliver(at, step.b % 6, step.c % 4)

    def deliver(self, at: int, n: int, back: int = 0) -> None:
        """Deliver the next n records of a source, after `back` earlier ones."""
        log, name = self.logs[at], source_name(at)
        done = self.engine.remembered(name)
        offset = 0 if done is None else done.offset
        start, end = max(0, offset - back), min(len(log), offset + n)
        self._flying = RoutedRecords(log[start:end], name, end)
        with suppress(StoreFull):
            self.engine.ingest(log[start:end], name, end)
        self._flying = None

    def _write(self, step: PartitionedStep) -> None:
        for part in calls_of(step.how, step.records):
            strict = step.how is PutMode.STRICT and is_list(part)
            refused = strict and any(self.oracle.tables[r.table].refuses(r) for r in part)
            self._flying = None if refused else RoutedRecords(part, None, atomic=strict or step.how is PutMode.BATCH)
            try:
                put_by(self.engine, step.how, part)
            except BatchRejected:
                if not refused:
                    raise
            except StoreFull:
                pass  # the records that its partitions took are stored
            else:
                if refused:
                    raise Wrong([Finding("strict", "store", f"took a batch with a record that it must reject: {part}")])
            self._flying = None

    def send(self, sender: int, to: int) -> None:
        """Put the production and the early set that one partition owes another on the wire."""
        if sender == to:
            return
        news = self.members[sender].news(to)
        if news is not None:
            self.wire.append(Packet(sender, to, early=news))
        owed = self.members[sender].owed(to)
        if owed is not None:
            self.wire.append(Packet(sender, to, owed))

    def send_all(self) -> None:
        """Put all that partitions owe each other on the wire."""
        for sender in range(len(self.members)):
            for to in range(len(self.members)):
                self.send(sender, to)

    def _drop(self, step: PartitionedStep) -> None:
        self._off_wire(step.a)

    def _off_wire(self, at: int) -> Packet | None:
        return self.wire.pop(at % len(self.wire)) if self.wire else None

    def _arrive(self, step: PartitionedStep) -> None:
        packet = self._off_wire(step.a)
        if packet is None:
            return
        if step.c % 3 == 0:
            self.wire.append(packet)
        self.arrive(packet)

    def arrive(self, packet: Packet) -> None:
        """Deliver a message to its receiver."""
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
            return  # the sender gets an error, and sends it again
        except Crash as crash:
            try:
                self.follow(packet.to, crash.fault)
            finally:
                self._hears(way)  # it may be stored all the same
            return
        if old:
            text = f"took what partition {packet.sender} said in epoch {said.epoch}, after {self.heard[way]}"
            raise Wrong([Finding("zombie", f"partition {packet.to}", text)])
        self._hears(way)
        self.took(packet.to)
        self.wire.append(answer)

    def _hears(self, way: tuple[int, int]) -> None:
        """Record which epoch of a sender its receiver knows."""
        sender, to = way
        self.heard[way] = guard_of(self.members[to].core.state, sender)[0]

    @staticmethod
    def _taken(member: Member, packet: Packet) -> Packet:
        """Have the member take a message. Return the answer."""
        if packet.early is not None:
            member.hear(packet.early)
            return Packet(packet.to, packet.sender, heard=packet.early)
        assert packet.owed is not None, "it says something"
        return Packet(packet.to, packet.sender, number=member.receive(packet.owed))

    def _forget(self, step: PartitionedStep) -> None:
        for node in self.members[step.a % len(self.members)].core.tables.values():
            node.forget()

    def _poll(self, i: int) -> None:
        try:
            with self.members[i].engine.snapshot() as snap:
                self.pubs[i].poll(snap, snap.schema.views)
        except Crash as crash:
            self.follow(i, crash.fault)

    # -- what must hold

    def settle(self) -> None:
        """Deliver everything that is owed. Check that nothing is pending, and that views match the oracle.

        If partitions are switching, their builds are finished first.
        """
        self.carried()
        try:
            snap = self.engine.snapshot()
        except Switching:
            self.operator.build_all()
            snap = self.engine.snapshot()
        with snap:
            demand(differences(snap, self.oracle))
        for saved in self.saved:
            text = f"has not its records of a batch that partition {saved.sender} saved: {saved.records}"
            raise Wrong([Finding("atomic", f"partition {saved.to}", text)])

    def carried(self) -> None:
        """Deliver everything that partitions owe each other."""
        self.check_alive()
        for _ in range(_ROUNDS):
            before = [member.core.state.sent for member in self.members]
            self.send_all()
            while self.wire:
                self.arrive(self.wire.pop(0))
            standing = [self.standing(i) for i in range(len(self.members))]
            if not any(own.pending for own in standing) and before == [own.sent for own in standing]:
                return
        raise Wrong([Finding("progress", "store", "what partitions owe each other never arrives")])

    def heal(self) -> None:
        """End all faults; deliver and publish everything; then run all checks."""
        self._survives(self._heal)

    def _heal(self) -> None:
        self.operator.build_all()
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
        at_rest = AtRest(
            self.engine, self.members, self.pubs, self.downstream, self.oracle, self.operator.store_operator
        )
        demand(at_rest.findings())
