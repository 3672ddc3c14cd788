"""The handle of a simulated partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine import Marks, Member, MemberStanding, Resume, Swept, Switch, Tables
from penstock.views import Counts

if TYPE_CHECKING:
    from penstock.testing.partitions.fleet_machine import FleetStanding


class SimulatedHandle:
    """A partition of the simulator. A partition that ends is started again, and gets its work once more."""

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
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """One transaction of records that it owns, and the offsets after them."""
        fleet, i = self._fleet, self._i
        fleet.give(i, number)
        counts = fleet.done(i, lambda member: member.take(tables, sources, number, kinds, strict, others))
        fleet.landed(i)
        return counts

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        return self._fleet.done(self._i, lambda member: member.tried(tables, kinds))

    def standing(self) -> MemberStanding:
        """How far it is."""
        return self._fleet.standing(self._i)

    def marks(self) -> Marks:
        """The numbers of productions as they are now."""
        return self._fleet.done(self._i, Member.marks)

    def note(self, source: str) -> bytes:
        """What the spout of a source noted."""
        return self._fleet.done(self._i, lambda member: member.note(source))

    def swept(self, limit: int | None, switch: Switch | None = None) -> Swept:
        """One step of building views."""
        return self._fleet.done(self._i, lambda member: member.swept(limit, switch))

    def compact(self) -> dict[str, object]:
        """Give back what old versions take."""
        return self._fleet.done(self._i, Member.compact)

    def repair(self, do: str, *what: object) -> object:
        """A step of a repair."""
        return self._fleet.done(self._i, lambda member: member.repair(do, *what))

    def close(self) -> None:
        """The disk stays."""
