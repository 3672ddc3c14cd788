"""The commands that repair: repost, restate, check. Other processes may write meanwhile.

Each repaired group is a row on standard output: the view, the group, its result before and after, and the reason. If
there was no row, that result is null. A summary is on standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from penstock.cache import RecordError, StoreMissing, Tell
from penstock.cli.command_frame import command, load_app, open_writer, table_of
from penstock.cli.context import DONE, NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import group_of, object_of
from penstock.cli.name_completion import all_names, table_names
from penstock.cli.progress import parts
from penstock.cli.rows_output import OutputColumn, emit, format_option
from penstock.engine import damaged_pages_at, is_store
from penstock.recovery import Repaired
from penstock.views import ABSENT, Progress, Table

_COLUMNS = ("view", "group", OutputColumn("old", empty=True), OutputColumn("new", empty=True), "what")


@command(
    "repost",
    app=True,
    store=True,
    examples=["""penstock repost users '{"id": 1001, "name": "Sam"}'"""],
)
@click.argument("table", shell_complete=table_names)
@click.argument("documents", metavar="JSON...", nargs=-1, required=True)
@format_option
def repost(ctx: Context, table: str, documents: tuple[str, ...], format: str | None) -> None:
    """Post values that documents of TABLE may once have had, each a JSON object in single quotes.

    No document changes. Every group of such a value gets the contributions of the current documents. So do the groups
    of the document with its key. A view that holds that document takes it if it can. The command prints the groups that
    were wrong. For a correct store it prints none.
    """
    app = load_app(ctx)
    table_of(app, table)
    for place, text in enumerate(documents, 1):
        what = "the argument" if len(documents) == 1 else f"argument {place} of {len(documents)}"
        object_of(text, what)
    values = {table: [text.encode("utf-8", "surrogateescape") for text in documents]}
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        try:
            found = writer.repost_many(values, progress=_as_progress(tell))
        except RecordError as error:
            raise ExitError(f"a value can't have been a document of table {table!r}: {error.reason}", WRONG) from None
    print_repairs(ctx, found, format)


@command(
    "restate",
    app=True,
    store=True,
    examples=["penstock restate namecount Sam", "penstock restate users 1001", "penstock restate namecount"],
)
@click.argument("name", shell_complete=all_names)
@click.argument("key_or_group", metavar="[KEY|GROUP]", required=False)
@format_option
def restate(ctx: Context, name: str, key_or_group: str | None, format: str | None) -> None:
    """Repair results of views from the remembered emissions of the documents.

    NAME is a table and KEY the key of a document, for all groups of that document. Or NAME is a view and GROUP one of
    its groups. Without KEY or GROUP it is the whole view, or all views of the table. Both are JSON, a list where they
    are tuples. Text that isn't JSON is taken as text. The command prints the groups that were wrong. For a correct
    store it prints none.
    """
    app = load_app(ctx)
    definition = app.lookup(name)
    wanted = None if key_or_group is None else group_of(key_or_group)
    if key_or_group is not None and wanted is None and isinstance(definition, Table):
        raise ExitError(f"no document of table {name!r} has the key null; for the text, write '\"null\"'", WRONG)
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        found = writer.restate(name, wanted, progress=_as_progress(tell))
    print_repairs(ctx, found, format)


@command(
    "check",
    app=True,
    store=True,
    examples=["penstock check", "penstock check --fix", "penstock check --format csv > wrong.csv"],
)
@click.option("--fix", is_flag=True, help="Restate the groups that differ.")
@format_option
def check(ctx: Context, fix: bool, format: str | None) -> int:
    """Read the whole store, and compare views with the contributions of the documents. Others may write meanwhile.

    The command prints the groups that are wrong, with stored and correct results, and any other damage. Documents that
    a view can't accept count as held. Documents for which a function would yield another emission now count as told
    otherwise. Neither is wrong. Exits with 1 if anything is wrong that --fix has not repaired.
    """
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    app = load_app(ctx)
    with parts(ctx) as tell:  # before the store is opened, because LMDB may crash on damaged pages
        damaged = damaged_pages_at(ctx.store, _as_progress(tell))
    for line in damaged:
        click.echo(f"damaged: {line}", err=True)
    if damaged:
        ctx.note(f"{len(damaged):,} damaged; the rest of the store was not read")
        return NO
    with open_writer(ctx, app) as writer, parts(ctx) as tell:
        report = writer.check(fix, progress=_as_progress(tell))
    if report.wrong:
        emit(ctx, map(_row, report.wrong), _COLUMNS, format)
    for line in report.anew:
        click.echo(f"damaged, and made anew: {line}", err=True)
    for line in report.damaged:
        click.echo(f"damaged: {line}", err=True)
    for what, counted in (("held", report.held), ("with another emission now", report.told)):
        for view, n in counted.items():
            ctx.detail(f"{what}: {view}: {n:,}")
    ctx.note(str(report))
    if report.wrong and not fix:
        ctx.note("`penstock check --fix` restates what is wrong")
    return DONE if report.ok else NO


def print_repairs(ctx: Context, found: Sequence[Repaired], format: str | None = None) -> None:
    """Print the repaired groups, and a summary."""
    if found:
        emit(ctx, map(_row, found), _COLUMNS, format)
        many = "1 group was" if len(found) == 1 else f"{len(found):,} groups were"
        ctx.note(f"{many} wrong and {'is' if len(found) == 1 else 'are'} right now")
    else:
        ctx.note("nothing was wrong")


def _row(one: Repaired) -> tuple[object, ...]:
    group, old, new = (None if value is ABSENT else value for value in (one.group, one.old, one.new))
    return one.view, group, old, new, one.what.why


def _as_progress(tell: Tell) -> Progress:
    return lambda done, total: tell("reading", done, total)
