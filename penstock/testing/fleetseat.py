"""A partition as who serves a simulated store has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine import MemberStanding, Resume, Swept, Tables
from penstock.testing.faults import Crash
from penstock.views import Counts

if TYPE_CHECKING:
    from penstock.testing.fleet import Fleet


class FleetSeat:
    """A partition, as who serves it has it: begun again when it ends, and then given its work once more."""

    def __init__(self, fleet: Fleet, i: int) -> None:
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
        while True:
            try:
                return self._fleet.members[self._i].tried(tables, kinds)
            except Crash as crash:
                self._fleet.follow(self._i, crash.fault)

    def standing(self) -> MemberStanding:
        """How far it is."""
        return self._fleet.standing(self._i)

    def note(self, source: str) -> bytes:
        """What the spout of a source noted."""
        return self._fleet.members[self._i].note(source)

    def swept(self, limit: int | None, switch: bool = False) -> Swept:
        """One step of building views."""
        return self._fleet.members[self._i].swept(limit, switch)

    def compact(self) -> dict[str, object]:
        """Give back what old versions take."""
        return self._fleet.members[self._i].compact()

    def repair(self, do: str, *what: object) -> object:
        """A step of a repair."""
        return self._fleet.members[self._i].repair(do, *what)

    def close(self) -> None:
        """The disk stays."""
