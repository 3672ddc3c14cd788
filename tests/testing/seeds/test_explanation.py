"""The explanation of a failure: the place, the documents that count there, and the emissions and rows of each step."""

import pytest

import penstock as ps
from penstock.cache import Limits
from penstock.testing.seeds.explanation import explained
from penstock.testing.seeds.seed_search import smallest
from penstock.testing.simulator.fault_plan import Deliver, Plan, Poll, Step
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.run import Failure, run
from tests.testing.planted import BUGS, planted


def an_app() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    users.view("namecount", key="name", reduce=ps.count())
    return app


def a_plan(*steps: Step) -> Plan:
    docs = [{"id": 1, "name": "Sue", "ts": 1}, {"id": 2, "name": "Joe", "ts": 2}, {"id": 1, "name": "Joe", "ts": 3}]
    return Plan(7, (tuple(ps.Record("users", d["id"], d, offset=i) for i, d in enumerate(docs)),), steps, Limits(few=0))


PLAN = a_plan(
    Step(Deliver(0, 2)), Step(Poll()), Step(Deliver(0, 1), Strike(Fault.CRASH, 1, "commit after")), Step(Poll())
)


def fails(plan: Plan, bug: str) -> Failure:
    (own,) = (b for b in BUGS if b.name == bug)
    with planted(own), pytest.raises(Failure) as found:
        run(an_app(), plan)
    return found.value


def test_a_view_that_is_wrong_is_explained_step_by_step() -> None:
    bug = "a group that empties keeps its row"
    failure = fails(PLAN, bug)
    (own,) = (b for b in BUGS if b.name == bug)
    with planted(own):
        text = explained(an_app(), failure)
    assert text == (
        "views: view 'namecount', group 'Sue': shows 0, should have no row\n"
        "what happened:\n"
        "   1 source:0 delivers 2\n"
        "     users 1: nothing → {'id': 1, 'name': 'Sue', 'ts': 1}\n"
        "          namecount is told +'Sue'\n"
        "     users 2: nothing → {'id': 2, 'name': 'Joe', 'ts': 2}\n"
        "          namecount is told +'Joe'\n"
        "     a reader sees namecount['Sue'] = 1\n"
        "   2 changes are published\n"
        "   3 source:0 delivers 1\n"
        "     the process is killed at commit after\n"
        "     opened at position 2\n"
        "     it was in\n"
        "     users 1: {'id': 1, 'name': 'Sue', 'ts': 1} → {'id': 1, 'name': 'Joe', 'ts': 3}\n"
        "          namecount is told −'Sue' +'Joe'"
    )


def test_it_is_cut_down_to_what_is_needed() -> None:
    bug = "a group that empties keeps its row"
    failure = fails(PLAN, bug)
    (own,) = (b for b in BUGS if b.name == bug)
    with planted(own):
        least = smallest(an_app(), failure)
    assert len(least.plan.steps) == 1
    assert least.plan.steps[0].strike is None
    assert [record.doc for record in least.plan.partitions[0]] == [
        {"id": 1, "ts": 1},
        {"id": 1, "name": "Joe", "ts": 3},
    ]


def test_what_fails_only_once_is_said_to_be_so() -> None:
    failure = fails(PLAN, "a group that empties keeps its row")
    assert "run once more it did not fail" in explained(an_app(), failure)


def test_what_counts_there_is_listed() -> None:
    bug = "the record at the committed offset is taken for delivered"
    (own,) = (b for b in BUGS if b.name == bug)
    failure = fails(a_plan(Step(Deliver(0, 1)), Step(Deliver(0, 1))), bug)
    with planted(own):
        text = explained(an_app(), failure)
    assert text.startswith("documents: table 'users', key 1: holds nothing, should hold {'id': 1, 'name': 'Sue'")
    view = failure.wrong.findings[-1]
    assert view.view == "namecount"
    assert view.by == ((1, {"id": 1, "name": "Sue", "ts": 1}),)
