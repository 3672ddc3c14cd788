"""The table of commands, and the program.

Invariant: `penstock --help` prints only text of this module, so it imports no command, no engine and no NumPy.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from penstock.cli.command_frame import CommandEntry, Frame, GlobalOptions, global_options

_BEGIN, _WRITE, _READ, _LOOK, _COPY = "To begin", "Write", "Read", "Look inside", "Copies"
_REPAIR = "Repair"

ENTRIES: dict[str, CommandEntry] = {
    "init": CommandEntry(_BEGIN, "penstock.cli.commands.init:init", "Write an app and documents that run at once."),
    "completion": CommandEntry(
        _BEGIN, "penstock.cli.shell_completion:completion", "Print the script for shell completion."
    ),
    "load": CommandEntry(_WRITE, "penstock.cli.commands.load:load", "Load files: JSON lines, CSV, Parquet."),
    "put": CommandEntry(_WRITE, "penstock.cli.commands.records:put", "Put documents."),
    "delete": CommandEntry(_WRITE, "penstock.cli.commands.records:delete", "Delete documents by key."),
    "post": CommandEntry(_WRITE, "penstock.cli.commands.records:post", "Put records that name their table."),
    "run": CommandEntry(_WRITE, "penstock.cli.commands.run:run", "Read records from sources as they arrive."),
    "serve": CommandEntry(_WRITE, "penstock.cli.commands.serve:serve", "Serve the store over HTTP."),
    "advance": CommandEntry(
        _WRITE, "penstock.cli.commands.streams:advance", "State that no older record of a stream will come."
    ),
    "pause": CommandEntry(_WRITE, "penstock.cli.commands.pause:pause", "Pause the sources of `run`."),
    "resume": CommandEntry(_WRITE, "penstock.cli.commands.pause:resume", "Resume the sources of `run`."),
    "backfill": CommandEntry(_WRITE, "penstock.cli.commands.spark:backfill", "Fill a new store in bulk, with Spark."),
    "migrate": CommandEntry(_WRITE, "penstock.cli.commands.migrate:migrate", "Build views whose definitions changed."),
    "get": CommandEntry(_READ, "penstock.cli.commands.query:get", "Print the result of one group of a view."),
    "query": CommandEntry(_READ, "penstock.cli.commands.query:query", "Print the rows of a view, in order."),
    "why": CommandEntry(_READ, "penstock.cli.commands.query:why", "Print the documents behind a result."),
    "watch": CommandEntry(_READ, "penstock.cli.commands.watch:watch", "Print changes of views as they are committed."),
    "doc": CommandEntry(_READ, "penstock.cli.commands.query:doc", "Print a document, its emissions and its joins."),
    "status": CommandEntry(_LOOK, "penstock.cli.commands.status:status", "Show tables, views, sizes and the writer."),
    "watermarks": CommandEntry(
        _LOOK, "penstock.cli.commands.streams:watermarks", "Show up to which time the records of streams have arrived."
    ),
    "late": CommandEntry(_LOOK, "penstock.cli.commands.streams:late", "List the late records that a view set aside."),
    "explain": CommandEntry(
        _LOOK, "penstock.cli.commands.explain:explain", "Show how tables and views depend on each other."
    ),
    "crashtest": CommandEntry(
        _LOOK, "penstock.cli.commands.crashtest:crashtest_", "Crash the app at every place, and check its views."
    ),
    "repost": CommandEntry(_REPAIR, "penstock.cli.commands.repair:repost", "Remove the contributions of old values."),
    "restate": CommandEntry(_REPAIR, "penstock.cli.commands.repair:restate", "Repair results of views."),
    "check": CommandEntry(
        _REPAIR, "penstock.cli.commands.repair:check", "Read the whole store, and compare views with documents."
    ),
    "verify": CommandEntry(_REPAIR, "penstock.cli.commands.spark:verify", "Recompute views from a copy, with Spark."),
    "quarantine": CommandEntry(
        _REPAIR, "penstock.cli.commands.quarantine:quarantine", "List, show, retry or drop rejected and held data."
    ),
    "snapshot": CommandEntry(_COPY, "penstock.cli.commands.copies:snapshot", "Copy the store while it is written."),
    "restore": CommandEntry(_COPY, "penstock.cli.commands.copies:restore", "Replace the store with a copy."),
    "compact": CommandEntry(_COPY, "penstock.cli.commands.copies:compact", "Release the space of old versions."),
    "repartition": CommandEntry(
        _COPY, "penstock.cli.commands.repartition:repartition", "Give the store another number of partitions."
    ),
    "export": CommandEntry(_COPY, "penstock.cli.commands.transfer:export", "Write a table or view to a file."),
    "import": CommandEntry(_COPY, "penstock.cli.commands.transfer:import_", "Read a file that export wrote."),
}


@click.command(
    "penstock",
    cls=Frame,
    entries=ENTRIES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    params=global_options(app=True, store=True, env=True),
    examples=[
        "penstock init",
        "penstock load orders orders.jsonl",
        "penstock query revenue",
        "penstock get --help",
    ],
)
@click.version_option(package_name="penstock", message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context, app: str | None, store: str | None, quiet: bool, verbose: bool) -> None:
    """Keep aggregate views true while their documents change.

    On a terminal results are tables; in a pipe they are JSON, a line for each row, unless --format says otherwise.
    Exit codes: 0 done, 1 the answer is no, 2 used wrongly, 3 failed, 130 interrupted.
    """
    ctx.obj = GlobalOptions(app, store, quiet, verbose)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line of this process."""
    _open_closed()
    sys.stdout.flush()
    raw = io.BufferedWriter(_Output(sys.stdout.fileno(), "w", closefd=False))
    sys.stdout = io.TextIOWrapper(raw, "utf-8", "replace", line_buffering=sys.stdout.isatty())
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    group.main(prog_name="penstock")


class _Output(io.FileIO):
    """Standard output. Its write errors name it."""

    def write(self, data: Any, /) -> int:
        """Write, or raise an error that names standard output."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # so that a flush at exit reports no second error
            raise


def _open_closed() -> None:
    """Open the null device for closed standard streams (`>&-`), so that no other file gets their numbers."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
