"""Follow the feed from any process: whole commits, each read in a short snapshot that retains few old pages.

The switch of a view counts as one commit, with the differences of all its groups. It is read in one snapshot, however
long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import DefinitionError, decode_key, decode_keys, encode_key, key_text
from penstock.core.reading.generation_differences import differing, next_switch
from penstock.core.reading.store_snapshot import Snapshot
from penstock.core.reading.visibility import Span, net_changes, next_span, read_spans, saved_position
from penstock.flow import final_number
from penstock.mapreduce import RowReading, feed_key, read_result_changes
from penstock.views import ABSENT, Change, Changes, Position, PositionAhead, PositionExpired

if TYPE_CHECKING:
    from penstock.core.commit import Core

_READ = 1_000  # approximate changes in memory at once
_LOOK = 0.01  # seconds between two reads of a follower

Wait = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """The changes of views, or of all views, since a position, or all in the feed.

    With `on` the reader waits for further ones. With `until` the feed ends with the changes of that position. With
    `initial` it begins with the rows of the views. `early` also yields changes that are not known to be saved, which
    only partitions have.
    """

    views: Sequence[str]
    since: Position | None
    on: bool
    initial: bool
    until: Position | None
    early: bool
    final: bool = False  # only groups of closed windows


def follow(core: Core, request: FeedRequest, wait: Wait, live: Callable[[], bool]) -> Iterator[Changes]:
    """Yield the changes of a request, in parts of whole commits.

    Only rows and the differences of a switch may be split, since their number is unbounded. Errors are raised by this
    call, before the first change is read.
    """
    for name, position in (("since", request.since), ("until", request.until)):
        if position is not None and (isinstance(position, bool) or not isinstance(position, int | list | tuple)):
            raise DefinitionError(
                f"{name}= is {key_text(position)}; write a position, as snapshots and changes have them"
            )
    with Snapshot(core) as snap:
        followable(snap, request)
        if request.since is not None:
            reached(snap, request.since)
    return _follow(core, request, wait, live)


def followable(snap: Snapshot, request: FeedRequest) -> None:
    """Raise an error for two places to begin at, or for views without changes in the feed or without requested rows."""
    if request.since is not None and request.initial:
        raise DefinitionError("since= and initial=True are two places to begin at; leave one out")
    for name in request.views:
        if request.initial or name not in snap.schema.followed():
            snap.view(name)  # raises the error
        if request.final and snap.schema.view(name, snap.reader()).view.window is None:
            raise DefinitionError(f"view {name!r} has no window, so no group of it is ever final")


def reached(snap: Snapshot, since: Position) -> None:
    """Raise an error if the store has not reached this position, or the feed no longer has the changes since."""
    state = snap.state
    if not isinstance(since, int):  # a position of the store before a repartition
        raise PositionExpired(since, state.followed)
    if since > state.position:
        raise PositionAhead(since, state.position)
    if since < state.followed:
        raise PositionExpired(since, state.followed)


def _follow(core: Core, request: FeedRequest, wait: Wait, live: Callable[[], bool]) -> Iterator[Changes]:
    since = request.since
    if request.initial:
        with Snapshot(core) as snap:
            since = snap.position
            yield from rows_of(snap, request.views, request.final)
    for _, part in steps_of(
        [FeedReader(core, request.views, since, request.until, final=request.final)], request.on, wait, live
    ):
        yield part


def steps_of(
    readers: Sequence[FeedReader], on: bool, wait: Wait, live: Callable[[], bool]
) -> Iterator[tuple[int, Changes]]:
    """Take steps of all readers in turn; yield changes with the index of their reader.

    It ends when all readers are done. Without `on` it also ends when none has more.
    """
    while live():
        left = [(i, reader) for i, reader in enumerate(readers) if not reader.done]
        if not left:
            return
        for i, reader in left:
            for part in reader.step():
                yield i, part
        if not any(reader.more for _, reader in left):
            if not on:
                return
            wait(_LOOK)


def rows_of(snap: Snapshot, views: Sequence[str], final: bool = False) -> Iterator[Changes]:
    """Yield the rows of these views, or of all, as changes from ABSENT; with `final`, those of closed windows."""
    known = snap.schema.views
    for name in list(views) or [name for name in known if not final or known[name].view.window is not None]:
        rows = snap.view(name).items(final=final)
        yield from _parts(Change(name, row.key, ABSENT, row.value, snap.position) for row in rows)


def saved_rows_of(snap: Snapshot, views: Sequence[str]) -> Iterator[Changes]:
    """Yield the rows at the saved position: without changes that are not known to be saved."""
    at = snap.saved
    for name in list(views) or list(snap.schema.views):
        before: dict[bytes, Any] = {}
        for part in snap.parts:
            before |= _before(part, name)
        yield from _parts(_saved_rows(snap, name, before, at))


def _saved_rows(snap: Snapshot, name: str, before: dict[bytes, Any], at: Position) -> Iterator[Change]:
    for row in snap.view(name):
        value = before.pop(encode_key(row.key), row.value) if before else row.value
        if value is not ABSENT:
            yield Change(name, row.key, ABSENT, value, at)
    for group, value in before.items():
        if value is not ABSENT:
            yield Change(name, decode_key(group), ABSENT, value, at)


def _before(part: Snapshot, name: str) -> dict[bytes, Any]:
    """Return, by group, the result at the saved position of groups that changed after it."""
    if part.saved == part.position:
        return {}
    generations = part.schema.generations([name])
    codecs: dict[int, RowReading] = {number: codec for number, (_, codec) in generations.items()}
    found = net_changes(part.reader(), part.saved, part.position, codecs)
    return {group: old for own in found for group, old in zip(own.groups, own.old, strict=True)}


def _parts(changes: Iterable[Change]) -> Iterator[Changes]:
    """Split changes into parts that fit in memory."""
    left = iter(changes)
    while part := Changes.of(islice(left, _READ)):
        yield part


class FeedReader:
    """A reader's position in the feed of one store.

    `shown` returns the position up to which readers of all partitions see this store, while a switch is unfinished.
    Unless it is `early_sets`, a follower yields only saved changes.
    """

    def __init__(
        self,
        core: Core,
        views: Sequence[str],
        since: int | None,
        until: int | None = None,
        shown: Callable[[], int] | None = None,
        early: bool = False,
        final: bool = False,
    ) -> None:
        self._final = final
        self.since = since  # all changes up to there were yielded; None: none yet
        self.more = True  # more changes may be committed already
        self._core = core
        self._views = views
        self._until = until
        self._shown = shown
        self._early = early

    @property
    def position(self) -> int:
        """The position up to which all changes were yielded. Without `since` there is none before the first step."""
        assert self.since is not None, "it begins somewhere"
        return self.since

    @property
    def done(self) -> bool:
        """Return True at the end position."""
        return self.since is not None and self._until is not None and self.since >= self._until

    def step(self) -> Iterator[Changes]:
        """Yield the next whole commits, about as many as fit in memory; the caller must read to the end."""
        changes, since, more, switch = self._read()
        self.since = since
        if changes:
            yield changes
        self.more = more
        if switch:
            with Snapshot(self._core) as snap:
                reached(snap, since)  # otherwise the former rows may be gone
                self.since = since + 1
                names = list(self._views) or snap.schema.followed()
                if self._final:
                    return  # a view that was built again closes its windows anew
                yield from _parts(differing(snap.reader(), snap.schema, names, since + 1))

    def _read(self) -> tuple[Changes, int, bool, bool]:
        """Return the next changes, their last position, and two flags: more follow; a switch is next."""
        out = Changes()
        with Snapshot(self._core) as snap, snap.naming():
            since = snap.state.followed if self.since is None else self.since
            reached(snap, since)
            names = list(self._views) or snap.schema.followed()
            generations = snap.schema.generations(names)
            if self._final:
                generations = {final_number(number): own for number, own in generations.items()}
            codecs: dict[int, RowReading] = {number: codec for number, (_, codec) in generations.items()}
            spans = [] if self._early else read_spans(snap.reader(), snap.state)
            end, span = self._end(snap, spans), next_span(spans, since)
            if span is not None and span[0] <= since + 1:
                if span[1] > end:
                    return out, since, False, False
                for own in net_changes(snap.reader(), since, span[1], codecs):
                    out.add(generations[own.view][0], decode_keys(own.groups), own.old, own.new, span[1])
                return out, span[1], True, False
            switch = next_switch(snap.schema, names, since)
            if switch is not None and switch > end:
                switch = None
            stop = end + 1 if switch is None else switch
            before_span = span is not None and span[0] < stop
            if span is not None and before_span:
                stop, switch = span[0], None
            for position, commit in read_result_changes(snap.reader(), since, codecs, feed_key(stop)):
                for changes in commit:
                    own = changes.apart()
                    out.add(generations[own.view][0], decode_keys(own.groups), own.old, own.new, position)
                if len(out) >= _READ:
                    return out, position, True, False
            return out, max(since, stop - 1), before_span or switch is not None, switch is not None

    def _end(self, snap: Snapshot, spans: Sequence[Span]) -> int:
        """Return the last position to yield now."""
        until = self._until
        for first, last in spans:
            if until is not None and first <= until < last:
                until = last  # the changes of a span come at its end
        end = snap.state.position if self._early else saved_position(snap.state, spans)
        end = end if until is None else min(until, end)
        if snap.schema.catalog.unfinished is not None and self._shown is not None:
            end = min(end, self._shown())
        return end
