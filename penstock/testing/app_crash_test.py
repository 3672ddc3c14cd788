"""Crash-test a user's app: check the laws of its maps and reducers, then run seeds in the simulator.

A view gets a verdict as soon as it breaks a law or a seed finds it wrong. From then on the test ignores this view and
the views that are chained to it. It continues with the other views.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from penstock.testing.expected.expected_views import Oracle
from penstock.testing.expected.winning_versions import key_in
from penstock.testing.inputs.trial_documents import DocumentProfile, TrialStream, makers
from penstock.testing.laws.laws import Breach, Pair
from penstock.testing.laws.process_laws import Second
from penstock.testing.laws.view_laws import breach_of, documents_of
from penstock.testing.seeds.explanation import explained
from penstock.testing.seeds.seed_search import Clock, SeedFile, Seeds, Totals, attempt, smallest
from penstock.testing.simulator.app_changes import variants_of
from penstock.testing.simulator.fault_plan import plan_of
from penstock.testing.simulator.run import Failure
from penstock.views import App, Join, Source, Table, View, check_no_streams

_RECORDS = 120
_DEFAULT = 20.0


class State(Enum):
    """The result of the test for one view."""

    OK = "ok"
    WRONG = "WRONG"
    UNTRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one view, or for the store itself, with the reason."""

    name: str
    state: State
    why: str = ""
    breach: Breach | None = None
    seed: int | None = None

    def __str__(self) -> str:
        return f"{self.state.value}  {self.why}" if self.why else self.state.value


@dataclass(slots=True)
class CrashReport:
    """The report of a crash test.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id", ts="ts")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> report = crashtest(app, seeds=5)
    >>> report.ok, [(verdict.name, verdict.state.value) for verdict in report.verdicts]
    (True, [('namecount', 'ok')])
    """

    verdicts: list[Verdict] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    replay: str = "penstock crashtest --seed {seed}"
    trouble: str = ""  # the reason why no second process checked the laws

    @property
    def ok(self) -> bool:
        """True if no fault was found."""
        return all(verdict.state is State.OK for verdict in self.verdicts)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        width = max((len(verdict.name) for verdict in self.verdicts), default=0)
        for verdict in self.verdicts:
            yield f"{verdict.name.ljust(width)}  {verdict}"
        if self.trouble:
            yield f"not tried in a second process: {self.trouble}; define the functions at the top level of a module"
        yield str(self.totals) if self.totals.seeds else "no seed was run: mend these first"
        for seed in dict.fromkeys(v.seed for v in self.verdicts if v.seed is not None):
            yield f"replay with: {self.replay.format(seed=seed)}"


def crashtest(
    app: App,
    docs: Any = None,
    *,
    seeds: int | None = None,
    budget: float | None = None,
    first: int = 0,
    seed: int | None = None,
    remembered: str | None = None,
    folder: str = "",
    progress: Callable[[Totals], None] | None = None,
    clock: Clock = time.monotonic,
) -> CrashReport:
    """Crash an app at many places, and check after each crash that its views are correct.

    `docs` gives documents by table: a Hypothesis strategy, a function of a `random.Random`, documents, or a file.
    Without it, documents resemble those of each table's `sample=` file (relative to `folder`). The test runs `seeds`
    seeds from `first` on, or runs for `budget` seconds, whichever ends first. If neither is given, the budget is 20 s.
    With `seed` it runs that seed alone. Failing seeds are added to the file `remembered`, and run first next time.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> @users.view(reduce=ps.count())
    ... def initials(user):
    ...     yield user["name"][0]
    >>> crashtest(app, docs=[{"id": 1, "name": "Sue"}, {"id": 2, "name": "Joe"}], seeds=5).ok
    True
    """
    check_no_streams(app.streams(), "a crash test", "test its views with penstock.testing.TestEngine instead")
    profiles = makers(app, docs, folder).profiles()
    chosen = Seeds(first, seeds, budget, None if remembered is None else SeedFile(remembered), clock)
    if seed is not None:
        chosen = Seeds(seed, 1, None, None, clock)
    elif seeds is None and budget is None:
        chosen.budget = _DEFAULT
    return _Test(app, profiles, chosen, progress).run()


class _Test:
    """A crash test in progress."""

    def __init__(
        self, app: App, profiles: Sequence[DocumentProfile], seeds: Seeds, progress: Callable[[Totals], None] | None
    ) -> None:
        self._app = app
        self._profiles = profiles
        self._seeds = seeds
        self._others = variants_of(app)
        self._progress = progress
        self._verdicts: dict[str, Verdict] = {}
        self._second = Second(app)

    def run(self) -> CrashReport:
        """Check the laws, then run seeds."""
        for breach in self._breaches():
            self._give(Verdict(breach.view, State.WRONG, str(breach), breach))
        if len(self._verdicts) < len(self._app.views()) or not self._app.views():
            self._simulate()
        for view in self._app.views():
            self._verdicts.setdefault(view.name, Verdict(view.name, State.OK))
        order = [view.name for view in self._app.views()]
        listed = sorted(self._verdicts.values(), key=lambda v: order.index(v.name) if v.name in order else -1)
        return CrashReport(listed, self._seeds.totals, trouble=self._second.trouble)

    def _breaches(self) -> Iterator[Breach]:
        """Yield the broken laws. Skip views that have a verdict, for example because their parent view is wrong."""
        oracle, choose = Oracle(self._app), Random(0)
        stream = TrialStream(self._profiles)
        records = [stream.record(choose) for _ in range(_RECORDS)]
        oracle.take(records)
        samples: dict[str, list[Pair]] = {own.table.name: [] for own in self._profiles}
        for own in self._profiles:
            samples[own.table.name] += [(key_in(own.table, doc), doc) for doc in own.docs]
            samples[own.table.name] += oracle.tables[own.table.name].living()
        for view in self._app.views():
            if view.name in self._verdicts:
                continue
            if isinstance(view.source, Table):
                docs = samples[view.source.name]
            elif isinstance(view.source, Join):
                docs = list(oracle.joined(view.source).rows)
            else:
                docs = oracle.view(view.source.name).sorted()
            some = documents_of(docs)
            found = breach_of(view, some)
            if found is None:
                self._second.add(view, some)
            else:
                yield found
        yield from (found for found in self._second.breaches() if found.view not in self._verdicts)

    def _simulate(self) -> None:
        for seed in self._seeds:
            plan = plan_of(seed, TrialStream(self._profiles), self._others)
            failure = attempt(self._app, plan, self._seeds.totals, self._verdicts)
            if self._progress is not None:
                self._progress(self._seeds.totals)
            if failure is not None and not self._found(failure):
                return

    def _found(self, failure: Failure) -> bool:
        """Record the verdict of a failure. Return whether other views remain to be tested."""
        least = smallest(self._app, failure, self._verdicts)
        first, seed = least.wrong.first, failure.plan.seed
        if self._seeds.remembered is not None:
            self._seeds.remembered.add(seed, f"{self._app.name}: {first}")
        reason = explained(self._app, least, self._verdicts)
        self._give(Verdict(first.view or "the store", State.WRONG, reason, None, seed))
        return bool(first.view) and len(self._verdicts) < len(self._app.views())

    def _give(self, verdict: Verdict) -> None:
        """Record the verdict of a view. The views that are chained to it are not tested."""
        self._verdicts[verdict.name] = verdict
        for view in self._app.views():
            if view.name not in self._verdicts and _is_on(view.source, verdict.name):
                reason = f"it is on {verdict.name!r}"
                self._verdicts[view.name] = Verdict(view.name, State.UNTRIED, reason)


def _is_on(source: Source, name: str) -> bool:
    if isinstance(source, Join):
        return any(_is_on(side.source, name) for side in source.sides)
    return isinstance(source, View) and (source.name == name or _is_on(source.source, name))
