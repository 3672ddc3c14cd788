"""A simulated store of several partitions that writes its changes to sinks, and an oracle for their consumers.

The store is only its history: by partition the commits, each with groups of that partition and their values. A run
reads the partitions in random order, so two runs from one position take different ways. This module knows no sink's
format. It requires of each sink that

- the values of a group are in the order in which its partition committed them;
- after a run that ended in order, the latest values of all groups are the view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from penstock.sink import Sink
from penstock.views import ABSENT, Change, Changes, Position

VIEW = "names"
_GROUPS = 5  # groups per partition


@dataclass
class GivenChanges:
    """The history of a store: by partition and commit, the groups and their values from then on."""

    draw: Random
    parts: int
    commits: list[list[dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.commits = [[] for _ in range(self.parts)]

    @property
    def now(self) -> tuple[int, ...]:
        """The current position of each partition."""
        return tuple(map(len, self.commits))

    def commit(self, many: int) -> None:
        """Add commits. A value names its commit, and a group may be deleted."""
        for _ in range(many):
            part = self.draw.randrange(self.parts)
            groups = self.draw.sample(range(_GROUPS), self.draw.randrange(1, _GROUPS))
            number = len(self.commits[part]) + 1
            latest = self.rows(self.now)
            made = {f"{part}.{group}": f"{part}@{number}" for group in groups}
            for group in made:
                if group in latest and self.draw.random() < 0.3:
                    made[group] = ABSENT
            self.commits[part].append(made)

    def rows(self, at: Sequence[int]) -> dict[str, Any]:
        """Return the view at a position."""
        out: dict[str, Any] = {}
        for own, stop in zip(self.commits, at, strict=True):
            for made in own[:stop]:
                out.update(made)
        return {group: value for group, value in out.items() if value is not ABSENT}

    def history(self, group: str) -> list[Any]:
        """Return all values of a group in order."""
        return [made[group] for own in self.commits for made in own if group in made]

    def shown(self, at: Sequence[int]) -> Position:
        """Return a position in the form for sinks."""
        return at[0] if self.parts == 1 else tuple(at)

    def steps(self, since: Position | None) -> Iterator[tuple[Changes, Position | None]]:
        """Yield changes and positions like `FeedSteps`: later changes, partitions in random order, or all rows."""
        now, draw = self.now, self.draw
        if since is None:
            rows = Changes.of(
                Change(VIEW, group, ABSENT, new, self.shown(now)) for group, new in self.rows(now).items()
            )
            yield from ((part, None) for part in self._cut(rows))
            yield Changes(), self.shown(now)
            return
        at = [since] if isinstance(since, int) else list(since)
        assert all(where <= latest for where, latest in zip(at, now, strict=True)), (
            "it was told nothing that isn't there"
        )
        while left := [i for i, stop in enumerate(now) if at[i] < stop]:
            i = draw.choice(left)
            before = self.rows(at)
            made = self.commits[i][at[i]]
            at[i] += 1
            where = self.shown(at)
            own = Changes.of(Change(VIEW, group, before.get(group, ABSENT), new, where) for group, new in made.items())
            yield from ((part, None) for part in self._cut(own))
            if draw.random() < 0.5:
                yield Changes(), where
        yield Changes(), self.shown(now)

    def _cut(self, own: Changes) -> list[Changes]:
        """Split changes into one part or two."""
        cut = self.draw.randrange(len(own) + 1)
        return [part for part in (own[:cut], own[cut:]) if part]

    def give(self, sink: Sink, since: Position | None, calls: int) -> bool:
        """Write all later changes to a sink, in at most `calls` calls.

        -1 has no limit. Return whether all were written.
        """
        for changes, position in self.steps(since):
            for call in (partial(sink.write, changes), position is not None and partial(sink.holds, position)):
                if not calls:
                    return False
                calls -= 1
                if call:
                    call()
        return True

    def must_follow(self, group: str, seen: Sequence[Any]) -> None:
        """Check that the values seen of a group, None for a deletion, are in the order of its history."""
        history, place = self.history(group), 0
        for value in seen:
            later = [i for i in range(place, len(history)) if history[i] == value or (value is None and not history[i])]
            assert later, f"{group} goes back: {seen} of {history}"
            place = later[0]

    def must_be_whole(self, group: str, seen: Sequence[tuple[Any, Any]]) -> None:
        """Check that the changes seen after a group's row leave out none. Some may be repeated."""
        pairs = list(pairwise([ABSENT, *self.history(group)]))
        place = len(pairs)
        for old, new in seen:
            at = next(i for i, pair in enumerate(pairs) if pair == (old, new) or (old is ABSENT and pair[1] == new))
            assert old is ABSENT or at <= place + 1, f"{group}: none led to {old}: {seen} of {pairs}"
            place = at
