"""The recovery from faults: the fault that struck, the fault that stays armed, and errors that no fault explains."""

import pytest

import penstock as ps
from penstock.cache import StoreFull
from penstock.spout import Record
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import PutMode
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.world import World

LOG = [Record("users", i, {"id": i, "name": "Sue"}, offset=i) for i in range(4)]


def a_world() -> World:
    app = ps.App("shop")
    app.table("users", key="id").view("namecount", key="name", reduce=ps.count())
    return World(app, [LOG])


def test_a_fault_that_finds_no_place_waits_for_what_is_done_next() -> None:
    world = a_world()
    assert world.during(world.look, Strike(Fault.CRASH, 2)), "a reader passes none"
    assert not world.during(lambda: world.deliver(0, 2))
    assert [fault for fault, _ in world.struck] == [Fault.CRASH]
    world.during(world.heal)
    assert world.faults == 1


def test_what_strikes_while_that_is_recovered_from_waits_with_it() -> None:
    world = a_world()
    world.during(world.look, Strike(Fault.CRASH, 2), Strike(Fault.POWER, 1))
    world.during(lambda: world.deliver(0, 2))
    assert [(fault, place.partition(":")[0]) for fault, place in world.struck] == [
        (Fault.CRASH, "put view"),
        (Fault.POWER, "opening"),
    ]


@pytest.mark.parametrize("before", [None, Strike(Fault.FAIL, 1)])
def test_an_error_is_explained_only_by_a_fault_that_struck_meanwhile(before: Strike | None) -> None:
    world = a_world()
    world.during(lambda: world.deliver(0, 1), before)

    def full() -> None:
        raise StoreFull("memory", "by itself")

    with pytest.raises(Wrong, match="raised: engine: StoreFull"):
        world.during(full)


def test_a_record_that_is_kept_in_quarantine_was_in_though_the_position_stays() -> None:
    world = a_world()
    keyless = Record("users", None, {"name": "Sue"})
    assert not world.during(lambda: world.write(PutMode.LIST, [keyless]), Strike(Fault.CRASH, 1, "commit after"))
    assert world.oracle.refused == 2, "once before the crash, and once more, since nobody said so"
    assert world.position == 0
    world.during(world.heal)
