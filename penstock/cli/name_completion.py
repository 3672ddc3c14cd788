"""Names of tables and views for shell completion. If the app can't be loaded, there are none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import click

from penstock.cli.app_file import load
from penstock.cli.context import APP
from penstock.cli.exit_errors import ExitError
from penstock.views import App

_Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _names(listed: Callable[[App], list[str]]) -> _Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.params.get("app") or ctx.find_root().params.get("app") or APP
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                app = load(str(given))
        except ExitError:
            return []
        return [name for name in listed(app) if name.startswith(incomplete)]

    return complete


table_names = _names(lambda app: [table.name for table in app.tables()])
input_names = _names(lambda app: [table.name for table in app.inputs()])
stream_names = _names(lambda app: [stream.name for stream in app.streams()])
view_names = _names(lambda app: [view.name for view in app.views()])
all_names = _names(lambda app: list(app.names()))
