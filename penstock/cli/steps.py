"""The changes feed in steps: all that is there now, and the position up to which that is all.

Invariants: a step ends, however much is written meanwhile; the steps of one `Steps` follow each other without a gap,
also over commits that change none of its views, so that who keeps up is never told that the feed has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine import Engine
from penstock.views import Change, Position

_PART = 1_000  # changes, about


class Steps:
    """The changes of these views from a position on; without one, all their rows first."""

    def __init__(self, engine: Engine, views: Sequence[str], since: Position | None) -> None:
        self.position = since
        self._engine = engine
        self._views = views

    def step(self) -> Iterator[tuple[list[Change], Position | None]]:
        """What is there now, in parts; each with the position up to which all has been given, None inside of one."""
        with self._engine.snapshot() as snap:
            now = snap.position
        if self.position == now:
            return
        initial = self.position is None
        part: list[Change] = []
        for change in self._engine.changes(*self._views, since=self.position, initial=initial, until=now):
            if initial:
                now = change.position
            if len(part) >= _PART:
                whole = not initial and change.position != part[-1].position
                if whole:
                    self.position = part[-1].position
                yield part, self.position if whole else None
                part = []
            part.append(change)
        self.position = now
        yield part, self.position
