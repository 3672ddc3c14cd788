"""The changes feeds of several partitions, followed as one.

All changes of a group come from the partition that owns it. Invariants:

- changes of one partition come in its order, and those of one commit together;
- a switch of views shows once all partitions have made it;
- the position of a change is a vector: for each partition, the last commit whose changes were given, this one included.
  A reader that resumes there gets each change exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.cache import DefinitionError, value_text
from penstock.core import FeedReader, FeedRequest, Wait, followable, reached, rows_of, saved_rows_of, steps_of
from penstock.views import Changes, Position, PositionAhead, PositionExpired

if TYPE_CHECKING:
    from penstock.core import Core, Snapshot

__all__ = ["follow_all"]

Vector = tuple[int, ...]


def follow_all(
    cores: Sequence[Core], look: Callable[[], Snapshot], request: FeedRequest, wait: Wait, live: Callable[[], bool]
) -> Iterator[Changes]:
    """Yield the changes of a request. `look` makes a snapshot over the partitions.

    This call checks the arguments. The initial rows are read when the caller asks for the first change.
    """
    since, until = request.since, request.until
    with look() as snap:
        followable(snap, request)
        begin = None if since is None else _reached(snap, since)
        end = None if until is None else _vector("until", until, len(cores))
        if end is not None and len(end) != len(cores):
            raise PositionAhead(until, snap.position)
    return _follow(cores, look, replace(request, since=begin, until=end), wait, live)


def _vector(name: str, position: Position, parts: int) -> Vector:
    """Return a position as a tuple; the position of a one-partition store has one number."""
    own = tuple(position) if isinstance(position, list | tuple) else (position,)
    if any(isinstance(one, bool) or not isinstance(one, int) for one in own):
        raise DefinitionError(
            f"{name}= is {value_text(position)}; write a position, as snapshots and changes have them"
        )
    return own


def _reached(snap: Snapshot, since: Position) -> Vector:
    """Return the position as a tuple; raise an error if the store has not reached it, or its feeds begin later."""
    own = _vector("since", since, len(snap.parts))
    if len(own) != len(snap.parts):  # the store was repartitioned since, and its feed began again
        raise PositionExpired(since, snap.followed)
    for part, at in zip(snap.parts, own, strict=True):
        try:
            reached(part, at)
        except PositionAhead:
            raise PositionAhead(since, snap.position) from None
        except PositionExpired:
            raise PositionExpired(since, snap.followed) from None
    return own


def _follow(
    cores: Sequence[Core], look: Callable[[], Snapshot], request: FeedRequest, wait: Wait, live: Callable[[], bool]
) -> Iterator[Changes]:
    views, since, early = request.views, request.since, request.early
    with look() as snap:
        if request.initial:
            since = snap.position if early else snap.saved
            yield from rows_of(snap, views) if early else saved_rows_of(snap, views)
        elif since is None:
            since = snap.followed
    ends: Sequence[int | None] = request.until or [None] * len(cores)
    readers = [
        FeedReader(core, views, own, end, _shown_of(look, i), early)
        for i, (core, own, end) in enumerate(zip(cores, since, ends, strict=True))
    ]
    for i, part in steps_of(readers, request.on, wait, live):
        at = [reader.position for reader in readers]
        vectors = {own: (*at[:i], own, *at[i + 1 :]) for own in dict.fromkeys(part.positions)}
        part.positions = [vectors[own] for own in part.positions]
        yield part


def _shown_of(look: Callable[[], Snapshot], i: int) -> Callable[[], int]:
    """Return a function that returns the position at which readers of the whole store see partition `i`."""

    def shown() -> int:
        with look() as snap:
            position = snap.parts[i].position
        assert isinstance(position, int), "that of one partition"
        return position

    return shown
