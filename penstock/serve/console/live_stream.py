"""The event stream of one open page: the numbers that it shows, and the rows of its view that changed.

Events: `state` has numbers that differ from those sent before, `rows` has changed rows, and `reload` means that the
page must load its rows again. The id of an event is the position, so a page that was hidden continues there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.cache import PenstockError
from penstock.serve.access.access_tokens import AccessToken
from penstock.serve.console.live_pulse import FrameChanges, LiveFrame, LivePulse, read_changes
from penstock.serve.console.store_numbers import StoreNumbers, rate_text, visible_numbers
from penstock.serve.console.view_page import cells_of, columns_of
from penstock.serve.http.gate import TOKEN
from penstock.serve.http.parameters import position as position_of
from penstock.serve.http.responses import RequestRefused, position_json
from penstock.serve.store.position_watch import PositionWatch
from penstock.views import ABSENT, Position, View, json_text

__all__ = ["LiveStream"]

_MOST_ROWS = 500
_MOST_PAGES = 100


@dataclass(frozen=True, slots=True)
class _PageRows:
    """The rows of a view that a page shows. They are between two encoded groups, given as hexadecimal texts."""

    view: View
    columns: list[str]
    start: str
    stop: str


class LiveStream:
    """The streams of all open pages of one front."""

    def __init__(self, facts: StoreNumbers, watch: PositionWatch) -> None:
        self._facts = facts
        self.pulse = LivePulse(facts, watch)
        self.pages = 0

    async def get(self, request: Request) -> Response:
        """Send the numbers, and with `view` the changes of its rows between `start` and `stop` after `since`."""
        if self.pages >= _MOST_PAGES:
            raise RequestRefused(429, "too many pages", f"{_MOST_PAGES} pages are open", {"retry-after": "5"})
        query = request.query_params
        shown = None
        if "view" in query:
            view = self._facts.store.app.view_of(query["view"])
            shown = _PageRows(view, columns_of(view), query.get("start", ""), query.get("stop", "g"))
        asked = request.headers.get("last-event-id") or query.get("since")
        since = None if asked is None else _stored(position_of(asked, "since"))
        token: AccessToken = request.scope[TOKEN]
        tables = token.tables
        self._facts.samples.ask()
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._sent(shown, since, tables), media_type="text/event-stream", headers=headers)

    async def _sent(
        self, shown: _PageRows | None, since: Position, tables: frozenset[str] | None
    ) -> AsyncIterator[bytes]:
        self.pages += 1
        numbers, points, last = dict[str, str](), dict[str, float](), 0
        try:
            with self.pulse.follow([] if shown is None else [shown.view.name]):
                yield b"retry: 2000\n\n"
                while frames := await self.pulse.after(last):
                    self._facts.samples.ask()
                    for frame in frames:
                        found = visible_numbers(frame.numbers, tables, self._facts.store.app)
                        state = {name: text for name, text in found.items() if numbers.get(name) != text}
                        numbers |= found
                        plotted = frame.points if frame.points != points and tables is None else {}
                        points = dict(frame.points)
                        if shown is not None:
                            before = frame.position if since is None else since
                            yield await self._rows(shown, frame, before)
                        since, last = frame.position, frame.number
                        yield _event(since, "state", {"numbers": state, "points": plotted})
        finally:
            self.pages -= 1

    async def _rows(self, shown: _PageRows, frame: LiveFrame, since: Position) -> bytes:
        """Return the event of the rows that changed between `since` and the frame."""
        found = frame.changes.get(shown.view.name) if since == frame.since else None
        if since == frame.position:
            found = FrameChanges(0, {})
        elif found is None:
            read = partial(read_changes, self._facts, shown.view.name, since, frame.position)
            try:
                found = await self._facts.store.read(read)
            except PenstockError:  # the definition has gone, so the page must ask anew
                found = FrameChanges(0, None)
        if found.groups is None:
            return _event(frame.position, "reload", {"changes": found.count})
        rows = [
            _row(shown, key.hex(), *one) for key, one in found.groups.items() if shown.start <= key.hex() < shown.stop
        ]
        data = {
            "rows": rows[-_MOST_ROWS:],
            "rate": rate_text(found.count / frame.seconds if frame.seconds else 0.0),
            "changes": found.count,
        }
        return _event(frame.position, "rows", data)


def _row(shown: _PageRows, order: str, group: Any, old: Any, new: Any) -> dict[str, Any]:
    if new is ABSENT:
        return {"order": order, "gone": True}
    return {
        "order": order,
        "key": group if isinstance(group, str) else json_text(group),
        "group": json_text(group),
        "cells": cells_of(new, shown.columns),
        "delta": _delta(old, new),
    }


def _delta(old: Any, new: Any) -> str:
    """Return the changes of numbers as text.

    >>> _delta({"n": 1, "total": 2.5}, {"n": 2, "total": 2.5}), _delta(3, 1), _delta(ABSENT, 1)
    ('n +1', '-2', 'new')
    """
    if old is ABSENT:
        return "new"
    if isinstance(old, dict) and isinstance(new, dict):
        each = [(name, _delta(old.get(name), own)) for name, own in new.items() if old.get(name) != own]
        return ", ".join(f"{name} {text}" for name, text in each if text)
    both = isinstance(old, Number) and isinstance(new, Number)
    return f"{float(str(new)) - float(str(old)):+.6g}" if both and type(new) is not bool is not type(old) else ""


def _stored(given: Any) -> Position:
    return tuple(given) if isinstance(given, list) else given


def _event(at: Position, name: str, data: dict[str, Any]) -> bytes:
    spelt = json_text(position_json(at)).replace(" ", "")
    return f"event: {name}\nid: {spelt}\ndata: {json_text(data)}\n\n".encode()
