"""The command for the quarantine: list, show, retry and drop its entries.

Entries that remain after a retry or a drop are named on standard error with the reason. The exit code is then 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import click

from penstock.cli.command_frame import command, input_of, load_app, open_reader, open_writer, view_of
from penstock.cli.context import DONE, NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import pretty
from penstock.cli.name_completion import input_names, view_names
from penstock.cli.progress import parts
from penstock.cli.rows_output import OutputColumn, cell_text, emit, format_option
from penstock.recovery import EntryFilter, Quarantined, QuarantineKind, Settled
from penstock.views import App

_LIST, _SHOW, _RETRY, _DROP = _ACTIONS = ("list", "show", "retry", "drop")
_DOING = {_RETRY: "retrying", _DROP: "dropping"}
_KINDS = [kind.value for kind in QuarantineKind]
_COLUMNS = ("id", "kind", "table", "view", "key", "source", "place", "reason")
_EVERYTHING = tuple(field.name for field in fields(Quarantined))


@command(
    "quarantine",
    app=True,
    store=True,
    examples=[
        "penstock quarantine",
        "penstock quarantine list --kind record --table users",
        "penstock quarantine show r17",
        "penstock quarantine retry --view namecount",
        "penstock quarantine drop r17 r18",
    ],
)
@click.argument("action", metavar="[ACTION]", type=click.Choice(_ACTIONS), default=_LIST)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--kind",
    type=click.Choice(_KINDS),
    help="Only entries of this kind: rejected records, held documents, held groups.",
)
@click.option(
    "--table", metavar="NAME", shell_complete=input_names, help="Only entries of this table and the views on it."
)
@click.option("--view", metavar="NAME", shell_complete=view_names, help="Only entries of this view.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N entries.")
@click.option("--resting", is_flag=True, help="List dropped documents too. They are ignored until their next version.")
@format_option
def quarantine(
    ctx: Context,
    action: str,
    ids: tuple[str, ...],
    kind: str | None,
    table: str | None,
    view: str | None,
    limit: int | None,
    resting: bool,
    format: str | None,
) -> int:
    """List, show, retry or drop what is in quarantine: rejected records, held documents, held groups.

    A document is held for a view that can't accept it. A group is held if a reducer fails on it. ACTION is `list` (the
    default), `show`, `retry` or `drop`. `list` prints entries with their reasons. `show` prints all that is stored of
    them: the received bytes, the document, the view's last emission, the traceback.

    `retry` tries again: a record from its bytes, a document in its current version, a group from its contributions.
    `drop` forgets a record. For a document, the view removes its contributions, and ignores it until its next version.

    Each ID names an entry. Without IDs the options select the entries. `drop` needs an ID or one of --kind, --table and
    --view. Exit code 1: an entry remained, or doesn't exist.
    """
    app = load_app(ctx)
    if table is not None:
        input_of(app, table)
    if view is not None:
        view_of(app, view)
    wanted = EntryFilter.of(ids or None, kind, table, view, limit, resting)
    if action in (_LIST, _SHOW):
        return _entry_cells(ctx, app, wanted, action == _SHOW, format)
    if action == _DROP and wanted.everything:
        raise ExitError("drop needs a selection; give IDs, or --kind, --table or --view", WRONG)
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        settle = writer.retry if action == _RETRY else writer.drop
        settled = settle(**wanted.asked(), progress=lambda done, total: tell(_DOING[action], done, total))
    return _outcome(ctx, settled)


def _entry_cells(ctx: Context, app: App, wanted: EntryFilter, whole: bool, format: str | None) -> int:
    with open_reader(ctx, app) as engine:
        asked = wanted.asked()
        found = engine.quarantine(**asked, resting=wanted.resting)
        first = next(found, None)
        if first is None:
            ctx.note("nothing of that is in quarantine")
            return DONE if wanted.ids is None else NO
        entries = chain([first], found)
        if whole and format is None and ctx.terminal:
            for i, entry in enumerate(entries):
                click.echo(("\n" if i else "") + "\n".join(_page(entry)))
        else:
            names: Sequence[str] = _EVERYTHING if whole else _COLUMNS
            emit(ctx, _rows(entries, names), [OutputColumn(name, empty=True) for name in names], format)
    return DONE


def _rows(entries: Iterable[Quarantined], columns: Sequence[str]) -> Iterable[list[Any]]:
    for entry in entries:
        yield [_value(entry, name) for name in columns]


def _value(entry: Quarantined, name: str) -> Any:
    """Return a field as it is shown: bytes of text as text."""
    value = getattr(entry, name)
    if isinstance(value, QuarantineKind):
        return value.value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def _page(entry: Quarantined) -> Iterable[str]:
    """Yield the lines of an entry for people: one for each field, then the traceback."""
    own = {name: _value(entry, name) for name in _EVERYTHING}
    trace = own.pop("traceback")
    if entry.document is not None and entry.data is not None:
        del own["data"]
    known = {name: value for name, value in own.items() if value is not None and value is not False}
    wide = max(map(len, known))
    for name, value in known.items():
        text = cell_text(value) if isinstance(value, str) else pretty(value)
        yield f"{name:{wide}}  " + text.replace("\n", "\n" + " " * (wide + 2))
    if trace:
        yield "\n" + "\n".join(map(cell_text, trace.rstrip().split("\n")))


def _outcome(ctx: Context, settled: Settled) -> int:
    ctx.say(str(Settled(**{name: getattr(settled, name) for name in _COUNTS})))
    for left in settled.why:
        click.echo(f"left: {cell_text(str(left))}", err=True)
    more = settled.left - len(settled.why)
    if more > 0:
        click.echo(f"left: and {more:,} more", err=True)
    return NO if settled.left else DONE


_COUNTS = tuple(field.name for field in fields(Settled) if field.name != "why")
