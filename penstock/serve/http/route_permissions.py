"""The permission check of a route, after the gate has found the token of the request."""

from __future__ import annotations

from starlette.requests import Request

from penstock.serve.access.access_tokens import AccessToken, Permission
from penstock.serve.access.table_limits import must_be_allowed
from penstock.serve.http.gate import TOKEN
from penstock.serve.http.responses import RequestRefused
from penstock.views import App

__all__ = ["check_allowed"]


def check_allowed(request: Request, needs: Permission | None, app: App) -> None:
    """Refuse a call that the role or the tables of its token do not allow. A call that needs nothing may have none."""
    if needs is None:
        return
    token: AccessToken = request.scope[TOKEN]
    try:
        must_be_allowed(token, needs, app, *_names(request))
    except PermissionError as error:
        raise RequestRefused(403, "not allowed", str(error)) from None


def _names(request: Request) -> list[str | None]:
    """Return the tables and views of a call; None stands for all of them."""
    if "name" in request.path_params:
        return [request.path_params["name"]]
    return [*request.query_params.getlist("view"), *request.query_params.getlist("table")] or [None]
