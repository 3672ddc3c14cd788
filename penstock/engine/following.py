"""Following the feed, from any process: whole commits, each by a short snapshot, so that no page is held back.

Where a view took the place of what it was before, the differences of all its groups are one commit, which is read in
one snapshot however long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from penstock.cache import DefinitionError, decode_keys
from penstock.engine.differing import differing, next_switch
from penstock.engine.snapshot import Snapshot
from penstock.mapreduce import RowReading, feed_key, read_told
from penstock.views import ABSENT, Change, Changes, Position, PositionAhead, PositionExpired

if TYPE_CHECKING:
    from penstock.engine.core import Core

_READ = 1_000  # changes that are in memory at once, about
LOOK = 0.01  # seconds between two looks of one who follows

Wait = Callable[[float], object]


def follow(
    core: Core,
    views: Sequence[str],
    since: Position | None,
    on: bool,
    initial: bool,
    until: Position | None,
    wait: Wait,
    live: Callable[[], bool],
) -> Iterator[Changes]:
    """The changes of these views since a position, or all that the feed has; and what comes if it goes `on`.

    They come in parts, of whole commits but for rows and differences, of which there may be any number at a position.
    With `until` it ends with the changes of that position. What can't be followed is refused here; what there is at
    first is read when the first change is asked for.
    """
    for name, position in (("since", since), ("until", until)):
        if position is not None and (isinstance(position, bool) or not isinstance(position, int | list | tuple)):
            raise DefinitionError(f"{name}= is {position!r}; write a position, as snapshots and changes have them")
    if since is not None and initial:
        raise DefinitionError("since= and initial=True are two places to begin at; leave one out")
    with Snapshot(core) as snap:
        followable(snap, views, initial)
        if since is not None:
            reached(snap, since)
    return _follow(core, views, since, on, initial, until, wait, live)


def followable(snap: Snapshot, views: Sequence[str], initial: bool) -> None:
    """The feed may have changes of these views, and there are rows of them if these are asked for."""
    for name in views:
        if initial or name not in snap.schema.followed():
            snap.view(name)  # which says why not


def reached(snap: Snapshot, since: Position) -> None:
    """The store came to this position, and the feed has what came after it."""
    state = snap.state
    if not isinstance(since, int):  # of a store with another number of partitions, which this one was before
        raise PositionExpired(since, state.followed)
    if since > state.position:
        raise PositionAhead(since, state.position)
    if since < state.followed:
        raise PositionExpired(since, state.followed)


def _follow(
    core: Core,
    views: Sequence[str],
    since: int | None,
    on: bool,
    initial: bool,
    until: int | None,
    wait: Wait,
    live: Callable[[], bool],
) -> Iterator[Changes]:
    if initial:
        with Snapshot(core) as snap:
            since = snap.position
            yield from rows_of(snap, views)
    follower = Follower(core, views, since, until)
    while live() and not follower.done:
        yield from follower.step()
        if not follower.more:
            if not on:
                return
            wait(LOOK)


def rows_of(snap: Snapshot, views: Sequence[str]) -> Iterator[Changes]:
    """The rows of these views, or of all, as changes from ABSENT."""
    for name in list(views) or list(snap.schema.views):
        yield from _parts(Change(name, row.key, ABSENT, row.value, snap.position) for row in snap.view(name))


def _parts(changes: Iterable[Change]) -> Iterator[Changes]:
    """These, about so many at once as are to be in memory."""
    left = iter(changes)
    while part := Changes.of(islice(left, _READ)):
        yield part


class Follower:
    """A reader's place in the feed of one store.

    `shown` says how far readers of all partitions see this one; it is asked while a switch is not finished everywhere.
    """

    def __init__(
        self,
        core: Core,
        views: Sequence[str],
        since: int | None,
        until: int | None = None,
        shown: Callable[[], int] | None = None,
    ) -> None:
        self.since = since  # all up to there is given; None: nothing yet
        self.more = True  # there may be more that is committed already
        self._core = core
        self._views = views
        self._until = until
        self._shown = shown

    @property
    def done(self) -> bool:
        """Whether it is where it is to end."""
        return self.since is not None and self._until is not None and self.since >= self._until

    def step(self) -> Iterator[Changes]:
        """The next changes, whole commits, about so many as are to be in memory at once; to be read to the end."""
        more, since, switch = self._read()
        self.since = since
        if more:
            yield more
        self.more = switch or len(more) >= _READ
        if switch:
            with Snapshot(self._core) as snap:
                reached(snap, since)  # else what was before may be gone by now
                self.since = since + 1
                names = list(self._views) or snap.schema.followed()
                yield from _parts(differing(snap.reader(), snap.schema, names, since + 1))

    def _read(self) -> tuple[Changes, int, bool]:
        """The next changes; the position up to which these are all; and whether a switch comes then."""
        out = Changes()
        with Snapshot(self._core) as snap, snap.naming():
            since = snap.state.followed if self.since is None else self.since
            reached(snap, since)
            names = list(self._views) or snap.schema.followed()
            generations = snap.schema.generations(names)
            codecs: dict[int, RowReading] = {number: codec for number, (_, codec) in generations.items()}
            end = snap.state.position if self._until is None else min(self._until, snap.state.position)
            if snap.schema.catalog.unfinished is not None and self._shown is not None:
                end = min(end, self._shown())
            switch = next_switch(snap.schema, names, since)
            if switch is not None and switch > end:
                switch = None
            stop = feed_key(end + 1 if switch is None else switch)
            for position, commit in read_told(snap.reader(), since, codecs, stop):
                for told in commit:
                    own = told.apart()
                    out.add(generations[own.view][0], decode_keys(own.groups), own.old, own.new, position)
                if len(out) >= _READ:
                    return out, position, False
            if switch is not None:
                return out, switch - 1, True
            return out, max(since, end), False
