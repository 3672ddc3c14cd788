"""All routes of the HTTP API, as one table for the server, the documentation of the API, and the tests."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.cache import PenstockError
from penstock.serve.access.access_tokens import Permission
from penstock.serve.http.event_stream import EventStreams
from penstock.serve.http.gate import TEMPLATE, TOKEN
from penstock.serve.http.openapi import description_of
from penstock.serve.http.operation_routes import OperationRoutes
from penstock.serve.http.parameters import known
from penstock.serve.http.quarantine_routes import QuarantineRoutes
from penstock.serve.http.responses import RequestRefused, error_answer, json_response, refused
from penstock.serve.http.route_permissions import check_allowed
from penstock.serve.http.table_routes import TableRoutes
from penstock.serve.http.view_routes import ViewRoutes
from penstock.serve.operations.operation_kinds import KINDS
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.position_watch import PositionWatch
from penstock.serve.store.store_reading import StoreReading
from penstock.views import App

__all__ = ["HttpRoute", "HttpService", "routes_of_api"]

ErrorAnswer = Callable[[Request, RequestRefused | PenstockError], Response]
_log = logging.getLogger("penstock.serve")
_READ, _WRITE = Permission.READ, Permission.WRITE


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A method and a path; `needs` is the permission, or None for all."""

    method: str
    path: str
    needs: Permission | None
    handler: Callable[[Request], Awaitable[Response]]

    def called(self, app: App, runner: OperationRunner) -> Callable[[Request], Awaitable[Response]]:
        """Return the function that notes the route for the meters, checks the token, and calls the handler."""

        async def call(request: Request) -> Response:
            request.scope[TEMPLATE] = self.path
            try:
                check_allowed(request, self.needs, app)
            except RequestRefused as error:
                if self.needs in (Permission.OPERATE, Permission.ADMIN):
                    runner.refused(f"{self.method} {self.path}", request.scope[TOKEN].name, str(error))
                raise
            return await self.handler(request)

        return call


class HttpService:
    """The routes of one front over its store."""

    def __init__(self, store: StoreReading, runner: OperationRunner) -> None:
        self.store = store
        self._runner = runner
        self.operations = OperationRoutes(store, runner)
        self.stopping = False
        """True while the server drains: /readyz tells load balancers to send no more requests."""
        self.watch = PositionWatch(store)
        self.events = EventStreams(store, self.watch)
        tables, views, operations = TableRoutes(store), ViewRoutes(store), self.operations
        self.routes = [
            HttpRoute("GET", "/v1/status", _READ, self._status),
            HttpRoute("GET", "/v1/tables/{name}", _READ, tables.get),
            HttpRoute("POST", "/v1/tables/{name}", _WRITE, tables.post),
            HttpRoute("DELETE", "/v1/tables/{name}", _WRITE, tables.delete),
            HttpRoute("GET", "/v1/views/{name}", _READ, views.get),
            HttpRoute("GET", "/v1/views/{name}/rows", _READ, views.rows),
            HttpRoute("GET", "/v1/views/{name}/why", _READ, views.why),
            HttpRoute("GET", "/v1/events", _READ, self.events.get),
            HttpRoute("GET", "/v1/quarantine", _READ, QuarantineRoutes(store).get),
            *(HttpRoute("POST", kind.path, kind.permission, operations.start(kind)) for kind in KINDS.values()),
            HttpRoute("GET", "/v1/operations", _READ, operations.listed),
            HttpRoute("GET", "/v1/operations/{number}", _READ, operations.get),
            HttpRoute("GET", "/v1/operations/{number}/events", _READ, operations.events),
            HttpRoute("POST", "/v1/operations/{number}/cancel", Permission.ADMIN, operations.cancel),
            HttpRoute("GET", "/healthz", None, self._health),
            HttpRoute("GET", "/readyz", None, self._ready),
            HttpRoute("GET", "/openapi.json", None, self._openapi),
        ]

    def end_streams(self) -> None:
        """End all streams, after the data that they are sending."""
        self.events.end()
        self.operations.end()

    def application(self, pages: Sequence[HttpRoute] = (), answer: ErrorAnswer = error_answer) -> Starlette:
        """Return the ASGI application, with the pages of a console. `answer` makes the response of an error."""

        async def refuse(request: Request, error: Any) -> Response:
            return answer(request, error)

        async def unknown(request: Request, error: Any) -> Response:
            """Answer a path or method that no route has."""
            text = f"there is no {request.method} {request.url.path}; /openapi.json lists all routes"
            return answer(request, RequestRefused(error.status_code, "no route", text, error.headers))

        handlers: dict[Any, Any] = {
            RequestRefused: refuse,
            PenstockError: refuse,
            HTTPException: unknown,
            Exception: _failed,
        }
        routes = [
            Route(own.path, own.called(self.store.app, self._runner), methods=[own.method])
            for own in (*self.routes, *pages)
        ]
        return Starlette(routes=routes, exception_handlers=handlers)

    async def _status(self, request: Request) -> Response:
        known(request)
        return json_response(await self.store.read(self.store.reader.status))

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, request: Request) -> Response:
        trouble = "the server is stopping" if self.stopping else await self.store.trouble()
        if trouble is not None:
            return PlainTextResponse(f"{trouble}\n", 503, {"retry-after": "1"})
        return PlainTextResponse("ready\n")

    async def _openapi(self, request: Request) -> Response:
        known(request)
        return json_response(description_of())


def routes_of_api() -> list[tuple[str, str]]:
    """Return method and path of each route, without a store."""
    return [(method.upper(), path) for path, own in description_of()["paths"].items() for method in own]


async def _failed(request: Request, error: Exception) -> Response:
    """Answer a fault of this package."""
    _log.error("%s %s failed", request.method, request.scope.get(TEMPLATE))
    return refused(RequestRefused(500, "fault", "this is a fault of penstock itself; the server's log has the details"))
