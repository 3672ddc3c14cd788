"""Changes for open pages: one read of the feed per view and frame, for all pages together.

A frame has the last result of each group that changed since the frame before. Invariants:

- there is at most one frame per 250 ms, or per 100 ms while few groups change; a change after a rest comes at once;
- only the last frames are kept. A page that missed one reads the feed itself, or loads its rows again;
- a frame of more than `MOST_CHANGES` changes has no rows of that view, and pages load theirs again.

So memory depends on neither the number of pages nor the rate of changes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.cache import PenstockError, encode_key
from penstock.serve.console.store_numbers import StoreNumbers
from penstock.serve.store.position_watch import PositionWatch
from penstock.views import Position, PositionAhead, PositionExpired

__all__ = ["MOST_CHANGES", "FrameChanges", "LiveFrame", "LivePulse", "read_changes"]

MOST_CHANGES = 20_000
_PAUSE = 0.25  # seconds between two frames
_SHORT = 0.1  # the same, after a frame of few changes
_FEW = 100
_IDLE = 1.0  # seconds after which a frame comes without a change, as rates fall
_KEPT = 4  # frames


@dataclass(frozen=True, slots=True)
class FrameChanges:
    """The changes of one view: their number, and by encoded group the group, its first old and its last new result.

    `groups` is None if there were too many.
    """

    count: int
    groups: Mapping[bytes, tuple[Any, Any, Any]] | None


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """The changes after one position up to another, and the numbers of the store then."""

    number: int
    since: Position
    position: Position
    seconds: float
    changes: Mapping[str, FrameChanges]
    numbers: Mapping[str, str]
    points: Mapping[str, float]


def read_changes(facts: StoreNumbers, view: str, since: Position, until: Position) -> FrameChanges:
    """Read the changes of a view, merged by group. A position that has left the feed counts as too many changes."""
    groups = dict[bytes, tuple[Any, Any, Any]]()
    count = 0
    try:
        for part in facts.store.reader.feed(view, since=since, until=until):
            count += len(part)
            if count > MOST_CHANGES:
                return FrameChanges(count, None)
            for group, old, new in zip(part.groups, part.old, part.new, strict=True):
                key = encode_key(group)
                before = groups.get(key)
                groups[key] = (group, old if before is None else before[1], new)
    except (PositionExpired, PositionAhead):
        return FrameChanges(count, None)
    return FrameChanges(count, groups)


class LivePulse:
    """The frames of one front, made while pages are open."""

    def __init__(self, facts: StoreNumbers, watch: PositionWatch) -> None:
        self._facts = facts
        self._watch = watch
        self._views: Counter[str] = Counter()
        self.frames: deque[LiveFrame] = deque(maxlen=_KEPT)
        self._number = 0
        self._pages = 0
        self._next = asyncio.Event()  # replaced by the next one with each frame
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def follow(self, views: Iterable[str]) -> Iterator[None]:
        """Make frames with these views while a page is open."""
        listed = list(views)
        self._views.update(listed)
        self._pages += 1
        try:
            with self._watch.follow():
                if self._task is None or self._task.done():
                    self.frames.clear()
                    self._task = asyncio.create_task(self._run())
                yield
        finally:
            self._views.subtract(listed)
            self._views += Counter()  # drops views without a page
            self._pages -= 1
            if self._task is not None and not self._pages:
                self._task.cancel()
                self._task = None

    async def after(self, number: int) -> list[LiveFrame]:
        """Return the frames after a number, once there is one; none after the end."""
        while not self._watch.ended:
            found = [frame for frame in self.frames if frame.number > number]
            if found:
                return found
            if self._task is None or self._task.done():
                break  # it failed, so the page connects again, and begins another
            await self._next.wait()
        return []

    async def _run(self) -> None:
        try:
            await self._make_frames()
        finally:
            self._wake()

    def _wake(self) -> None:
        following, self._next = self._next, asyncio.Event()
        following.set()

    async def _make_frames(self) -> None:
        clock = asyncio.get_running_loop().time
        position: Position = None
        made = clock()
        while not self._watch.ended:
            moved = await self._watch.wait(position, _IDLE)
            if self._watch.ended:
                break
            if not moved and position is None:
                continue  # the store could not be read yet
            until = self._watch.position if moved else position
            read = partial(self._read, list(self._views), position, until)
            try:
                changes, numbers, points = await self._facts.store.read(read)
            except PenstockError:  # the store is being replaced; pages continue with the next frame
                await asyncio.sleep(_IDLE)
                continue
            self._number += 1
            now = clock()
            self.frames.append(LiveFrame(self._number, position, until, now - made, changes, numbers, points))
            position, made = until, now
            self._wake()
            if moved:
                many = sum(own.count for own in changes.values()) > _FEW
                await asyncio.sleep(_PAUSE if many else _SHORT)

    def _read(
        self, views: list[str], since: Position, until: Position
    ) -> tuple[dict[str, FrameChanges], dict[str, str], dict[str, float]]:
        """Read the changes of the views, the numbers, and the last point of each plot."""
        changes = dict[str, FrameChanges]()
        if since is not None:
            for view in views:
                same = since == until
                changes[view] = FrameChanges(0, {}) if same else read_changes(self._facts, view, since, until)
        plots = self._facts.samples.plots()
        points = {name: values[-1] for name, values in plots.items() if values}
        return changes, self._facts.numbers(), points
