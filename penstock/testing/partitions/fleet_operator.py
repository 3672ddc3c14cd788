"""Who runs a simulated store of several partitions: has other apps opened, views built, and repaired what is right.

Invariants: once views are switched all partitions have, and readers see all that documents say; a repair of what is
right finds nothing to mend, whatever is on its way meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing.simulator.checks import Finding, Wrong, demand, differences
from penstock.testing.simulator.operator import Mender, holds_any
from penstock.testing.simulator.plan import Mend, Mending

if TYPE_CHECKING:
    from penstock.testing.partitions.fleet import Fleet
    from penstock.testing.partitions.fleet_plan import FleetStep

_LIMITS = (1, 1, 2, 5, 50)  # documents of a step of building
_BEFORE = (0, 0, 1, -1)
"""By so many partitions the store is opened with still another app before all open it with the one; -1: all but one."""
_MENDING = (*Mending, Mending.RETRY)


class Operator:
    """The operator of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.mender = Mender()

    def build(self, step: FleetStep) -> None:
        """A step of building at each partition, and the switch once all is told."""
        fleet = self._fleet
        before = [member.core.sweep is not None for member in fleet.members]
        fleet.engine._build(_LIMITS[step.a % len(_LIMITS)])
        after = [member.core.sweep is not None for member in fleet.members]
        if any(was and not still for was, still in zip(before, after, strict=True)):
            if any(after):
                raise Wrong([Finding("generations", "store", "some partitions switched, and others did not")])
            with fleet.engine.snapshot() as snap:
                demand(differences(snap, fleet.oracle))

    def change(self, step: FleetStep) -> None:
        """All end, and the store is opened with another app; before that perhaps with one more, by some of them."""
        fleet, n = self._fleet, len(self._fleet.disks)
        some = _BEFORE[step.c % len(_BEFORE)] % n
        if some:
            fleet.turn(step.b)
            fleet.end()
            fleet.agree()
            for i in range(some):
                fleet.member((step.b + i) % n)
        fleet.turn(step.a)
        fleet.restart()

    def build_all(self) -> None:
        """What is left is built."""
        self._fleet.engine._all_built(None)

    def mend(self, step: FleetStep) -> None:
        """Something of a store that is right is made right: nothing may change but what is held."""
        self.build_all()
        fleet, [record] = self._fleet, step.records
        held = holds_any(fleet.engine)
        mend = Mend(_MENDING[step.a % len(_MENDING)], step.b, record)
        found = list(self.mender.mended(fleet.engine, fleet.app, fleet.oracle, mend))
        if not held:
            demand(found)
