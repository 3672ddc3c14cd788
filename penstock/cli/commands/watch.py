"""The command that watches views: it prints their changes as any process commits them.

On a terminal it is a table that is redrawn in place. Elsewhere each change is a JSON object on a line, or a row of CSV.
Output is flushed before the next look at the feed. The command ends with success at the first signal, or when the
reader of its output ends.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from penstock.cli.command_frame import command, load_app, open_reader, view_by_name
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, loads, spelt
from penstock.cli.name_completion import view_names
from penstock.cli.rows_output import SAFE_CSV, emit, formats, write_array
from penstock.cli.running.feed_steps import FeedSteps
from penstock.cli.signals import Stop
from penstock.engine import Engine
from penstock.views import ABSENT, Change, Position

_LOOK = 0.02  # seconds between two looks
_DRAW = 0.1  # seconds between two pages


class _Position(click.ParamType[Position]):
    """A position as a user types it: a number, or a list of the numbers of all partitions."""

    name = "position"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        """Return the position of a text."""
        try:
            own = loads(value) if isinstance(value, str) else value
        except ValueError:
            own = None
        numbers = own if isinstance(own, list) else [own]
        if not numbers or any(type(one) is not int or one < 0 for one in numbers):
            self.fail(f"{value!r} is no position; write it as `watch` prints it: 1200, or '[1200, 873]'", param, ctx)
        return own


@command(
    "watch",
    app=True,
    store=True,
    examples=[
        "penstock watch namecount",
        "penstock watch namecount revenue",
        "penstock watch namecount --since 1200 | jq .group",
        "penstock watch namecount --since '[1200, 873]'",
        "penstock watch namecount --format csv > changes.csv",
    ],
)
@click.argument("views", nargs=-1, required=True, metavar="VIEW...", shell_complete=view_names)
@click.option(
    "--since", type=_Position(), metavar="P", help="Print all changes after this position, instead of new ones only."
)
@click.option("--early", is_flag=True, help="Also show changes of weak and auto views whose batch is not saved yet.")
@formats("The format of changes (a live table on a terminal, else jsonl: a JSON object per line).")
def watch(ctx: Context, views: tuple[str, ...], since: Position | None, early: bool, format: str | None) -> None:
    """Print the changes of each VIEW as they are committed, until Ctrl-C.

    On a terminal it is a table of groups with their current and former values, and their rates of change. In a pipe
    each change is a JSON object on a line: view, group, old, new, position. `old` is missing for an added group, `new`
    for a removed one. --since takes the position of the last change that you have. The feed keeps the last 1,000,000
    changes. If it no longer reaches back to P, that is an error.

    In a store of several partitions a position is a list of numbers, one for each. A view with production="weak" or
    "auto" can show contributions before their batch is saved. These changes appear when it is saved, or at once with
    --early.
    """
    if format == "table" and not ctx.terminal:
        raise ExitError("--format table needs a terminal; write jsonl, json or csv here", WRONG)
    app = load_app(ctx)
    names = list(dict.fromkeys(views))
    with Stop() as stop, open_reader(ctx, app) as engine:
        with engine.snapshot() as snap:
            for name in names:
                view_by_name(snap, name)
        if ctx.terminal and format in (None, "table"):
            _on_terminal(ctx, engine, names, since, early, lambda: stop.asked)
        else:
            steps = FeedSteps(engine, names, _now(engine, early) if since is None else since, early)
            ctx.detail(f"from position {spelt(steps.position)} on")
            _in_pipe(ctx, _coming(steps, lambda: stop.asked), format)


def _now(engine: Engine, early: bool) -> Position:
    with engine.snapshot() as snap:
        return snap.position if early else snap.saved


def _in_pipe(ctx: Context, changes: Iterator[Change], format: str | None) -> None:
    if format in ("csv", SAFE_CSV):
        emit(ctx, map(_row, changes), ("view", "group", "old", "new", "position"), format)
    elif format == "json":
        write_array((dumps(change.data()) for change in changes), sys.stdout)
    else:
        for change in changes:
            sys.stdout.write(dumps(change.data()) + "\n")


def _row(change: Change) -> tuple[Any, ...]:
    old, new = (None if value is ABSENT else value for value in (change.old, change.new))
    return change.view, change.group, old, new, change.position


def _coming(steps: FeedSteps, stopped: Callable[[], bool]) -> Iterator[Change]:
    """Yield the changes as they are committed. Output is flushed before the next look at the feed."""
    gone = _gone()
    while not stopped() and not gone():
        for changes, _ in steps.step():
            yield from changes
            sys.stdout.flush()
            if stopped():
                return
        time.sleep(_LOOK)


def _gone() -> Callable[[], bool]:
    """Return a function that tests whether the reader of standard output has closed it, without a write."""
    try:
        file = sys.stdout.fileno()
    except (OSError, ValueError):
        return lambda: False
    poll = select.poll()
    poll.register(file, 0)  # poll always reports errors
    return lambda: bool(poll.poll(0))


def _on_terminal(
    ctx: Context,
    engine: Engine,
    names: Sequence[str],
    since: Position | None,
    early: bool,
    stopped: Callable[[], bool],
) -> None:
    from penstock.cli.drawing.watch_table import WatchTable, drawing

    live, room = drawing(ctx.color)
    board = WatchTable(names, room)
    if since is None:
        with engine.snapshot() as snap:
            since = snap.position if early else snap.saved
            for name in names:
                board.show(name, islice(snap.view(name), board.room // len(names)))
    steps = FeedSteps(engine, names, since, early)
    with live:
        drawn = 0.0
        while not stopped():
            for changes, _ in steps.step():
                board.take(changes)
                if stopped():
                    break
            if time.monotonic() - drawn >= _DRAW:
                drawn = time.monotonic()
                live.update(board.page(steps.position, live.console.width), refresh=True)
            time.sleep(_LOOK)
