"""An operator changes nothing in a correct store. After an outage a retry takes the held documents."""

from functools import partial

import pytest

import penstock as ps
from penstock.spout import Record
from penstock.testing.inputs.trial_apps import trials
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import Operate, OperatorAction
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.operator import Operator
from penstock.testing.simulator.outage import Failing, Switch
from penstock.testing.simulator.world import World
from tests.testing.planted import BUGS, planted

(ASKING,) = (trial for trial in trials() if trial.name == "asking")
NAMES = ("Sue", "Joe", "Bob", "Joe")
LOG = [Record("users", i, {"id": i, "name": name, "v": 1, "ts": i}, offset=i) for i, name in enumerate(NAMES)]
POSTED = Record("users", 1, {"id": 1, "name": "Ann", "v": 1, "ts": 0})


def a_world(log: list[Record] | None = None) -> World:
    assert ASKING.outage is not None
    ASKING.outage.on = False
    return World(ASKING.app, [log or LOG], others=ASKING.others, outage=ASKING.outage)


def kinds(world: World) -> dict[str, int]:
    with world.engine.snapshot() as snap:
        return {row.key: row.value["n"] for row in snap.view("kinds")}


@pytest.mark.parametrize("how", OperatorAction)
def test_of_a_store_that_is_right_nothing_is_mended(how: OperatorAction) -> None:
    world = a_world()
    world.deliver(0, 4)
    digest, position = world.engine.digest(), world.position
    world.repair(Operate(how, record=POSTED))
    assert (world.engine.digest(), world.position) == (digest, position)


def test_nothing_to_mend_leaves_memory_in_doubt_and_the_store_where_it_stands() -> None:
    """After Ctrl-C at the end of a commit, an operator restates a document that does not exist."""
    world = a_world()
    assert not world.during(partial(world.deliver, 0, 2), Strike(Fault.INTERRUPT, 1, "commit after"))
    assert world.position == 1
    world.repair(Operate(OperatorAction.KEY, record=Record("users", 9, {"id": 9, "name": "Ann", "v": 1, "ts": 0})))
    assert world.position == 1


def test_what_an_outage_left_is_taken_by_a_retry() -> None:
    world = a_world()
    world.fail(True)
    world.deliver(0, 3)
    world.check()
    assert kinds(world) == {"Sue": 1}, "it asks nobody about Sue"
    world.fail(False)
    world.check()
    world.repair(Operate(OperatorAction.RETRY, record=POSTED))
    assert not world.lenient
    world.check()
    assert kinds(world) == {"Sue": 1, "Joe": 1, "Bob": 1}
    world.heal()


def test_a_crash_at_every_place_of_a_retry_costs_nothing() -> None:
    nth = 0
    while True:
        nth += 1
        world = a_world()
        world.fail(True)
        world.deliver(0, 3)
        world.fail(False)
        world.during(partial(world.repair, Operate(OperatorAction.RETRY, record=POSTED)), Strike(Fault.CRASH, nth))
        if not world.struck:
            break
        world.during(world.heal)
        assert kinds(world) == {"Sue": 1, "Joe": 2, "Bob": 1}
    assert nth > 5


def test_a_retry_that_takes_nothing_is_found() -> None:
    (bug,) = (bug for bug in BUGS if bug.name == "what is retried is not told")
    world = a_world()
    world.fail(True)
    world.deliver(0, 3)
    with planted(bug), pytest.raises(Wrong, match="is held, and its map takes it"):
        world.heal()


def test_records_that_cannot_be_taken_are_kept_until_they_are_let_go() -> None:
    bad = [Record("users", None, {"id": None, "name": "Sue", "ts": 1}, offset=i) for i in range(3)]
    world = a_world(bad)
    world.deliver(0, 2)
    world.repair(Operate(OperatorAction.DROP, record=POSTED))
    world.deliver(0, 1)
    assert len(list(world.engine.quarantine("record"))) == 1
    world.heal()
    world.operator = Operator()
    with pytest.raises(Wrong, match="has 1 records, 3 were refused"):
        world.heal()


def test_what_is_reposted_on_the_wire_changes_no_document() -> None:
    log = [LOG[0], Record("users", 0, {"id": 0, "name": "Ann"}, 0, 1, True)]
    world = a_world(log)
    world.deliver(0, 2)
    world.heal()
    with world.engine.snapshot() as snap:
        assert snap.table("users")[0]["name"] == "Sue"
    assert world.position == 1


def test_a_switch_answers_unless_it_fails() -> None:
    switch = Switch(on=True)
    with pytest.raises(Failing):
        switch.ask("red")
    with switch.repaired():
        assert switch.ask("red") == "red"
    assert switch.on


def test_an_outage_needs_somebody_who_asks() -> None:
    app = ps.App("shop")
    app.table("users", key="id")
    world = World(app, [[]])
    world.fail(True)
    assert not world.lenient
