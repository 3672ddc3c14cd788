"""Explain a failure in words: the wrong row, the documents that should count there, and the steps of the run.

The story lists each changed document and its emission for the view, each fault and its place, and the rows that a
reader saw.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.cache import UnknownName
from penstock.recovery import emission, identity
from penstock.testing.simulator.checks import ABSENT, Finding
from penstock.testing.simulator.fault_plan import (
    Action,
    BuildViews,
    Deliver,
    Look,
    Operate,
    Outage,
    Poll,
    Redefine,
    Reopen,
    Route,
    Step,
    Write,
)
from penstock.testing.simulator.machine import Machine, RecordsInFlight, source_name
from penstock.testing.simulator.run import Failure, StepWitness, run
from penstock.views import App, NotBuilt, View

_SHOWN, _LONGEST = 8, 100


def explained(app: App, failure: Failure, exempt: Collection[str] = ()) -> str:
    """Return the whole story of a failure. The plan is run once more to tell it."""
    finding = failure.wrong.first
    story = Story(app, finding)
    try:
        run(app, failure.plan, exempt, story)
    except Failure:
        pass
    else:
        story.lines.append("     run once more it did not fail: something in the app is not the same twice")
    lines = [str(finding)]
    if finding.by:
        lines.append("counts there:")
        lines += [f"     {brief(key)}: {brief(value)}" for key, value in finding.by[:_SHOWN]]
        if len(finding.by) > _SHOWN:
            lines.append(f"     and {len(finding.by) - _SHOWN} more")
    others = failure.wrong.findings[1:]
    lines += [f"also {other}" for other in others[:_SHOWN]]
    return "\n".join([*lines, "what happened:", *story.lines])


class Story(StepWitness):
    """A follower that records the events that concern one finding."""

    def __init__(self, app: App, finding: Finding) -> None:
        self.lines: list[str] = []
        self._finding = finding
        self._app: App | None = None
        self._look_at(app)
        self._saw: Any = ABSENT
        self._waiting: dict[tuple[str, Any], tuple[Any, Any]] = {}

    def stepping(self, world: Machine, number: int, step: Step | None) -> None:
        if step is None:
            self.lines.append("  at the end: no more faults; all is delivered and published")
            return
        self.lines.append(f"{number + 1:4} {action_text(step.action)}")

    def _look_at(self, app: App) -> None:
        """Find the view of the finding in this app."""
        if app is not self._app:
            self._app = app
            self._view = next((view for view in app.views() if view.name == self._finding.view), None)
            self._followed = _root(self._view)

    def stepped(self, world: Machine) -> None:
        self._look_at(world.app)
        finding = self._finding
        if not finding.view or finding.group is None:
            return
        with world.engine.snapshot() as snap:
            try:
                sees: Any = snap.view(finding.view).row(finding.group).value
            except (KeyError, NotBuilt, UnknownName):
                sees = ABSENT
        if identity(sees) != identity(self._saw):
            self._saw = sees
            self._add(f"a reader sees {finding.view}[{brief(finding.group)}] = {_plain(sees)}")

    def committing(self, world: Machine, flying: RecordsInFlight) -> None:
        """Save the documents of the records' keys as they were before the commit."""
        self._look_at(world.app)
        before: dict[tuple[str, Any], tuple[Any, Any]] = {}
        for record in flying.records:
            documents = world.oracle.tables[record.table]
            where = documents.where(record)
            if where is None or record.repost:
                self._add(f"{record.table}: {'is reposted' if where else 'rejects'} {brief(record.doc)}")
                continue
            entry = documents.entries.get(where)
            before.setdefault((record.table, where), (record.key, None if entry is None else entry.doc))
        self._waiting = before

    def committed(self, world: Machine) -> None:
        for (table, where), (key, old) in self._waiting.items():
            entry = world.oracle.tables[table].entries.get(where)
            new = None if entry is None else entry.doc
            self._add(f"{table} {brief(key)}: {_plain(old)} → {_plain(new)}")
            view = self._followed
            if view is not None and view.source.name == table:
                less, more = _emitted(view, key, old), _emitted(view, key, new)
                if less != more:
                    what = " ".join([*(f"−{brief(item)}" for item in less), *(f"+{brief(item)}" for item in more)])
                    self._add(f"     {view.name} is told {what}")

    def happened(self, world: Machine, text: str) -> None:
        self._add(text)

    def _add(self, text: str) -> None:
        self.lines.append(f"     {text}")


def _root(view: View | None) -> View | None:
    """Return the view on a table from which a view is chained."""
    while view is not None and isinstance(view.source, View):
        view = view.source
    return view


def _emitted(view: View, key: Any, doc: Any) -> list[Any]:
    if doc is None:
        return []
    try:
        pairs = emission(view, key, doc)
    except Exception as error:
        return [f"nothing, it is held: {error}"]
    by_fields = not hasattr(view.map, "function")
    return [group if by_fields or value is None else (group, value) for group, value in pairs]


def brief(value: Any) -> str:
    """Return a value as text, cut to a maximum length."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _plain(value: Any) -> str:
    return "nothing" if value is None else str(value) if value is ABSENT else brief(value)


def action_text(action: Action) -> str:
    """Return an action in words."""
    match action:
        case Deliver(partition, n, back, twice):
            more = f", from {back} back" if back else ""
            more += f", the first {twice} twice" if twice else ""
            return f"{source_name(partition)} delivers {n}{more}"
        case Write(how, records):
            return f"a client puts {len(records)} {how.value}"
        case Poll():
            return "changes are published"
        case Route(link, arrive):
            late = f"{arrive} late changes arrive; " if arrive else ""
            return f"{late}downstream {link.value}"
        case Look():
            return "a reader looks"
        case Reopen(clean):
            return "the engine is closed and opened" if clean else "the engine is killed and opened"
        case Redefine(app, clean):
            which = f"its definitions of number {app}" if app else "the app's own definitions"
            return f"the engine is {'closed' if clean else 'killed'} and opened with {which}"
        case BuildViews(steps, limit):
            return f"views are built further: {steps} {'step' if steps == 1 else 'steps'} of {limit}"
        case Operate(how):
            return f"an operator {how.value}"
        case Outage(on):
            return f"what functions ask {'fails from now on' if on else 'works again'}"
        case _:
            return "memory is dropped"
