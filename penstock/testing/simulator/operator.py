"""An operator who repairs a simulated store that is correct. A repair that changes something is a finding.

Invariant: the quarantine has each rejected record once, except those that the operator dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from penstock.engine import Engine
from penstock.recovery import Repaired, side_holds
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.simulator.checks import Finding
from penstock.testing.simulator.fault_plan import Operate, OperatorAction
from penstock.views import App


def holds_any(engine: Engine) -> bool:
    """Return whether a view or a join holds documents or groups. A repair may change these."""
    with engine.snapshot() as snap:
        held = any(snap.holds_any(name) for name in snap.schema.views)
        return held or any(side_holds(snap, join) for join in snap.schema.joins.values())


class Operator:
    """An operator, with the number of records it dropped."""

    def __init__(self) -> None:
        self._dropped = self._let_go = 0  # number of dropped records, at least and at most

    def repaired(
        self, engine: Engine, app: App, oracle: Oracle, action: Operate, exempt: Collection[str] = ()
    ) -> Iterator[Finding]:
        """Perform a repair. Yield each change that it made, except to `exempt` views."""
        record, views = action.record, app.views()
        assert record is not None, "it comes with one"
        wrong: Iterable[Repaired] = ()
        match action.how:
            case OperatorAction.VIEW if views:
                wrong = engine.restate(views[action.view % len(views)].name)
            case OperatorAction.KEY:
                wrong = engine.restate(record.table, record.key)
            case OperatorAction.REPOST if record.doc is not None and oracle.tables[record.table].where(record):
                wrong = engine.repost(record.table, record.doc)
            case OperatorAction.DROP:
                self._let_go = oracle.refused
                engine.drop(kind="record")
                self._dropped = self._let_go
            case OperatorAction.RETRY:
                settled = engine.retry()
                if settled.entries != settled.left:
                    yield Finding("mended", "store", f"an operator {action.how.value}, and nothing is held: {settled}")
            case _:
                pass
        for own in wrong:
            if own.view not in exempt:
                text = f"an operator {action.how.value}: {own.old!r} → {own.new!r}, where {own.what.why}"
                yield Finding("mended", f"view {own.view!r}, group {own.group!r}", text, own.view, own.group)

    def quarantine(self, engine: Engine, oracle: Oracle) -> Iterator[Finding]:
        """Yield a finding if the quarantine has too few or too many rejected records."""
        n, refused = sum(1 for _ in engine.quarantine("record")), oracle.refused
        if not refused - self._let_go <= n <= refused - self._dropped:
            text = f"has {n} records, {refused} were refused, and an operator let go of the first {self._dropped}"
            yield Finding("quarantine", "store", text)
