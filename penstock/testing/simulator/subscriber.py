"""A subscriber of the changes feed: what it has of the views, kept with the position it got to.

It outlives the engine that it follows, and resumes where it was. Invariant: a change begins with the result that it
has and ends with another, there is one a group and commit, and after the last one it has what readers see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.engine import Engine
from penstock.recovery import identity
from penstock.testing.simulator.checks import ABSENT as NO_ROW
from penstock.testing.simulator.checks import Finding
from penstock.views import ABSENT

_Row = tuple[Any, Any]


class Subscriber:
    """By view, and by the identity of a group, its group and result."""

    def __init__(self) -> None:
        self.position = 0
        self.changes = 0  # so many it was told
        self._rows: dict[str, dict[Any, _Row]] = {}

    def follow(self, engine: Engine) -> Iterator[Finding]:
        """Take what came since the last time; then all must be as a reader sees it."""
        told: dict[tuple[str, Any], int] = {}
        for change in engine.changes(since=self.position):
            self.changes += 1
            rows = self._rows.setdefault(change.view, {})
            at = identity(change.group)
            _, had = rows.pop(at, (None, ABSENT))
            before = told.get((change.view, at), self.position)
            told[change.view, at] = change.position
            fits = _same(had, change.old) and not _same(change.old, change.new)
            if not fits or change.position <= before:
                text = f"is told {_said(change.old)} → {_said(change.new)} at {change.position}"
                text += f", and had {_said(had)} from {before}"
                yield Finding("feed", _where(change.view, change.group), text, change.view, change.group)
            if change.new is not ABSENT:
                rows[at] = change.group, change.new
        with engine.snapshot() as snap:
            self.position = snap.position
            for name in sorted(snap.schema.views.keys() | self._rows.keys()):
                seen = snap.view(name).items() if name in snap.schema.views else ()
                yield from self._differences(name, {identity(row[0]): (row[0], row[1]) for row in seen})

    def _differences(self, view: str, seen: dict[Any, _Row]) -> Iterator[Finding]:
        own = self._rows.get(view, {})
        for at in own.keys() | seen.keys():
            group = (seen.get(at) or own[at])[0]
            had, shows = own.get(at, (None, ABSENT))[1], seen.get(at, (None, ABSENT))[1]
            if not _same(had, shows):
                text = f"told {_said(had)} in all, and a reader sees {_said(shows)}"
                yield Finding("feed", _where(view, group), text, view, group)


def _same(one: Any, other: Any) -> bool:
    if one is ABSENT or other is ABSENT:
        return one is other
    return bool(identity(one) == identity(other))


def _said(result: Any) -> str:
    return NO_ROW if result is ABSENT else repr(result)


def _where(view: str, group: Any) -> str:
    return f"view {view!r}, group {group!r}"
