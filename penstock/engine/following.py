"""Following the feed, from any process: whole commits, each by a short snapshot, so that no page is held back.

Where a view took the place of what it was before, the differences of all its groups are one commit, which is read in
one snapshot however long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cache import DefinitionError, decode_key
from penstock.engine.differing import differing, next_switch
from penstock.engine.snapshot import Snapshot
from penstock.mapreduce import RowReading, feed_key, read_feed, same_result
from penstock.views import ABSENT, Change, PositionAhead, PositionExpired

if TYPE_CHECKING:
    from penstock.engine.core import Core

_READ = 1_000  # changes that are in memory at once, about
_LOOK = 0.01  # seconds between two looks of one who follows

Wait = Callable[[float], object]


def follow(
    core: Core,
    views: Sequence[str],
    since: int | None,
    on: bool,
    initial: bool,
    wait: Wait,
    live: Callable[[], bool],
) -> Iterator[Change]:
    """The changes of these views since a position, or all that the feed has; and what comes if it goes `on`.

    What can't be followed is refused here; what there is at first is read when the first change is asked for.
    """
    if since is not None and (isinstance(since, bool) or not isinstance(since, int)):
        raise DefinitionError(f"since= is {since!r}; write a position, as snapshots and changes have them")
    if since is not None and initial:
        raise DefinitionError("since= and initial=True are two places to begin at; leave one out")
    with Snapshot(core) as snap:
        for name in views:
            if initial or name not in snap.schema.followed():
                snap.view(name)  # which says why not
        if since is not None:
            _reached(snap, since)
    return _follow(core, views, since, on, initial, wait, live)


def _reached(snap: Snapshot, since: int) -> None:
    """The store came to this position, and the feed has what came after it."""
    if since > snap.position:
        raise PositionAhead(since, snap.position)
    if since < snap.state.followed:
        raise PositionExpired(since, snap.state.followed)


def _follow(
    core: Core,
    views: Sequence[str],
    since: int | None,
    on: bool,
    initial: bool,
    wait: Wait,
    live: Callable[[], bool],
) -> Iterator[Change]:
    if initial:
        with Snapshot(core) as snap:
            since = snap.position
            for name in list(views) or list(snap.schema.views):
                for row in snap.view(name):
                    yield Change(name, row.key, ABSENT, row.value, since)
    while live():
        more, since, switch = _since(core, views, since)
        yield from more
        if switch:
            with Snapshot(core) as snap:
                _reached(snap, since)  # else what was before may be gone by now
                since += 1
                yield from differing(snap.reader(), snap.schema, list(views) or snap.schema.followed(), since)
        elif len(more) < _READ:
            if not on:
                return
            wait(_LOOK)


def _since(core: Core, views: Sequence[str], since: int | None) -> tuple[list[Change], int, bool]:
    """The next changes, whole commits; the position up to which these are all; and whether a switch comes then."""
    out: list[Change] = []
    with Snapshot(core) as snap, snap.naming():
        if since is None:
            since = snap.state.followed
        _reached(snap, since)
        names = list(views) or snap.schema.followed()
        generations = snap.schema.generations(names)
        codecs: dict[int, RowReading] = {number: codec for number, (_, codec) in generations.items()}
        switch = next_switch(snap.schema, names, since)
        stop = None if switch is None else feed_key(switch)
        for position, change in read_feed(snap.reader(), since, codecs, stop):
            if len(out) >= _READ and position != out[-1].position:
                return out, out[-1].position, False
            name, codec = generations[change.view]
            old = ABSENT if change.old is None else codec.result(change.old)
            new = ABSENT if change.new is None else codec.result(change.new)
            if old is ABSENT or new is ABSENT or not same_result(old, new):
                out.append(Change(name, decode_key(change.group), old, new, position))
        if switch is not None:
            return out, switch - 1, True
        return out, max(since, snap.position), False
