"""The command that builds views whose definitions changed, or only previews them.

The summary is on standard output. With --dry-run the command prints a page on a terminal, and one JSON object
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import click

from penstock.cli.command_frame import command, load_app, open_reader, open_writer
from penstock.cli.context import DONE, NO, Context
from penstock.cli.json_values import dumps
from penstock.cli.progress import parts
from penstock.cli.rows_output import cell_text, emit
from penstock.engine import StoreWriter
from penstock.views import ABSENT, App, Migrated, Preview

__all__ = ["bring_up", "migrate"]

_FORMATS = ("table", "json")


@command(
    "migrate",
    app=True,
    store=True,
    examples=["penstock migrate --dry-run", "penstock migrate", "penstock migrate --dry-run | jq .changes"],
)
@click.option("--dry-run", is_flag=True, help="Only print the views that would be built, with some of their rows.")
@click.option(
    "--format",
    "format",
    type=click.Choice(_FORMATS),
    help="The format of --dry-run (a table on a terminal, else json).",
)
def migrate(ctx: Context, dry_run: bool, format: str | None) -> int:
    """Build the views whose definition in the app differs from the store, and drop views that the app no longer has.

    Until all are complete, readers see the former views. Then they see all new ones at once. An interrupted build
    continues where it stopped. With --dry-run nothing is changed, and the exit code is 1 if anything would be. Code is
    compared by its syntax: changes of comments, docstrings and layout don't count.
    """
    app = load_app(ctx)
    if dry_run:
        with open_reader(ctx, app) as engine:
            preview = engine.preview(app)
        for_people = ctx.terminal if format is None else format == "table"
        click.echo(_page(ctx, preview) if for_people else dumps(_data(preview)))
        return NO if preview.changes else DONE
    with open_writer(ctx, app, migrate=True) as writer:
        ctx.say(str(_migrated(ctx, writer, app)))
    return DONE


def bring_up(ctx: Context, writer: StoreWriter, app: App) -> None:
    """Build the remaining views. Print a line if there were any."""
    done = _migrated(ctx, writer, app)
    if done.changes:
        ctx.note(str(done))


def _migrated(ctx: Context, writer: StoreWriter, app: App) -> Migrated:
    with parts(ctx) as tell:
        from penstock.engine import described

        return writer.migrate_as(described(app), lambda done, total: tell("building views", done, total))


def _page(ctx: Context, preview: Preview) -> str:
    """Return the preview as text for people."""
    if not preview.changes:
        return str(Migrated((), 0, 0))
    return "\n".join(_lines(ctx, preview))


def _lines(ctx: Context, preview: Preview) -> Iterator[str]:
    yield _drawn(ctx, [[c.view, c.kind.value, c.why] for c in preview.changes], ["view", "is", "why"])
    work = [
        f"{n:,} {of}" for n, of in ((preview.documents, "documents"), (preview.rows, "rows of views and joins")) if n
    ]
    if work:
        yield f"{' and '.join(work)} would be read, in about {_time(preview.seconds)} without other writers;"
    yield f"{preview.groups:,} groups would be replaced"
    of = "of all documents" if preview.all else f"of {preview.sampled:,} documents alone"
    if preview.sample:
        rows = [[s.view, s.group, _cell(s.old), _cell(s.new)] for s in preview.sample]
        yield f"\nsome rows, {of}:\n" + _drawn(ctx, rows, ["view", "group", "is", "would be"]).rstrip()
    for view, (n, reason) in preview.held.items():
        yield f"{view} could not take {n:,} {of}: {cell_text(reason)}"
    yield "\n`penstock migrate` builds them"


def _cell(result: Any) -> Any:
    return "" if result is ABSENT else result


def _drawn(ctx: Context, rows: list[list[Any]], columns: list[str]) -> str:
    out = StringIO()
    emit(ctx, rows, columns, "table", out)
    return out.getvalue()


def _time(seconds: float) -> str:
    """Return a duration for people.

    >>> _time(0.3), _time(95), _time(9000)
    ('a second', '95 seconds', '150 minutes')
    """
    if seconds < 1.5:
        return "a second"
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _data(preview: Preview) -> dict[str, Any]:
    sample = [
        {"view": s.view, "group": s.group}
        | {name: value for name, value in (("old", s.old), ("new", s.new)) if value is not ABSENT}
        for s in preview.sample
    ]
    return {
        "changes": [change.data() for change in preview.changes],
        "documents": preview.documents,
        "rows": preview.rows,
        "groups": preview.groups,
        "seconds": round(preview.seconds, 3),
        "sampled": preview.sampled,
        "all": preview.all,
        "sample": sample,
        "held": {view: {"documents": n, "reason": reason} for view, (n, reason) in preview.held.items()},
    }
