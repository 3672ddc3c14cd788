"""Routes of views: one row, pages of rows, and the documents behind a result."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from penstock.cache import encode_key
from penstock.serve.http.parameters import flag, group, known, number, optional_group
from penstock.serve.http.responses import JSON, RequestRefused, json_bytes, json_response, position_json, unchanged
from penstock.serve.store.row_pages import PageRequest, RowPage, read_page
from penstock.serve.store.store_reading import StoreReading
from penstock.views import json_text

__all__ = ["ViewRoutes"]

_ROWS, _MOST_ROWS = 100, 10_000
_CONTRIBUTIONS = 10_000
_ABSENT = object()


class ViewRoutes:
    """The routes of views, over one store."""

    def __init__(self, store: StoreReading) -> None:
        self._store = store

    async def get(self, request: Request) -> Response:
        """Return the result of a group."""
        known(request, "group")
        name, asked = request.path_params["name"], group(request, "group")
        encode_key(asked)  # a group of a wrong kind is an error, not an absent row
        with self._store.snapshot() as snap:
            view = snap.view(name)
            tag = unchanged(request, name, snap.position)
            if isinstance(tag, Response):
                return tag
            try:
                row = view.row(asked)
            except KeyError:
                raise RequestRefused(404, "no row", f"view {name!r} has no row of this group") from None
            body = {"key": row.key, "value": row.value, "held": row.held, "position": position_json(snap.position)}
            if view.as_of is not None:
                body["as_of"] = position_json(view.as_of)
        return json_response(body, headers=tag)

    async def rows(self, request: Request) -> Response:
        """Return a page of rows in group order, and a link to the next page."""
        known(request, "start", "stop", "prefix", "reverse", "limit", "level", "cursor")
        limits = {name: optional_group(request, name, _ABSENT) for name in ("start", "stop", "prefix")}
        asked = PageRequest(
            request.path_params["name"],
            {name: value for name, value in limits.items() if value is not _ABSENT},
            flag(request, "reverse"),
            number(request, "limit", _ROWS, _MOST_ROWS) or 1,
            number(request, "level", None, 1000),
            request.query_params.get("cursor"),
        )
        page = await self._store.read(lambda: self._page(asked))
        headers = {}
        if page.cursor is not None:
            query = {**request.query_params, "cursor": page.cursor}
            headers["link"] = f'<{request.url.path}?{urlencode(query)}>; rel="next"'
        return Response(_text(page), 200, headers, JSON)

    def _page(self, asked: PageRequest) -> RowPage:
        with self._store.snapshot() as snap:
            return read_page(self._store.reader, snap, asked, json_bytes)

    async def why(self, request: Request) -> Response:
        """Return the contributions behind a result."""
        known(request, "group", "documents")
        name, asked, documents = request.path_params["name"], group(request, "group"), flag(request, "documents")
        return json_response(await self._store.read(lambda: self._why(name, asked, documents)))

    def _why(self, name: str, asked: Any, documents: bool) -> dict[str, Any]:
        with self._store.snapshot() as snap:
            found = snap.view(name).why(asked)
            out: list[dict[str, Any]] = []
            for own in found[:_CONTRIBUTIONS]:
                out.append({"key": own.key, "rank": own.rank, "value": own.value, "held": own.held})
                if documents:
                    out[-1]["document"] = own.document
            return {"contributions": out, "total": len(found), "position": position_json(snap.position)}


def _text(page: RowPage) -> bytes:
    """Return a page as JSON."""
    rest = {"position": position_json(page.position)} | ({"cursor": page.cursor} if page.cursor else {})
    return b'{"rows": [%b], %b\n' % (b", ".join(page.texts), json_text(rest)[1:].encode())
