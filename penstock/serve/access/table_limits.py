"""The check of a token against a call: its role, and the tables behind the name that the call is about."""

from __future__ import annotations

from penstock.serve.access.access_tokens import AccessToken, Permission
from penstock.views import App

__all__ = ["must_be_allowed", "tables_below"]


def must_be_allowed(token: AccessToken, needs: Permission | None, app: App | None = None, *names: str | None) -> None:
    """Raise PermissionError if the role or the tables of a token do not allow a call.

    `names` are the tables and views that the call is about; None stands for all of them.
    """
    if needs is not None and needs not in token.role.permissions:
        raise PermissionError(
            f"the access token {token.name!r} has the role {token.role.value}; this needs {needs.value}"
        )
    if token.tables is None or app is None:
        return
    for name in names:
        if name is None or not tables_below(app, name) <= token.tables:
            about = "all tables" if name is None else repr(name)
            listed = ", ".join(sorted(token.tables))
            raise PermissionError(f"the access token {token.name!r} is limited to {listed}, and this is about {about}")


def tables_below(app: App, name: str) -> frozenset[str]:
    """Return the tables below a table or view; for an unknown name a set that no token has."""
    if name in {table.name for table in app.tables()}:
        return frozenset([name])
    if name in {view.name for view in app.views()}:
        return frozenset(table.name for table in app.view_of(name).source.tables)
    return frozenset([""])
