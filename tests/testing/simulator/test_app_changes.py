"""Change the app in the middle of a history: build step by step, crash everywhere, and return to the first app."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import penstock as ps
from penstock.spout import Record
from penstock.testing.equivalence import assert_crash_equivalent
from penstock.testing.simulator.app_changes import changed, variants_of
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import SMALL
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.world import World
from penstock.views import NotBuilt
from tests.testing.planted import BUGS, planted

NAMES = ("Sue", "Joe", "Bob", "Sue", "Al", "Joe")
LOG = [Record("users", i % 4, {"id": i % 4, "name": name, "v": i}, offset=i) for i, name in enumerate(NAMES)]


def before() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    names = users.view("namecount", key="name", reduce=ps.count())
    names.view("sizes", key="value", reduce=ps.count())
    users.view("same", key=(), value="v", reduce=ps.max())
    users.view("gone", key="v", reduce=ps.count())
    return app


def after() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")

    @users.view("namecount", reduce=ps.count())
    def names(user: Any) -> Iterator[Any]:
        yield user["name"][0]

    names.view("sizes", key="value", reduce=ps.count())
    users.view("same", key=(), value="v", reduce=ps.max())
    users.view("fresh", key="name", value="v", reduce={"n": ps.count(), "least": ps.min()})
    return app


def a_world() -> World:
    world = World(before(), [list(LOG)], SMALL, others=(after(),))
    world.deliver(0, 4)
    return world


def rows(world: World, view: str) -> dict[Any, Any]:
    with world.engine.snapshot() as snap:
        return dict(snap.view(view).items())


def test_readers_see_the_old_views_until_all_is_built_and_then_those_of_the_app() -> None:
    world = a_world()
    world.change(1, clean=True)
    world.build(1, 1)
    world.deliver(0, 1)
    world.check()
    assert rows(world, "namecount") == {"Sue": 2, "Joe": 1, "Bob": 1}
    assert rows(world, "same") == {(): 4}, "what did not change goes on"
    with pytest.raises(NotBuilt):
        rows(world, "fresh")
    world.heal()
    assert rows(world, "namecount") == {"S": 1, "A": 1, "J": 1, "B": 1}
    assert rows(world, "fresh") == {
        "Al": {"n": 1, "least": 4},
        "Bob": {"n": 1, "least": 2},
        "Joe": {"n": 1, "least": 5},
        "Sue": {"n": 1, "least": 3},
    }
    with pytest.raises(ps.UnknownName):
        rows(world, "gone")
    assert set(world.downstream.views()) == {"namecount", "sizes", "same", "fresh"}


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.FAIL, Fault.INTERRUPT])
def test_a_fault_at_every_place_of_the_building_costs_nothing(fault: Fault) -> None:
    """Strike the calls and commits of build steps, of the switch, and of the deletion of replaced views.

    A crash strikes at each place, other faults at every fifth.
    """
    struck = set(_struck(fault, lambda world: world.change(1, clean=False), _build))
    if fault is Fault.CRASH:
        assert {"begin", "put told:6", "put view:6", "delete meta", "clear held:2", "commit before"} <= struck
    assert ("commit after" in struck) == (fault is not Fault.FAIL)


def test_a_crash_at_every_place_of_opening_with_another_app_costs_nothing() -> None:
    struck = set(_struck(Fault.CRASH, lambda world: None, lambda world: world.change(1, clean=True)))
    assert struck == {f"opening: {place}" for place in ("begin", "put meta", "commit before", "commit after")}


def _struck(fault: Fault, first: Callable[[World], None], then: Callable[[World], None]) -> Iterator[str]:
    """Yield the places that a fault strikes, one run for each. Each run must end with the right rows."""
    world = a_world()
    first(world)
    before = world.points.passed
    then(world)
    for nth in range(0, world.points.passed - before, 1 if fault is Fault.CRASH else 5):
        world = a_world()
        first(world)
        world.during(partial(then, world), Strike(fault, nth + 1))
        world.during(world.heal)
        assert rows(world, "namecount") == {"S": 1, "A": 1, "J": 1, "B": 1}
        yield from (place for _, place in world.struck)


def _build(world: World) -> None:
    for _ in range(4):
        world.build(3, 1)
        if world.acked[0] < len(LOG):
            world.deliver(0, 1)
    world.build(99, 8)


@pytest.mark.parametrize("steps", range(5))
def test_turning_back_leaves_what_the_first_app_makes(steps: int) -> None:
    world = a_world()
    world.change(1, clean=steps % 2 == 0)
    world.build(steps, 1)
    world.deliver(0, 1)
    world.change(0, clean=True)
    world.build(1, 2)
    world.during(world.heal)
    assert rows(world, "namecount") == {"Joe": 1, "Al": 1, "Bob": 1, "Sue": 1}
    assert rows(world, "gone") == {2: 1, 3: 1, 4: 1, 5: 1}


def test_a_view_that_gives_way_must_not_move() -> None:
    (bug,) = (bug for bug in BUGS if bug.name == "readers see one view before the others")
    world = a_world()
    world.change(1, clean=True)
    with planted(bug):
        world.build(1, 1)
    with pytest.raises(Wrong):
        world.check()


def test_variants_are_other_apps_over_the_same_tables() -> None:
    app = before()
    anew, less = variants_of(app)
    assert [view.sources for view in anew.views()] == [True, False, True, False]
    assert [view.name for view in less.views()] == ["namecount", "sizes", "same"]
    assert [table.describe() for table in anew.tables()] == [table.describe() for table in app.tables()]
    assert [view.name for view in changed(app, without=["namecount"]).views()] == ["same", "gone"]
    assert variants_of(ps.App("none")) == ()


def test_an_app_that_a_store_came_to_is_still_crash_equivalent() -> None:
    assert assert_crash_equivalent(after(), [[record] for record in LOG[:2]], most=60) > 30


def test_variants_change_drop_and_add_joins() -> None:
    app = ps.App("shop")
    orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
    sold = app.join("sold", order=orders, customer=customers, on={"order.c": "customer.id"}, limit=5)
    sold.view("sums", key="customer.country", value="order.a", reduce=ps.sum())
    orders.view("counts", key="c", reduce=ps.count())
    more = app.join("more", sale=sold, customer=customers, on={"sale.order.d": "customer.id"})
    more.view("ages", key="customer.age", reduce=ps.count())
    anew, less, fewer = variants_of(app)
    assert [(join.name, join.limit) for join in anew.joins()] == [("sold", 6), ("more", 10_000_000)]
    assert [view.sources for view in anew.views()] == [True, False, True]
    assert [view.name for view in less.views()] == ["sums", "counts"]
    assert [join.name for join in fewer.joins()] == ["sold"]
    assert [view.name for view in fewer.views()] == ["sums", "counts"]
    assert [view.name for view in changed(app, without=["sold"]).views()] == ["counts"]
    assert changed(app, without=["sold"]).joins() == ()
