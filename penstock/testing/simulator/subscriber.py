"""A subscriber of the changes feed: its copy of the views, and its position in the feed.

It outlives the engine, and resumes at its position. Invariants: a change has the subscriber's result as its old one,
and a different result as its new one. A commit yields at most one change per group. After the last change, the copy
equals the rows that readers see.
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
    """A copy of the views: groups with their results, by the identity of the group."""

    def __init__(self) -> None:
        self.position = 0
        self.changes = 0  # number of changes read
        self._rows: dict[str, dict[Any, _Row]] = {}

    def follow(self, engine: Engine) -> Iterator[Finding]:
        """Read the changes since the last call. Yield the differences from the rows that a reader sees."""
        positions: dict[tuple[str, Any], int] = {}
        for change in engine.changes(since=self.position):
            self.changes += 1
            rows = self._rows.setdefault(change.view, {})
            at = identity(change.group)
            _, had = rows.pop(at, (None, ABSENT))
            before = positions.get((change.view, at), self.position)
            positions[change.view, at] = change.position
            fits = _same(had, change.old) and not _same(change.old, change.new)
            if not fits or change.position <= before:
                text = f"is told {_row_text(change.old)} → {_row_text(change.new)} at {change.position}"
                text += f", and had {_row_text(had)} from {before}"
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
                text = f"told {_row_text(had)} in all, and a reader sees {_row_text(shows)}"
                yield Finding("feed", _where(view, group), text, view, group)


def _same(one: Any, other: Any) -> bool:
    if one is ABSENT or other is ABSENT:
        return one is other
    return bool(identity(one) == identity(other))


def _row_text(result: Any) -> str:
    return NO_ROW if result is ABSENT else repr(result)


def _where(view: str, group: Any) -> str:
    return f"view {view!r}, group {group!r}"
