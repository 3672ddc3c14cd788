"""A Hypothesis state machine that drives a user's app: puts, deliveries, crashes at any place, and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cache import MissingExtra
from penstock.spout import Record
from penstock.testing.expected.winning_versions import key_in
from penstock.testing.inputs.trial_documents import makers
from penstock.testing.simulator.app_changes import variants_of
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.fault_plan import SMALL, Operate, OperatorAction, PutMode
from penstock.testing.simulator.faults import Fault, Strike
from penstock.testing.simulator.publisher import Link
from penstock.testing.simulator.world import World
from penstock.views import App, Table

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine
    from hypothesis.strategies import SearchStrategy

_PLACES = 40


def crash_machine(app: App, docs: Any = None) -> type[RuleBasedStateMachine]:
    """Return a `RuleBasedStateMachine` that crashes an app and checks its views. Run `crash_machine(app).TestCase`.

    `docs` is a strategy of documents, or a map with one strategy per table. Without it, documents resemble each table's
    sample.

    >>> import penstock as ps
    >>> from hypothesis import strategies as st
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> user = st.fixed_dictionaries({"id": st.integers(0, 3), "name": st.sampled_from(["Sue", "Joe"])})
    >>> TestShop = crash_machine(app, docs=user).TestCase
    """
    try:
        made = _machine(app, _records(app, docs))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise MissingExtra("hypothesis", "testing") from None
    made.__name__ = made.__qualname__ = f"CrashMachine_{app.name}"
    return made


def _machine(app: App, records: SearchStrategy[Record]) -> type[RuleBasedStateMachine]:
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

    faults = st.sampled_from([Fault.CRASH, Fault.POWER, Fault.FAIL, Fault.INTERRUPT])
    strikes = st.none() | st.builds(Strike, faults, st.integers(1, _PLACES))
    batches = st.lists(records, min_size=1, max_size=6)
    others = variants_of(app)

    class CrashMachine(RuleBasedStateMachine):
        """One simulated machine, with the operations on it as rules."""

        @initialize()
        def begin(self) -> None:
            self.log: list[Record] = []
            self.world = World(app, [self.log], SMALL, others=others)

        def _do(self, act: Callable[[], None], strike: Strike | None = None) -> None:
            try:
                self.world.during(act, strike)
            except Wrong as wrong:
                raise AssertionError(str(wrong)) from wrong

        @rule(batch=batches, strike=strikes, back=st.integers(0, 2))
        def delivered(self, batch: list[Record], strike: Strike | None, back: int) -> None:
            start = len(self.log)
            self.log += [Record(r.table, r.key, r.doc, r.ts, start + i) for i, r in enumerate(batch)]
            self._do(lambda: self.world.deliver(0, len(self.log), back), strike)

        @rule(batch=batches, strike=strikes, how=st.sampled_from([PutMode.EACH, PutMode.BATCH, PutMode.LIST]))
        def put(self, batch: list[Record], strike: Strike | None, how: PutMode) -> None:
            self._do(lambda: self.world.write(how, batch), strike)

        @rule(strike=strikes)
        def published(self, strike: Strike | None) -> None:
            self._do(self.world.poll, strike)

        @rule(link=st.sampled_from(Link), late=st.integers(0, 3))
        def routed(self, link: Link, late: int) -> None:
            self._do(lambda: self.world.route(link, late))

        @rule()
        def looked(self) -> None:
            self._do(self.world.look)

        @rule()
        def forgot(self) -> None:
            self._do(self.world.forget)

        @rule(clean=st.booleans())
        def reopened(self, clean: bool) -> None:
            self._do(lambda: self.world.reopen(clean))

        @rule(number=st.integers(0, len(others)), clean=st.booleans(), strike=strikes)
        def changed(self, number: int, clean: bool, strike: Strike | None) -> None:
            self._do(lambda: self.world.change(number, clean), strike)

        @rule(steps=st.integers(1, 3), limit=st.integers(1, 4), strike=strikes)
        def built(self, steps: int, limit: int, strike: Strike | None) -> None:
            self._do(lambda: self.world.build(steps, limit), strike)

        @rule(how=st.sampled_from(OperatorAction), view=st.integers(0, 7), record=records, strike=strikes)
        def repaired(self, how: OperatorAction, view: int, record: Record, strike: Strike | None) -> None:
            self._do(lambda: self.world.repair(Operate(how, view, record)), strike)

        def teardown(self) -> None:
            if hasattr(self, "world"):
                self._do(self.world.heal)

    return CrashMachine


def _records(app: App, docs: Any) -> SearchStrategy[Record]:
    """Return a strategy for records of all tables: documents, and some deletions of their keys."""
    from hypothesis import strategies as st

    own = makers(app, docs)
    kinds: list[SearchStrategy[Record]] = []
    for table in app.tables():
        given = own.given.get(table.name)
        if given is None or not hasattr(given, "map"):
            profile = own.of(table)
            given = st.builds(
                lambda choose, now, profile=profile: profile.document(choose, choose.choice(profile.keys[:6]), now),
                st.randoms(use_true_random=False),
                st.integers(0, 40),
            )
        moments = st.integers(0, 40) if table.broker_ts else st.none()
        kinds.append(st.builds(_record, st.just(table), given, moments, st.integers(0, 9)))
    return st.one_of(kinds)


def _record(table: Table, doc: Any, moment: int | None, dice: int) -> Record:
    key = key_in(table, doc)
    return Record(table.name, key, None if dice == 0 else doc, moment)
