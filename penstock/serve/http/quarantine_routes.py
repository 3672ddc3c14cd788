"""The route that lists the quarantine, in pages."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.recovery import Quarantined, QuarantineKind
from penstock.serve.http.parameters import flag, known, number
from penstock.serve.http.responses import RequestRefused, json_response
from penstock.serve.store.store_reading import StoreReading
from penstock.views import json_text

__all__ = ["QuarantineRoutes"]

_LIMIT, _MOST = 100, 1_000
_BYTES = 1 << 20  # of one page, but for its last entry
_ALWAYS = ("id", "table", "reason")
_SHORT = ("view", "key", "source", "offset", "place", "ts", "size")
_WHOLE = ("document", "told", "result", "traceback")


class QuarantineRoutes:
    """The routes of the quarantine of one store."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store

    async def get(self, request: Request) -> Response:
        """Return a page of entries; `after` is the id of the last entry of the page before."""
        known(request, "kind", "table", "view", "id", "after", "limit", "resting", "whole")
        asked = dict(request.query_params)
        limit = number(request, "limit", _LIMIT, _MOST) or 1
        ids = request.query_params.getlist("id") or None
        wanted: dict[str, Any] = {"kind": asked.get("kind"), "table": asked.get("table"), "view": asked.get("view")}
        kinds = [kind.value for kind in QuarantineKind]
        if wanted["kind"] not in (None, *kinds):
            raise RequestRefused(400, "bad request", f"kind={wanted['kind']} is none of {', '.join(kinds)}")
        if wanted["table"] is not None:
            self._store.app.table_of(wanted["table"])
        if wanted["view"] is not None:
            self._store.app.view_of(wanted["view"])
        resting, whole = flag(request, "resting"), flag(request, "whole")
        after = asked.get("after")

        def page() -> dict[str, Any]:
            entries = self._store.reader.quarantine(**wanted, ids=ids, resting=resting)
            assert isinstance(entries, Generator), "its snapshot ends with it"
            with closing(entries) as found:
                if after is not None and not any(entry.id == after for entry in found):
                    raise RequestRefused(410, "expired", f"the entry {after} left the quarantine; begin without after=")
                return _page(found, limit, whole)

        return json_response(await self._store.read(page))


def _page(found: Iterator[Quarantined], limit: int, whole: bool) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    size = 0
    for entry in found:
        if len(shown) == limit or size > _BYTES:
            return {"entries": shown, "after": shown[-1]["id"]}
        shown.append(_data(entry, whole))
        size += len(json_text(shown[-1]))
    return {"entries": shown}


def _data(entry: Quarantined, whole: bool) -> dict[str, Any]:
    """Return an entry as JSON values; bytes of text are text."""
    out = {name: getattr(entry, name) for name in _ALWAYS} | {"kind": entry.kind.value}
    names = _SHORT + _WHOLE if whole else _SHORT
    out |= {name: value for name in names if (value := getattr(entry, name)) not in (None, "")}
    if entry.resting:
        out["resting"] = True
    if whole and entry.data is not None and entry.document is None:
        try:
            out["data"] = entry.data.decode()
        except UnicodeDecodeError:
            out["data"] = entry.data
    return out
