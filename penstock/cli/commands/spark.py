"""The commands that process a whole store in Spark tasks: backfill and verify."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from penstock.cache import StoreMissing, size_text, value_text
from penstock.cli.command_frame import command, load_app, table_of
from penstock.cli.context import DONE, NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.name_completion import table_names, view_names
from penstock.cli.progress import parts
from penstock.cli.rows_output import OutputColumn, emit, format_option
from penstock.engine import copy_size, is_store
from penstock.spark import Backfilled, Difference, session
from penstock.spark import backfill as fill
from penstock.spark import verify as verified
from penstock.spout import Uri, file_size
from penstock.views import ABSENT, App

master_option = click.option(
    "--spark",
    "master",
    metavar="MASTER",
    help="Where Spark runs, as in local[4] or spark://host:7077 (else all cores of this machine).",
)


@command(
    "backfill",
    app=True,
    store=True,
    examples=[
        "penstock backfill users=users.jsonl",
        "penstock backfill users=dump/users orders=orders.csv.gz --spark 'local[4]' --store state",
        "penstock backfill users=users.jsonl --refill",
        "penstock backfill 'users=kafka://host:9092/users?until=2026-01-31T12:00:00Z'",
        "penstock backfill users=dump/users --refill --offset users=kafka:users/0=5150",
    ],
)
@click.argument("sources", metavar="TABLE=URI...", nargs=-1, required=True, shell_complete=table_names)
@master_option
@click.option(
    "--staging",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="A folder for results of tasks that all workers and this machine share (else beside the store).",
)
@click.option("--refill", is_flag=True, help="Rebuild these tables of an existing store, and switch to them.")
@click.option(
    "--offset",
    "offsets",
    metavar="SOURCE=OFFSET",
    multiple=True,
    help="The offset from which another source continues, by its name in `penstock status`.",
)
def backfill(
    ctx: Context,
    sources: tuple[str, ...],
    master: str | None,
    staging: str | None,
    refill: bool,
    offsets: tuple[str, ...],
) -> int:
    """Fill a new store and all its views and joins from files, in Spark tasks. The result equals that of `load`.

    A URI is a path, of a file that `load` reads or of a folder of such files, or file:PATH?format=csv. Files of one
    table are read in the order in which they are named, and `load` continues where they ended. A folder has no order:
    of versions with equal ts the one with the greater bytes wins. The number of such ties is printed.

    For a topic, kafka://HOST:PORT/TOPIC with the options of `run`, each partition is read to its end, or to a time
    under until=. `run` continues there. The store appears when it is complete, not before. After a kill the next run
    starts again. On one machine `load` is faster.

    With --refill the store exists, and others may write it meanwhile. The named tables, and all views and joins on
    them, are rebuilt beside it. Name all tables of a join. Records that are written to them meanwhile are applied on
    top. Then readers see all of it at once, and sources continue from the printed offsets. If a topic was dumped at
    known offsets, --offset names them.
    """
    app = load_app(ctx)
    given, known = _table_inputs(app, sources), _offsets(offsets)
    if refill is not is_store(ctx.store):
        if refill:
            raise StoreMissing(ctx.store)
        raise ExitError(
            f"{ctx.store} is a store already; name a new folder with --store, or add --refill to make these tables "
            "anew; `penstock load` adds to them",
            WRONG,
        )
    with parts(ctx) as tell:
        tell("starting Spark", 0, 0)
        spark = session(master)
        try:
            done = fill(
                app,
                ctx.store,
                spark=spark,
                staging=staging,
                progress=tell,
                refill=refill,
                offsets=known,
                tables=given,
            )
        finally:
            spark.stop()
    _print_line(ctx, done, refill)
    return NO if done.rejected else DONE


def _table_inputs(app: App, sources: Sequence[str]) -> dict[str, list[str]]:
    """Return the sources of each table, in order."""
    given: dict[str, list[str]] = {}
    for text in sources:
        table, sign, uri = text.partition("=")
        if not sign or not uri:
            raise ExitError(f"{text!r} names no table and source; write TABLE=PATH, as in users=users.jsonl", WRONG)
        given.setdefault(table_of(app, table).name, []).append(uri)
        path = uri if os.path.lexists(uri) else Uri.parse(uri).rest
        if Uri.parse(uri).scheme == "file" and not os.path.isdir(path):
            file_size(path)  # raises for a bad file before Spark starts
    return given


def _offsets(texts: Sequence[str]) -> dict[str, int]:
    """Return the offsets at which sources continue."""
    out: dict[str, int] = {}
    for text in texts:
        source, sign, offset = text.rpartition("=")
        if not sign or "=" not in source or not (offset.isascii() and offset.isdigit()):
            raise ExitError(
                f"--offset {text!r} names no source and offset; write it as in users=kafka:users/0=5150", WRONG
            )
        out[source] = int(offset)
    return out


def _print_line(ctx: Context, done: Backfilled, refill: bool) -> None:
    for table, n in done.documents.items():
        ctx.say(f"{table}: {n:,} documents")
    for view, n in done.rows.items():
        held = f", {done.held[view]:,} held" if done.held.get(view) else ""
        ctx.say(f"{view}: {n:,} rows{held}")
    if done.ties:
        ctx.note(f"{done.ties:,} versions had equal ts and different bytes: the greater bytes won")
    if done.rejected:
        ctx.note(f"{done.rejected:,} records were rejected; `penstock quarantine list` shows them")
    for source, offset in done.sources.items():
        back = ": it was further on, begin it again" if source in done.back else ""
        (ctx.note if refill else ctx.detail)(f"{source} goes on at {offset:,}{back}")
    ctx.detail(", ".join(f"{stage}: {seconds:.1f} s" for stage, seconds in done.seconds.items()))
    spent = sum(seconds for stage, seconds in done.seconds.items() if stage != "start")
    if spent:
        ctx.note(f"{done.records / spent:,.0f} records/s, without the start of Spark")


_SHOWN = 20  # documents that are named
_COLUMNS = ("view", "group", OutputColumn("stored", empty=True), OutputColumn("expected", empty=True), "documents")


@command(
    "verify",
    app=True,
    store=True,
    examples=["penstock verify", "penstock verify revenue --fix", "penstock verify --spark 'local[4]' --snapshot copy"],
)
@click.argument("views", metavar="[VIEW]...", nargs=-1, shell_complete=view_names)
@master_option
@click.option("--fix", is_flag=True, help="Restate the groups that differ, through the holder of the store.")
@click.option(
    "--snapshot",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The copy to read. It is made if it does not exist, and kept (else one beside the store, removed).",
)
@click.option(
    "--against",
    metavar="TABLE=URI",
    multiple=True,
    shell_complete=table_names,
    help="The source of a table, to find missing and older documents. Repeat the option for several.",
)
@format_option
def verify(
    ctx: Context,
    views: tuple[str, ...],
    master: str | None,
    fix: bool,
    snapshot: str | None,
    against: tuple[str, ...],
    format: str | None,
) -> int:
    """Recompute views, all unless some are named, from a copy of the store, and compare the results.

    The recomputation shares no code with the incremental path. The command prints the groups that differ: the stored
    and the correct result, and keys of documents behind them. The copy is made while others write. Documents that a
    view can't accept count as held. Documents for which a function would yield another emission now count as told
    otherwise. Neither is wrong. Exits with 1 if any group differs that --fix has not repaired.
    """
    app = load_app(ctx)
    for name in views:
        app.view_of(name)
    sources = _table_inputs(app, against)
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    if snapshot is None or not is_store(snapshot):
        size = copy_size(ctx.store, snapshot or ctx.store)
        where = "beside the store, removed at the end" if snapshot is None else f"in {snapshot}"
        ctx.note(f"the copy takes {size_text(size)} {where}")
    with parts(ctx) as tell:
        spark = session(master)
        try:
            found = verified(
                app, ctx.store, views, spark=spark, snapshot=snapshot, against=sources, fix=fix, progress=tell
            )
        finally:
            spark.stop()
    if found.wrong:
        emit(ctx, map(_row, found.wrong), _COLUMNS, format)
    for one in found.stale[:_SHOWN]:
        ctx.note(f"{one.table} {value_text(one.key)}: {'missing' if one.stored is ABSENT else 'stale'}")
    for table, n in found.beyond.items():
        ctx.note(f"{table}: {n:,} documents are not in the source")
    for what, counted in (("held", found.held), ("with another emission now", found.told)):
        for view, n in counted.items():
            ctx.detail(f"{what}: {view}: {n:,}")
    ctx.note(str(found))
    if fix and not found.ok:
        ctx.note(f"{len(found.stale):,} documents were put, {len(found.repaired):,} groups restated")
    elif not found.ok:
        ctx.note("`penstock verify --fix` puts and restates what differs")
    return DONE if found.ok or fix else NO


def _row(one: Difference) -> tuple[object, ...]:
    stored, expected = (None if value is ABSENT else value for value in (one.stored, one.expected))
    return one.view, one.group, stored, expected, list(one.by)
