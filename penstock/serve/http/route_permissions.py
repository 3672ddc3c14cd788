"""The permission check of a route, after the gate has found the token of the request."""

from __future__ import annotations

from starlette.requests import Request

from penstock.serve.access.access_tokens import AccessToken, Permission
from penstock.serve.http.gate import TOKEN
from penstock.serve.http.responses import RequestRefused
from penstock.views import App

__all__ = ["check_allowed"]


def check_allowed(request: Request, needs: Permission | None, app: App) -> None:
    """Refuse a call that the role or the tables of its token do not allow. A call that needs nothing may have none."""
    if needs is None:
        return
    token: AccessToken = request.scope[TOKEN]
    if needs not in token.role.permissions:
        raise _forbidden(f"the access token {token.name!r} has the role {token.role.value}; this needs {needs.value}")
    if token.tables is None:
        return
    for name in _names(request):
        if name is None or not _tables(app, name) <= token.tables:
            about = "all tables" if name is None else repr(name)
            listed = ", ".join(sorted(token.tables))
            raise _forbidden(f"the access token {token.name!r} is limited to {listed}, and this is about {about}")


def _names(request: Request) -> list[str | None]:
    """Return the tables and views of a call; None stands for all of them."""
    if "name" in request.path_params:
        return [request.path_params["name"]]
    return list(request.query_params.getlist("view")) or [None]


def _tables(app: App, name: str) -> frozenset[str]:
    """Return the tables below a table or view; for an unknown name a set that no token has."""
    if name in {table.name for table in app.tables()}:
        return frozenset([name])
    if name in {view.name for view in app.views()}:
        return frozenset(table.name for table in app.view_of(name).source.tables)
    return frozenset([""])


def _forbidden(message: str) -> RequestRefused:
    return RequestRefused(403, "not allowed", message)
