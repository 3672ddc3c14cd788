"""Crash a history at every counted place, and check that each run ends like a run without a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.cache import DefinitionError
from penstock.spout import Record
from penstock.testing.expected.winning_versions import key_in
from penstock.testing.seeds.explanation import explained
from penstock.testing.seeds.seed_search import smallest
from penstock.testing.simulator.fault_plan import SMALL, Action, Deliver, Plan, Poll, Step
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.run import Failure, run
from penstock.testing.simulator.world import World
from penstock.views import App, Table

_MOST = 2_000


def assert_crash_equivalent(
    app: App, history: Iterable[Any], faults: Sequence[Fault] = (Fault.CRASH,), most: int = _MOST
) -> int:
    """Crash a history at every place of every batch, resume it, and check that it ends as if no crash had happened.

    An entry of the history is a batch: a list of records, or one record. A record is a `ps.Record`, (table, document),
    or (table, key, None) for a deletion. Return the number of runs. To stay near `most` runs, the test takes places at
    equal intervals.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> runs = assert_crash_equivalent(app, [("users", {"id": 7, "name": "Sue"}), ("users", {"id": 7, "name": "Joe"})])
    >>> runs > 20
    True
    """
    plan = _plan(app, history)
    places = _places(app, plan)
    every = max(1, -(-len(places) * len(faults) // most))
    runs = 0
    for number, (step, nth) in enumerate(places[::every]):
        for fault in faults:
            struck = replace(plan.steps[step], strike=Strike(fault, nth))
            steps = (*plan.steps[:step], struck, *plan.steps[step + 1 :])
            _run(app, replace(plan, seed=number, steps=steps))
            runs += 1
    return runs


def _run(app: App, plan: Plan) -> None:
    try:
        run(app, plan)
    except Failure as failure:
        least = smallest(app, failure)
        raise AssertionError(explained(app, least)) from None


def _places(app: App, plan: Plan) -> list[tuple[int, int]]:
    """Return all places that a run without faults passes, as (step, nth)."""
    world = World(app, plan.partitions, plan.limits)
    found: list[tuple[int, int]] = []
    for number, step in enumerate(plan.steps):
        before = world.points.passed
        action = step.action
        world.during(partial(world.deliver, 0, action.n) if isinstance(action, Deliver) else world.poll)
        found += [(number, nth + 1) for nth in range(world.points.passed - before)]
    _run(app, plan)
    return found


def _plan(app: App, history: Iterable[Any]) -> Plan:
    log: list[Record] = []
    actions: list[Action] = []
    for entry in history:
        batch = entry if isinstance(entry, list) else [entry]
        log += [replace(_record(app, one), offset=len(log) + i) for i, one in enumerate(batch)]
        actions += [Deliver(0, len(batch)), Poll()]
    return Plan(0, (tuple(log),), tuple(map(Step, actions)), SMALL, small_trees=True)


def _record(app: App, one: Any) -> Record:
    if isinstance(one, Record):
        return one
    match one:
        case (str(name), Mapping() as doc):
            table = app.table_of(name)
            return Record(name, _key(table, doc), doc)
        case (str(name), key, None):
            app.table_of(name)
            return Record(name, key, None)
    raise DefinitionError(f"{one!r} is no record; write (table, document), (table, key, None), or a ps.Record")


def _key(table: Table, doc: Mapping[str, Any]) -> Any:
    return key_in(table, doc)
