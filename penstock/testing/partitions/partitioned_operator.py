"""The operator of a simulated partitioned store: opens other apps, builds views, and repairs.

Invariants: all partitions switch views together, and readers then see the views of all documents. A repair of a correct
store changes nothing, even with messages in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing.simulator.checks import Finding, Wrong, demand, differences
from penstock.testing.simulator.fault_plan import Operate, OperatorAction
from penstock.testing.simulator.operator import Operator, holds_any

if TYPE_CHECKING:
    from penstock.testing.partitions.partitioned_plan import PartitionedStep
    from penstock.testing.partitions.simulated_processes import PartitionedMachine

_LIMITS = (1, 1, 2, 5, 50)  # documents in one step of a build
_BEFORE = (0, 0, 1, -1)
"""Number of partitions that open the store with a third app before all open it with the second; -1: all but one."""
_MENDING = (*OperatorAction, OperatorAction.RETRY)


class PartitionedOperator:
    """The operator of one partitioned store."""

    def __init__(self, world: PartitionedMachine) -> None:
        self._world = world
        self.store_operator = Operator()

    def build(self, step: PartitionedStep) -> None:
        """Run a step of the build at each partition, and switch when all are complete."""
        world = self._world
        before = [member.core.build is not None for member in world.members]
        world.store.building.build(_LIMITS[step.a % len(_LIMITS)])
        after = [member.core.build is not None for member in world.members]
        if any(was and not still for was, still in zip(before, after, strict=True)):
            if any(after):
                raise Wrong([Finding("generations", "store", "some partitions switched, and others did not")])
            with world.engine.snapshot() as snap:
                demand(differences(snap, world.oracle))

    def change(self, step: PartitionedStep) -> None:
        """End all processes, and open the store with another app.

        Before that, some partitions may open it with a third.
        """
        world, n = self._world, len(self._world.disks)
        some = _BEFORE[step.c % len(_BEFORE)] % n
        if some:
            world.turn(step.b)
            world.end()
            world.agree()
            for i in range(some):
                world.member((step.b + i) % n)
        world.turn(step.a)
        world.restart()

    def build_all(self) -> None:
        """Finish all builds."""
        self._world.store.building.build_all(None)

    def repair(self, step: PartitionedStep) -> None:
        """Repair part of a correct store. Only held documents and groups may change."""
        self.build_all()
        world, [record] = self._world, step.records
        held = holds_any(world.engine)
        action = Operate(_MENDING[step.a % len(_MENDING)], step.b, record)
        found = list(self.store_operator.repaired(world.engine, world.app, world.oracle, action))
        if not held:
            demand(found)
