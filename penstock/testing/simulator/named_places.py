"""A change of one document, stopped at five places by name, before, at and after each.

User 7 is renamed from Sue to Joe. The map tells it, the row of Sue goes and the row of Joe comes, and both changes are
published:

    map       its function is called; has read the document, and told nothing; has told it
    red_sue   the row of Sue is about to go; it is gone in a transaction that is not committed; it is committed
    red_joe   the same of the row of Joe, in the same transaction: after it is after red_sue
    pub_sue   the change of Sue is about to be sent; downstream has taken it, and nobody heard so; it is answered
    pub_joe   the same of Joe

Whatever strikes there, Joe is 1, Sue has no row, and that is what was published last.
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
    """Rename the user while a fault strikes there; `Wrong` where something does not hold."""
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
