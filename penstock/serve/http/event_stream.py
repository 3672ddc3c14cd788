"""Changes of views as server-sent events, for any number of watchers.

A watcher has a position and no queue: it reads the feed from there when it has written what it read before. So a slow
watcher costs no memory, and it falls behind only until its position leaves the feed. Watchers of the same views at the
same position share one read, and one text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.serve.http.parameters import known, number, position
from penstock.serve.http.responses import RequestRefused, position_json
from penstock.serve.store.change_steps import coalesced, read_step
from penstock.serve.store.position_watch import PositionWatch
from penstock.serve.store.store_reading import StoreReading
from penstock.views import Change, Position, PositionAhead, PositionExpired, json_text

__all__ = ["EventStreams"]

_BEAT = 15.0  # seconds after which an idle stream sends a comment
_MOST = 1_000  # watchers of one front
_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class _SharedRead:
    """The text of some changes, and the position after them."""

    text: bytes
    position: Position


class EventStreams:
    """The watchers of one front."""

    def __init__(self, store: StoreReading, watch: PositionWatch) -> None:
        self._store = store
        self._watch = watch
        self._steps: dict[tuple[Any, ...], asyncio.Task[_SharedRead]] = {}
        self._steps_until: Position = None
        self.watchers = 0

    async def get(self, request: Request) -> Response:
        """Send the changes of views from a position on."""
        known(request, "view", "since", "coalesce")
        views = tuple(dict.fromkeys(request.query_params.getlist("view")))
        pause = (number(request, "coalesce", 0, 60_000) or 0) / 1000
        if self.watchers >= _MOST:
            raise RequestRefused(429, "too many watchers", f"{_MOST:,} watch already", {"retry-after": "1"})
        resumed = request.headers.get("last-event-id", "")
        asked = resumed or request.query_params.get("since")
        since, begin = await self._begin(views, asked, bool(resumed))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._sent(views, since, pause, begin), media_type=_STREAM, headers=headers)

    def end(self) -> None:
        """End all streams, after the changes that they are sending."""
        self._watch.end()

    async def _begin(self, views: Sequence[str], asked: str | None, resumed: bool) -> tuple[Position, bytes]:
        """Return the position to begin at, and the first text."""
        with self._store.snapshot() as snap:
            now = snap.position
            for name in views:
                snap.view(name)  # raises for an unknown one
        since = now if not asked else position(asked, "since")
        try:
            self._store.reader.feed(*views, since=since)
        except (PositionExpired, PositionAhead):
            if not resumed:
                raise
            return now, _event(now, {"oldest": position_json(now)}, "reset")
        return since, b": open\n\n"

    async def _sent(self, views: tuple[str, ...], since: Position, pause: float, begin: bytes) -> AsyncIterator[bytes]:
        self.watchers += 1
        try:
            with self._watch.follow():
                yield begin
                while not self._watch.ended:
                    if not await self._watch.wait(since, _BEAT):
                        if not self._watch.ended:
                            yield b": beat\n\n"
                        continue
                    try:
                        step = await self._step(views, since, bool(pause))
                    except (PositionExpired, PositionAhead) as error:
                        yield _event(since, {"message": str(error)}, "lagged")
                        return
                    since = step.position
                    if step.text:
                        yield step.text
                    if pause:
                        await asyncio.sleep(pause)
        finally:
            self.watchers -= 1

    async def _step(self, views: tuple[str, ...], since: Position, coalesced: bool) -> _SharedRead:
        """Read the next changes, or take the read of another watcher."""
        asked = (views, json_text(position_json(since)), coalesced)
        until = self._watch.position
        if until != self._steps_until:
            self._steps_until = until
            self._steps.clear()
        task = self._steps.get(asked)
        if task is None:
            work = self._store.read(lambda: self._read(views, since, until, coalesced))
            task = self._steps[asked] = asyncio.ensure_future(work)
        return await asyncio.shield(task)

    def _read(self, views: Sequence[str], since: Position, until: Position, merged: bool) -> _SharedRead:
        changes, reached = read_step(self._store.reader, views, since, until)
        found = coalesced(changes) if merged else changes
        return _SharedRead(b"".join(_event(one.position, one.data() | _position(one)) for one in found), reached)


def _position(change: Change) -> dict[str, Any]:
    return {"position": position_json(change.position)}


def _event(at: Position, data: dict[str, Any], name: str = "") -> bytes:
    kind = f"event: {name}\n" if name else ""
    spelt = json_text(position_json(at)).replace(" ", "")
    return f"{kind}id: {spelt}\ndata: {json_text(data)}\n\n".encode()
