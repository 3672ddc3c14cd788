"""Who runs a simulated store of several partitions: has other apps opened, views built, and repaired what is right.

Invariants: once views are switched all partitions have, and readers see all that documents say; a repair of what is
right finds nothing to mend, whatever is on its way meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.recovery import Repaired
from penstock.testing.checks import Finding, Wrong, demand, differences
from penstock.testing.plan import Mending

if TYPE_CHECKING:
    from penstock.testing.fleet import Fleet
    from penstock.testing.fleetplan import FleetStep

_LIMITS = (1, 1, 2, 5, 50)  # documents of a step of building
_BEFORE = (
    0,
    0,
    1,
    -1,
)  # partitions that are opened with still another app before all are with the one; -1: all but one
_MENDING = (*Mending, Mending.RETRY)


class Operator:
    """The operator of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.dropped = self.let_go = 0  # so many rejected records were let go of, at least and at most

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
        with self._fleet.engine.snapshot() as snap:
            held = any(snap.holds_any(name) for name in snap.schema.views)
        found = list(self._mended_by(step))
        if not held:
            demand(found)

    def _mended_by(self, step: FleetStep) -> Iterator[Finding]:
        fleet, engine, [record] = self._fleet, self._fleet.engine, step.records
        how, views = _MENDING[step.a % len(_MENDING)], fleet.app.views()
        match how:
            case Mending.VIEW if views:
                yield from _wrong(how, engine.restate(views[step.b % len(views)].name))
            case Mending.KEY:
                yield from _wrong(how, engine.restate(record.table, record.key))
            case Mending.REPOST if record.doc is not None and fleet.oracle.tables[record.table].where(record):
                yield from _wrong(how, engine.repost(record.table, record.doc))
            case Mending.DROP:
                self.let_go = fleet.oracle.refused
                engine.drop(kind="record")
                self.dropped = self.let_go
            case Mending.RETRY:
                engine.retry()
            case _:
                pass


def _wrong(how: Mending, mended: Iterable[Repaired]) -> Iterator[Finding]:
    for own in mended:
        text = f"an operator {how.value}: {own.old!r} → {own.new!r}, where {own.what.why}"
        yield Finding("mended", f"view {own.view!r}, group {own.group!r}", text, own.view, own.group)
