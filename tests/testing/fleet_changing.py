"""A simulated store of several partitions whose app changes on the way: views are built anew while faults strike.

The plan of a seed goes on as ever. Between its steps views are built a few documents at a time, and now and then all
partitions are opened with another app, before what was begun is complete too.
"""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

from penstock.cache import MemoryStore
from penstock.engine import Catalog, Parted, Swept, concerted, read_catalog
from penstock.engine.spanned import Switching
from penstock.mapreduce import small_trees
from penstock.testing.checks import Finding, Wrong, demand, differences
from penstock.testing.faults import Crash, Fault
from penstock.testing.fleet import Fleet
from penstock.testing.fleetplan import FleetPlan
from penstock.testing.fleetseat import FleetSeat
from penstock.testing.pub import Pub
from penstock.views import App

BUILD, CHANGE = 0.6, 0.06  # how often, a step
_LIMITS = (1, 1, 2, 5, 50)


class Changing(Fleet):
    """The same, over apps that it changes between."""

    def __init__(self, apps: tuple[App, ...], plan: FleetPlan) -> None:
        self.apps = apps
        self.switches = 0
        super().__init__(apps[0], plan)

    def _begin(self) -> None:
        catalogs = [self._catalog(disk.rows) for disk in self.disks]
        self.concert, changed = concerted(self.app, catalogs)
        self.members = [self._member(i) for i in range(len(self.disks))]
        self.pubs = [Pub(disk.open(), self.downstream, self.points) for disk in self.pub_disks]
        cores = [member.core for member in self.members]
        seats = [_BuildingSeat(self, i) for i in range(len(self.disks))]
        self.engine = Parted(self.app, self.layout, cores, seats, lambda: None, None, None, None, changed)
        self.engine.carry = self._carried

    @staticmethod
    def _catalog(rows: MemoryStore) -> Catalog | None:
        with rows.read() as reader:
            return read_catalog(reader, "memory")

    def build(self, limit: int) -> None:
        """A step of building at each partition, and the switch once all is told."""

        def step() -> None:
            before = [member.core.sweep for member in self.members]
            self.engine._build(limit)
            if any(before) and not all(member.core.sweep for member in self.members):
                self._switched()

        self._survives(step)

    def _switched(self) -> None:
        """All have, and readers see at once all that documents say."""
        self.switches += 1
        if any(member.core.sweep for member in self.members):
            raise Wrong([Finding("generations", "store", "some partitions switched, and others did not")])
        with self.engine.snapshot() as snap:
            demand(differences(snap, self.oracle))

    def change(self, app: App, other: App, opened: list[int]) -> None:
        """All end, and the store is opened with another app; and before with one more, by these partitions alone."""
        if opened:
            self.app = other
            for i in range(len(self.disks)):
                self._killed(i, Fault.CRASH)
            self.concert, _ = concerted(self.app, [self._catalog(disk.rows) for disk in self.disks])
            for i in opened:
                self._member(i)
        self.app = app
        self.oracle.turn(app)
        self.restart()

    def settle(self) -> None:
        """Carry all that is owed, and look; where partitions switch just now, once they have."""
        try:
            super().settle()
        except Switching:
            self.engine._all_built(None)
            super().settle()

    def _carried(self) -> list[str]:
        self.carried()
        return []

    def heal(self) -> None:
        """All is built too."""
        self._survives(lambda: [self.engine._all_built(None)].clear())
        super().heal()


class _BuildingSeat(FleetSeat):
    def swept(self, limit: int | None, switch: bool = False) -> Swept:
        fleet, i = self._fleet, self._i
        while True:
            try:
                return fleet.members[i].swept(limit, switch)
            except Crash as crash:
                fleet.follow(i, crash.fault)


def run_changing(apps: tuple[App, ...], plan: FleetPlan) -> Changing:
    """A run; raises what does not hold."""
    choose = Random(plan.seed)
    with small_trees() if plan.small_trees else nullcontext():
        fleet = Changing(apps, plan)
        for step in plan.steps:
            if choose.random() < CHANGE:
                opened = choose.sample(range(plan.partitions), choose.choice((0, 0, 1, plan.partitions - 1)))
                fleet.change(choose.choice(apps), choose.choice(apps), opened)
            strike = step.strike if choose.random() < 0.5 else None
            if choose.random() < BUILD:
                if strike is not None:
                    fleet.points.arm(strike)
                    fleet._ends = step.ends
                fleet.build(choose.choice(_LIMITS))
            fleet.do(step)
        fleet.heal()
    return fleet
