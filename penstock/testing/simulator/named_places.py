"""Stop a change of one document at five named places: before, at and after each.

User 7 is renamed from Sue to Joe. The map runs, the row of Sue is deleted, the row of Joe is added, and both changes
are published:

    map       the function is called; it has read the document, and yielded nothing; it has yielded the name
    red_sue   before the row of Sue is deleted; deleted in an open transaction; committed
    red_joe   the same moments for the row of Joe, in the same transaction; its commit is that of red_sue
    pub_sue   before the change of Sue is sent; taken downstream, without an answer; answered
    pub_joe   the same moments for the change of Joe

After any fault there, Joe has count 1, Sue has no row, and these are the last published values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.mapreduce import count
from penstock.spout import Record
from penstock.testing.simulator.checks import Finding, Wrong
from penstock.testing.simulator.faults import AFTER, AT, BEFORE, Fault, Points, Strike
from penstock.testing.simulator.world import World
from penstock.views import App

PLACES = ("map", "red_sue", "pub_sue", "red_joe", "pub_joe")
SIDES = (BEFORE, AT, AFTER)
FAULTS = (Fault.CRASH, Fault.POWER, Fault.INTERRUPT)
_VIEW = "namecount"


def renamed(place: str, side: str, fault: Fault) -> None:
    """Rename the user while a fault strikes at this place. Raise `Wrong` if a check fails."""
    points = Points()
    log = [Record("users", 7, {"id": 7, "name": name}, offset=i) for i, name in enumerate(("Sue", "Joe"))]
    world = World(_app(points), [log], points=points)
    world.name({(_VIEW, "Sue"): "sue", (_VIEW, "Joe"): "joe"})
    world.during(lambda: _deliver(world))
    world.during(lambda: _deliver(world), Strike(fault, 1, f"{place} {side}"))
    if points.last != (fault, f"{place} {side}"):
        raise Wrong([Finding("progress", f"{place} {side}", "was never passed")])
    world.during(world.heal)
    with world.engine.snapshot() as snap:
        rows = dict(snap.view(_VIEW).items())
    published = dict(world.downstream.rows(_VIEW).values())
    if rows != {"Joe": 1} or published != rows:
        raise Wrong([Finding("views", f"view {_VIEW!r}", f"shows {rows}, published {published}", _VIEW)])


def _deliver(world: World) -> None:
    world.deliver(0, 1)
    world.poll()


def _app(points: Points) -> App:
    app = App("renamed")
    users = app.table("users", key="id")

    @users.view(_VIEW, reduce=count())
    def namecount(user: Any) -> Iterator[Any]:
        points.reach(f"map {BEFORE}")
        name = user["name"]
        points.reach(f"map {AT}")
        yield name
        points.reach(f"map {AFTER}")

    return app
