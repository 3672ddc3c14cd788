"""The wire between simulated partitions while one of them sends early sets and waits for the answers.

Meanwhile, messages arrive in any order, late, twice or never. The receivers may crash, and so may the sender. A
deadline may pass at any time. The plan's seed draws all of this. After some rounds the wire only delays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from penstock.engine import Member
from penstock.recovery import EarlySet, Production
from penstock.testing.simulator.faults import Crash, Fault

_LOSSY = 6  # rounds in which the wire loses and repeats
_LOST, _TWICE, _LATE, _CRASH, _OVER = 0.15, 0.15, 0.1, 0.02, 0.3
_LOSSY_CARRIES = 0.7
_ROUNDS = 60


@dataclass(slots=True)
class Packet:
    """A message from one partition to another: a production, an early set, or the answer to one of them.

    The answer to a production is the number up to which productions have arrived. The answer to an early set is the
    set that was heard.
    """

    sender: int
    to: int
    owed: Production | None = None
    number: int = 0
    early: EarlySet | None = None
    heard: EarlySet | None = None


class Looks(Protocol):
    """A reader of saved changes."""

    def look(self) -> None:
        """Read the saved changes that came since."""
        ...


class Wired(Protocol):
    """Partitions that a wire connects."""

    wire: list[Packet]
    """The messages on the wire."""

    @property
    def members(self) -> Sequence[Member]:
        """The partitions."""
        ...

    @property
    def epochs(self) -> Sequence[int]:
        """The epoch of each partition."""
        ...

    @property
    def reader(self) -> Looks:
        """The reader that looks after each round."""
        ...

    def send(self, sender: int, to: int) -> None:
        """Put on the wire what one partition owes another."""
        ...

    def arrive(self, packet: Packet) -> None:
        """Deliver a message."""
        ...


class EarlyWire:
    """The early sets of partitions, on a simulated wire."""

    def __init__(self, world: Wired, seed: int) -> None:
        self._world = world
        self._choose = Random(seed)
        self._answered: set[tuple[int, int]] = set()  # (sender, receiver) of early sets that were answered
        self._waiting: dict[int, Mapping[int, EarlySet]] = {}
        self.faulty = False

    def of(self, member: int) -> Callable[[Mapping[int, EarlySet]], Collection[int]]:
        """Return the function by which a partition sends its early sets."""
        return lambda early: self._tell(member, early)

    def answered(self, packet: Packet) -> None:
        """Take the answer to an early set."""
        heard = packet.heard
        assert heard is not None, "it is an answer to what was told"
        world, partition, other = self._world, packet.to, packet.sender
        if heard.epoch != world.epochs[partition]:
            return  # the process that sent it has ended
        asked = self._waiting.get(partition, {}).get(other)
        if asked is not None and asked.order == heard.order:
            self._answered.add((partition, other))
        if not heard.parts:
            world.members[partition].knows(other, heard)

    def carry(self) -> None:
        """Deliver some messages in any order. While faults are on, some are lost, and some come twice."""
        lossy = self.faulty and self._choose.random() < _LOSSY_CARRIES
        for _ in range(self._choose.randrange(1, 6) if lossy else len(self._world.wire)):
            if self._world.wire:
                self._deliver(self._world.wire.pop(self._choose.randrange(len(self._world.wire))), lossy)

    def _tell(self, partition: int, early: Mapping[int, EarlySet]) -> Collection[int]:
        self._answered -= {(partition, other) for other in early}
        self._waiting[partition] = early
        try:
            for round in range(_ROUNDS):
                if self._round(partition, early, self.faulty and round < _LOSSY):
                    break
            return {other for other in early if (partition, other) in self._answered}
        finally:
            del self._waiting[partition]

    def _round(self, partition: int, early: Mapping[int, EarlySet], lossy: bool) -> bool:
        """Send the unanswered early sets, and let the wire deliver. Return whether the wait is over."""
        world, choose = self._world, self._choose
        member = world.members[partition]
        for other, one in early.items():
            if (partition, other) in self._answered:
                continue
            if one.parts and (other in member.unheard or world.members[partition].owed(other) is not None):
                world.send(partition, other)
            else:
                world.wire.append(Packet(partition, other, early=one))
        for _ in range(choose.randrange(1, 6) if lossy else len(world.wire)):
            if world.wire:
                self._deliver(world.wire.pop(choose.randrange(len(world.wire))), lossy)
            world.reader.look()
            if member is not world.members[partition]:
                raise Crash(Fault.CRASH, f"{partition} is followed")
        if lossy and choose.random() < _CRASH:
            raise Crash(Fault.CRASH, f"{partition} waits")
        left = [one for other, one in early.items() if (partition, other) not in self._answered]
        if self.faulty and left and not any(one.waits for one in left) and choose.random() < _OVER:
            return True
        return not left

    def _deliver(self, packet: Packet, lossy: bool) -> None:
        drawn = self._choose.random() if lossy else 1.0
        if drawn < _LOST:
            return
        if drawn < _LOST + _TWICE + _LATE:
            self._world.wire.append(packet)
        if not _LOST + _TWICE <= drawn < _LOST + _TWICE + _LATE:
            self._world.arrive(packet)
