"""The console of one front: its pages, their JSON twins, their live values, scripts and styles.

A page is a function from parameters to plain data, and a template for the data. All pages work without scripts.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from penstock.cache import PenstockError
from penstock.serve.access.access_tokens import AccessToken, Permission
from penstock.serve.console import store_pages
from penstock.serve.console.action_pages import ActionPages
from penstock.serve.console.document_page import document_data, table_data
from penstock.serve.console.live_stream import LiveStream
from penstock.serve.console.page_parameters import PageParameters
from penstock.serve.console.page_rendering import PageRendering, cell_text, wants_page
from penstock.serve.console.sign_in import SignIn
from penstock.serve.console.static_files import StaticFiles
from penstock.serve.console.store_numbers import StoreNumbers, visible_numbers
from penstock.serve.console.store_samples import StoreSamples
from penstock.serve.console.view_page import view_data
from penstock.serve.console.why_page import why_data
from penstock.serve.http.gate import TOKEN
from penstock.serve.http.responses import RequestRefused, error_answer
from penstock.serve.http.route_permissions import check_allowed
from penstock.serve.http.routes import HttpRoute
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.position_watch import PositionWatch
from penstock.serve.store.store_reading import StoreReading
from penstock.views import json_text

__all__ = ["Console", "routes_of_console"]

PageData = Callable[[StoreNumbers, PageParameters], dict[str, Any]]

_PAGES: dict[str, tuple[str, PageData]] = {
    "/": ("overview.html", store_pages.overview_data),
    "/graph": ("graph.html", store_pages.graph_data),
    "/views/{name}": ("view.html", view_data),
    "/views/{name}/why": ("why.html", why_data),
    "/tables/{name}": ("table.html", table_data),
    "/quarantine": ("quarantine.html", store_pages.quarantine_data),
    "/repair": ("repair.html", store_pages.repair_data),
    "/partitions": ("partitions.html", store_pages.partitions_data),
    "/sources": ("sources.html", store_pages.sources_data),
    "/feed": ("feed.html", store_pages.feed_data),
    "/metrics-page": ("metrics.html", store_pages.metrics_data),
}

_MORE = ("/sign-in", "/live", "/static/{name}", "/actions/{kind}", "/operations", "/operations/{number}", "/audit")


class Console:
    """The pages of one front."""

    def __init__(self, store: StoreReading, watch: PositionWatch, runner: OperationRunner) -> None:
        self.samples = StoreSamples(store)
        self.facts = StoreNumbers(store, self.samples)
        self.live = LiveStream(self.facts, watch)
        self._store = store
        self._rendering = PageRendering(store.app.name)
        self.sign_in = SignIn(self._rendering)
        files = StaticFiles()
        self.routes = [
            HttpRoute("GET", "/sign-in", None, self.sign_in.get),
            HttpRoute("POST", "/sign-in", None, self.sign_in.post),
            HttpRoute("POST", "/sign-out", Permission.READ, self.sign_in.sign_out),
            HttpRoute("GET", "/static/{name}", None, files.get),
            HttpRoute("GET", "/live", Permission.READ, self.live.get),
        ]
        actions = ActionPages(self.facts, runner, self._rendering)
        self.routes += [
            HttpRoute("GET", "/actions/{kind}", Permission.READ, actions.get),
            HttpRoute("POST", "/actions/{kind}", Permission.READ, actions.post),
            HttpRoute("GET", "/operations", Permission.READ, actions.operations),
            HttpRoute("GET", "/operations.json", Permission.READ, actions.operations),
            HttpRoute("GET", "/operations/{number}", Permission.READ, actions.operation),
            HttpRoute("POST", "/operations/{number}/cancel", Permission.ADMIN, actions.cancel),
            HttpRoute("GET", "/audit", Permission.OPERATE, actions.audit),
            HttpRoute("GET", "/audit.json", Permission.OPERATE, actions.audit),
        ]
        for path, (template, data) in _PAGES.items():  # a page checks the permission itself, once it knows the name
            twins = ["/index.json"] if path == "/" else [] if path.endswith("{name}") else [f"{path}.json"]
            for own in (path, *twins):
                handler = partial(self._page, template, data)
                self.routes.append(HttpRoute("GET", own, None, handler))

    def close(self) -> None:
        """End the sampling."""
        self.samples.close()

    async def _page(self, template: str, data: PageData, request: Request) -> Response:
        self.samples.ask()
        app = self._store.app
        asked = PageParameters.of(request, app.names())
        if asked.name:
            request.scope["path_params"] = {**request.path_params, "name": asked.name}
        check_allowed(request, Permission.READ, app)
        if template == "table.html" and asked.given("key") is not None:
            template, data = "document.html", document_data
        found = await self._store.read(partial(data, self.facts, asked))
        token: AccessToken = request.scope[TOKEN]
        if "numbers" in found:
            found["numbers"] = visible_numbers(found["numbers"], token.tables, app)
        if asked.format in ("csv", "jsonl"):
            return _file(asked, found)
        return self._rendering.response(request, template, found, twin=asked.format == "json")

    def error(self, request: Request, error: RequestRefused | PenstockError) -> Response:
        """Return the page of an error, or its JSON for a program."""
        answer = error_answer(request, error)
        if not wants_page(request) or request.url.path.startswith("/v1/"):
            return answer
        path = request.url.path
        if answer.status_code == 303:
            return answer
        if answer.status_code == 401:
            place = "" if path == "/" else f"?{urlencode({'next': _place(request)})}"
            return Response(status_code=303, headers={"location": f"/sign-in{place}", "cache-control": "no-store"})
        facts = {"status": answer.status_code, "message": str(error), "nearest": getattr(error, "nearest", None)}
        return self._rendering.response(request, "error.html", facts, answer.status_code)

    def refusal(self, scope: MutableMapping[str, Any], error: RequestRefused) -> Response:
        """Return the answer to a request that the gate refused."""
        return self.error(Request(scope), error)


def routes_of_console() -> list[tuple[str, str]]:
    """Return method and path of each page, without a store."""
    return [("GET", path) for path in (*_PAGES, *_MORE)]


def _place(request: Request) -> str:
    return quote(request.url.path) + (f"?{request.url.query}" if request.url.query else "")


def _file(asked: PageParameters, found: Mapping[str, Any]) -> Response:
    """Return the rows of a view as a file. The header `link` names the next part."""
    if "rows" not in found or "columns" not in found:
        raise RequestRefused(404, "no file", f"{asked.name} has no rows to export; add .json for its data")
    headers = {"content-disposition": f'attachment; filename="{asked.name}.{asked.format}"'}
    if found["cursor"]:
        query = {**asked.query, "cursor": found["cursor"]}
        headers["link"] = f'</views/{quote(asked.name)}.{asked.format}?{urlencode(query)}>; rel="next"'
    if asked.format == "jsonl":
        lines = [json_text({"key": row["key"], "value": row["value"], "held": row["held"]}) for row in found["rows"]]
        return Response("".join(f"{line}\n" for line in lines), headers=headers, media_type="application/x-ndjson")
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["key", *found["columns"]])
    table.writerows([cell_text(row["key"]), *_values(row["value"], found["columns"])] for row in found["rows"])
    return Response(out.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")


def _values(value: Any, columns: list[str]) -> list[str]:
    if columns == ["value"] or not isinstance(value, dict):
        return [cell_text(value)]
    return [cell_text(value.get(name)) for name in columns]
