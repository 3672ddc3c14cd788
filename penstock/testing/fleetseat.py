"""A partition as who serves a simulated store has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from penstock.engine import Member, MemberStanding, Resume, Swept, Tables
from penstock.testing.faults import Crash
from penstock.views import Counts

if TYPE_CHECKING:
    from penstock.testing.fleetstanding import FleetStanding

_T = TypeVar("_T")


class FleetSeat:
    """A partition, as who serves it has it: begun again when it ends, and then given its work once more."""

    def __init__(self, fleet: FleetStanding, i: int) -> None:
        self._fleet = fleet
        self._i = i

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
    ) -> Counts:
        """One transaction of records that it owns, and the offsets after them."""
        fleet, i = self._fleet, self._i
        fleet.give(i, number)
        fleet.still_there()
        while True:
            member = fleet.members[i]
            try:
                counts = member.take(tables, sources, number, kinds, strict)
            except Crash as crash:
                if member is fleet.members[i]:  # while it waited, it may have been followed
                    fleet.follow(i, crash.fault)
            else:
                fleet.landed(i)
                return counts

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        return self._done(lambda member: member.tried(tables, kinds))

    def standing(self) -> MemberStanding:
        """How far it is."""
        return self._fleet.standing(self._i)

    def note(self, source: str) -> bytes:
        """What the spout of a source noted."""
        return self._done(lambda member: member.note(source))

    def swept(self, limit: int | None, switch: bool = False) -> Swept:
        """One step of building views."""
        return self._done(lambda member: member.swept(limit, switch))

    def compact(self) -> dict[str, object]:
        """Give back what old versions take."""
        return self._done(Member.compact)

    def repair(self, do: str, *what: object) -> object:
        """A step of a repair."""
        return self._done(lambda member: member.repair(do, *what))

    def _done(self, work: Callable[[Member], _T]) -> _T:
        """Have it done, once more by the next owner where one ends at it."""
        fleet, i = self._fleet, self._i
        while True:
            fleet.still_there()
            try:
                return work(fleet.members[i])
            except Crash as crash:
                fleet.follow(i, crash.fault)

    def close(self) -> None:
        """The disk stays."""
