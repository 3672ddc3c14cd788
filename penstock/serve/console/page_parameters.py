"""A request for a page: the name in its path, its parameters, and whether its JSON twin is meant."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from penstock.serve.console.page_rendering import wants_page
from penstock.serve.http.gate import TEMPLATE
from penstock.serve.http.responses import JSON
from penstock.views import group_of_text

__all__ = ["PageParameters", "wants_json"]

_TWINS = ("json", "csv", "jsonl")


def wants_json(request: Request) -> bool:
    """Return True if a request asks for data: it names JSON and no page."""
    return not wants_page(request) and JSON in request.headers.get("accept", "")


@dataclass(frozen=True, slots=True)
class PageParameters:
    """The name and the parameters of a page, and the format of the answer."""

    name: str
    query: dict[str, str]
    format: str

    @classmethod
    def of(cls, request: Request, names: Collection[str]) -> PageParameters:
        """Read a request. A name with a suffix is a twin, unless a definition has the suffix in its own name."""
        name, form = request.path_params.get("name", ""), "html"
        stem, dot, suffix = name.rpartition(".")
        if name not in names and dot and suffix in _TWINS:
            name, form = stem, suffix
        elif request.scope[TEMPLATE].endswith(".json") or wants_json(request):
            form = "json"
        return cls(name, dict(request.query_params), form)

    def group(self, name: str) -> Any:
        """Return the key or group of a parameter; KeyError without it."""
        return group_of_text(self.query[name])

    def given(self, name: str) -> str | None:
        """Return a parameter; None if it is missing or empty, as in a form that was not filled in."""
        return self.query.get(name, "").strip() or None

    def number(self, name: str, default: int, most: int) -> int:
        """Return a number of a parameter, at most `most`; the default for any other text."""
        text = self.query.get(name, "")
        return min(int(text), most) if text.isdecimal() and len(text) < 10 else default


def _wants_json(request: Request) -> bool:
    return not wants_page(request) and JSON in request.headers.get("accept", "")
