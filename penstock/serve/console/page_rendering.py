"""Render a page from its data. The data is plain, and the page's JSON twin is the data itself.

Templates escape every value. A page has no inline script or style, and the browser may load nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from penstock.cache import size_text
from penstock.serve.access.access_tokens import AccessToken
from penstock.serve.console.sparkline import sparkline
from penstock.serve.http.gate import FORM_VALUE, TOKEN
from penstock.serve.http.responses import json_response
from penstock.views import json_text

__all__ = ["HEADERS", "PageRendering", "cell_text", "shown_text", "wants_page"]

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_TEMPLATES = Path(__file__).with_name("templates")


def wants_page(request: Request) -> bool:
    """Return True if a request asks for a page: a browser names text/html."""
    return "text/html" in request.headers.get("accept", "")


class PageRendering:
    """The templates, and the facts that each page shows."""

    def __init__(self, app: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(app=app, sparkline=sparkline, view_link=view_link, why_link=why_link)
        self._environment.globals.update(document_link=document_link, graph_link=graph_link, query=_query)
        self._environment.filters.update(
            json=json_text, size=size_text, spelt=_spelt, many=_many, cell=cell_text, shown=shown_text
        )

    def response(
        self, request: Request, template: str, data: Mapping[str, Any], status: int = 200, twin: bool = False
    ) -> Response:
        """Return the page, or with `twin` its data as JSON."""
        if twin:
            return json_response(data, status, {"cache-control": "no-store", "vary": "accept"})
        return Response(self.text(request, template, data), status, HEADERS | _FRESH, "text/html; charset=utf-8")

    def text(self, request: Request, template: str, data: Mapping[str, Any]) -> str:
        """Return the text of a page."""
        token: AccessToken | None = request.scope.get(TOKEN)
        facts = {
            "user": token,
            "here": request.url.path,
            "form_value": request.scope.get(FORM_VALUE, ""),
            "twin": _twin(request),
        }
        return self._environment.get_template(template).render(**facts, **data)


_FRESH = {"cache-control": "no-store", "vary": "accept, cookie"}


def view_link(name: str, **parameters: Any) -> str:
    """Return the link to a view's page."""
    return f"/views/{quote(name, safe='')}{_query(**parameters)}"


def why_link(name: str, group: Any) -> str:
    """Return the link to the contributions of a group."""
    return f"/views/{quote(name, safe='')}/why{_query(group=json_text(group))}"


def document_link(name: str, key: Any) -> str:
    """Return the link to a document."""
    return f"/tables/{quote(name, safe='')}{_query(key=json_text(key))}"


def graph_link(name: str) -> str:
    """Return the link to the neighbors of a definition."""
    return f"/graph{_query(node=name)}"


def cell_text(value: Any) -> str:
    """Return a value as the text of a cell: a text is itself, another value is JSON.

    >>> cell_text("NO"), cell_text(["NO", 1]), cell_text(None)
    ('NO', '["NO", 1]', 'null')
    """
    return value if isinstance(value, str) else json_text(value)


def shown_text(value: Any) -> str:
    """Return a result as the text of a cell: numbers have separators.

    >>> shown_text(117100.44), shown_text(7138), shown_text(True), shown_text([1000])
    ('117,100.44', '7,138', 'true', '[1000]')
    """
    return f"{value:,}" if type(value) in (int, float) else cell_text(value)


def _query(**parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value is not None and value != ""}
    return f"?{urlencode(given)}" if given else ""


def _twin(request: Request) -> str:
    """Return the address of a page's JSON twin."""
    path = request.url.path
    twin = "/index.json" if path == "/" else f"{path}.json"
    return f"{twin}?{request.url.query}" if request.url.query else twin


def _spelt(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return " + ".join(_spelt(own) for own in value)
    return "–" if value is None else str(value)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
