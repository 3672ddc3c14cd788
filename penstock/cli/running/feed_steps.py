"""The changes feed in steps: all that is there now, and the position up to which that is all.

Invariants: a step ends, however much is written meanwhile; the steps of one `Steps` follow each other without a gap,
also over commits that change none of its views, so that who keeps up is never told that the feed has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine import Engine
from penstock.views import Changes, Position

_PART = 1_000  # changes, about


class Steps:
    """The changes of these views from a position on; without one, all their rows first.

    Changes are saved ones, unless they are to come `early`: then also those whose batch is not saved yet.
    """

    def __init__(self, engine: Engine, views: Sequence[str], since: Position | None, early: bool = False) -> None:
        self.position = since
        self._engine = engine
        self._views = views
        self._early = early

    def step(self) -> Iterator[tuple[Changes, Position | None]]:
        """What is there now, in parts; each with the position up to which all has been given, None inside of one."""
        with self._engine.snapshot() as snap:
            now = snap.position if self._early else _latest(self.position, snap.saved)
        if self.position == now:
            return
        initial = self.position is None
        last = Changes()
        fed = self._engine.feed(*self._views, since=self.position, initial=initial, until=now, early=self._early)
        for part in (own[a : a + _PART] for own in fed for a in range(0, len(own), _PART)):
            if initial:
                now = part.positions[-1]
            if last:
                whole = not initial and part.positions[0] != last.positions[-1]
                if whole:
                    self.position = last.positions[-1]
                yield last, self.position if whole else None
            last = part
        self.position = now
        yield last, self.position


def _latest(given: Position | None, saved: Position) -> Position:
    """The saved position; a reader that was given early changes before may be further on in some partitions."""
    if not isinstance(given, list | tuple) or not isinstance(saved, tuple) or len(given) != len(saved):
        return saved
    return tuple(map(max, given, saved))
