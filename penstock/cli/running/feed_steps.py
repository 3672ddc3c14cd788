"""Read the changes feed in steps. A step yields all changes that are there, and their last position.

Invariants: a step ends, even if others keep writing. The steps of one `FeedSteps` follow each other without a gap, also
over commits that change none of its views. So a reader that keeps up never gets the error that the feed has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine import Engine
from penstock.views import Changes, Position

_PART = 1_000  # changes, about


class FeedSteps:
    """The changes of some views after a position. Without a position, all their rows come first.

    They are saved changes. With `early_sets` they include changes whose batch is not saved yet.
    """

    def __init__(self, engine: Engine, views: Sequence[str], since: Position | None, early: bool = False) -> None:
        self.position = since
        self._engine = engine
        self._views = views
        self._early = early

    def step(self) -> Iterator[tuple[Changes, Position | None]]:
        """Yield the available changes in parts, each with the position that it completes, or None inside a commit."""
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
    """Return the saved position, or the given one in partitions where a reader of early changes is beyond it."""
    if not isinstance(given, list | tuple) or not isinstance(saved, tuple) or len(given) != len(saved):
        return saved
    return tuple(map(max, given, saved))
