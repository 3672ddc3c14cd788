"""The commands that load files into a table. Each batch of lines is committed with the place after it.

So an interrupted load continues at that place. Standard output has one line per file. Standard error has the progress,
the state of the file in the store, and the first rejected records with file and line.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import click

from penstock.cli.command_frame import command, input_of, load_app, open_writer
from penstock.cli.commands.migrate import bring_up
from penstock.cli.context import DONE, INTERRUPTED, NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.name_completion import input_names
from penstock.cli.progress import Bar, progress
from penstock.cli.rows_output import cell_text
from penstock.cli.running.source_batches import LIMIT, check_columns
from penstock.cli.signals import Stop
from penstock.engine import StoreWriter
from penstock.spout import STDIN, FileSpout, ParquetSpout, SpoutBatch, Standing, Uri, file_size, open_file
from penstock.views import App, Counts, Stream, Table

Read = Callable[[SpoutBatch], SpoutBatch]
_WAIT = 0.2  # seconds between two tests of the request to stop
_TOGETHER = 0.05  # seconds within which further lines of a pipe join a load
_LONG = 10_000_000  # bytes from which a second process is worth its start
_SHOWN = 5  # rejections shown of a file
_COLUMNS = 12  # columns that a hint may name
_TOKEN = 40  # characters of a text that stands for null; a longer one is data
_STANDINGS = {
    Standing.BEGUN: "{file}: going on after {unit} {number:,}",
    Standing.GROWN: "{file} has grown: going on after {unit} {number:,}",
    Standing.REPLACED: "{file} is another file than the one that was loaded before: from its first {unit}",
}


@dataclass(slots=True)
class _LoadRun:
    """The state of one run of the command."""

    ctx: Context
    writer: StoreWriter
    table: Table
    stop: Stop
    bar: Bar
    total: int | None
    read: Read | None = None
    counts: Counts = field(default_factory=Counts)
    unended: bool = False  # a file ends inside a line
    once: bool = False  # one of the files can't be read again
    again: bool = False  # from the first line, also of loaded files
    keys: bool = False  # lines are keys to be deleted


@command(
    "load",
    app=True,
    store=True,
    examples=[
        "penstock load users users.jsonl",
        "penstock load users part-*.csv.gz",
        "penstock load events app.log --follow",
        "penstock load flights flights.csv --null NA --null NULL",
        "curl -s https://example.org/users.jsonl | penstock load users -",
    ],
)
@click.argument("table", shell_complete=input_names)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--follow", is_flag=True, help="Follow the one file as it grows, until Ctrl-C, also when it is rotated.")
@click.option("--again", is_flag=True, help="Start at the first line, also of files that were loaded before.")
@click.option(
    "--format-in",
    metavar="FORMAT",
    help="jsonl, csv, tsv or parquet; the first three also packed, as in csv.gz or csv.zst (else by the file's name).",
)
@click.option("--delimiter", metavar="CHAR", help="The separator of CSV cells (else the first row shows it).")
@click.option(
    "--null", "nulls", metavar="TEXT", multiple=True, help="Read a CSV cell with this text as null, as an empty one."
)
def load(
    ctx: Context,
    table: str,
    files: tuple[str, ...],
    follow: bool,
    again: bool,
    format_in: str | None,
    delimiter: str | None,
    nulls: tuple[str, ...],
) -> int:
    """Load files into TABLE: JSON lines, CSV or Parquet, plain or packed with gzip or Zstandard; - is standard input.

    The store remembers its place in each file. So an interrupted load continues there, and a file that has grown is
    read from its former end. A file that is loaded already is reported. A bad line is rejected with its number, and the
    exit code is 1. The first row of CSV names the fields. A CSV cell that is JSON becomes that value. An empty cell, or
    one with the text of a --null, becomes null. Any other cell is text.
    """
    if follow and len(files) > 1:
        raise click.UsageError("--follow takes one file; `penstock run --from TABLE=FILE` follows several")
    app = load_app(ctx)
    target = input_of(app, table)
    return take_files(
        ctx,
        app,
        target,
        files,
        lambda path: open_file(path, table, format_in, delimiter, nulls, follow, again),
        follow,
        again=again,
        migrate=True,
    )


def take_files(
    ctx: Context,
    app: App,
    table: Table,
    given: Sequence[str],
    opened: Callable[[str], FileSpout | ParquetSpout],
    follow: bool = False,
    read: Read | None = None,
    again: bool = False,
    migrate: bool = False,
    keys: bool = False,
) -> int:
    """Load files one after the other: `opened` opens each, and `read` converts its batches. Return the exit code.

    With `keys` the file needs no column for the ts. With `migrate`, views whose definition in the app differs from the
    store are built, and this ends after the last file.
    """
    files = tuple(map(_path, given))
    sizes = [None if path == STDIN else file_size(path) for path in files]
    known = [size for size in sizes if size is not None]
    total = None if follow or len(known) < len(files) else sum(known)
    what = files[0] if len(files) == 1 else f"{len(files)} files"
    with Stop() as stop, open_writer(ctx, app, migrate) as writer, progress(ctx, what, total) as bar:
        run = _LoadRun(ctx, writer, table, stop, bar, total, read, again=again, keys=keys)
        for path, size in zip(files, sizes, strict=True):
            if stop.asked:
                break
            spout = opened(path)
            try:
                _one(run, path, spout, size or 0)
            finally:
                spout.close()
        if migrate and writer.holder is None and not stop.asked:
            bring_up(ctx, writer, app)
    return _ended(run, files, follow)


def take_lines(
    ctx: Context,
    app: App,
    table: Table,
    files: Sequence[str],
    format: str | None,
    read: Read,
    again: bool = False,
    keys: bool = False,
) -> int:
    """Load files whose batches `read` converts. With `keys` each line is a key. Return the exit code."""
    opened = partial(open_file, table=table.name, format=format, again=again, keys=keys)
    return take_files(ctx, app, table, files, opened, read=read, again=again, keys=keys)


def _path(text: str) -> str:
    """Return the path of an argument, which may be a URI."""
    uri = Uri.parse(text)
    if uri.text == uri.rest or os.path.lexists(text):
        return text
    if uri.scheme != "file":
        raise ExitError(f"{text} is no file; `penstock run --from TABLE={text}` takes other sources", WRONG)
    uri.only()
    return uri.rest


def _one(run: _LoadRun, path: str, spout: FileSpout | ParquetSpout, size: int) -> None:
    """Load one file."""
    unit = "row" if isinstance(spout, ParquetSpout) else "line"
    if isinstance(spout, FileSpout):
        spout.stopped = lambda: run.stop.asked
    spout.begin(run.writer.remembered)
    if run.stop.asked:
        return
    run.once |= not spout.contract.exact
    if spout.standing in _STANDINGS:
        run.ctx.note(_STANDINGS[spout.standing].format(file=path, unit=unit, number=spout.number))
    idle = spout.ended
    if idle:
        run.ctx.say(f"{path}: in already, to its end at {unit} {spout.number:,}; --again loads it again")
    if path == STDIN and sys.stdin.isatty():
        run.ctx.note("reading from this terminal; Ctrl-D ends the input")
    before, run.counts, began = run.counts, Counts(), time.monotonic()
    try:
        _batches(run, path, spout, size)
        if isinstance(run.table, Stream) and spout.ended and not run.stop.asked and spout.source is not None:
            run.writer.rest([spout.source], ended=True)
        if not run.counts.records and not idle:
            run.ctx.say(f"{spout.name}: no records")
    finally:
        if run.counts.records:
            run.ctx.say(f"{spout.name}: {_summary(run.counts, began if run.ctx.terminal else None)}")
            _print_rejections(run.counts)
        run.counts += before
    if isinstance(spout, FileSpout) and not run.keys:
        for name, text in spout.odd_columns()[:_COLUMNS]:
            if text.isprintable() and len(text) <= _TOKEN:
                hint = f"`--again --null {shlex.quote(text)}` reads that as null"
                run.ctx.note(
                    f"{path}: column {cell_text(name)!r} has numbers, and else the text {text!r} alone; {hint}"
                )
    if spout.unended and not run.stop.asked:
        run.unended = True
        click.echo(f"{path}: it ends inside line {spout.number + 1:,}, which is left for a later load", err=True)


def _batches(run: _LoadRun, path: str, spout: FileSpout | ParquetSpout, size: int) -> None:
    """Commit batches until the file ends or a stop is requested."""
    whole = spout.lag() or 0
    share = 0 if spout.ended else size if spout.standing is Standing.FRESH else min(whole, size)
    if run.total is not None:
        run.total -= size - share  # loaded lines are no work
        run.bar.total(run.total)
    done = 0
    while not spout.ended and not run.stop.asked:
        first = spout.next_batch(LIMIT, _WAIT)
        if first is None:
            continue
        check_columns(spout, path, run.table, run.keys)
        coming: Iterator[SpoutBatch] = chain([first], _available(spout, run.stop))
        if run.read is not None:
            coming = map(run.read, coming)
        lag = spout.lag()
        long = None if lag is None else lag >= _LONG
        with closing(run.writer.load(run.table.name, coming, long)) as loaded:
            for batch, counts in loaded:
                spout.committed(batch)
                run.counts += counts
                now = share * max(whole - (spout.lag() or 0), 0) // (whole or 1)
                run.bar.advance(max(now - done, 0), counts.records)
                done = max(done, now)


def _available(spout: FileSpout | ParquetSpout, stop: Stop) -> Iterator[SpoutBatch]:
    """Yield the batches that are available at once."""
    wait = 0.0 if spout.contract.exact else _TOGETHER
    while not stop.asked and (batch := spout.next_batch(LIMIT, wait)) is not None:
        yield batch


def _summary(counts: Counts, began: float | None) -> str:
    """Return the counts as text, with the rate on a terminal."""
    text = str(replace(counts, rejections=()))
    if began is None:
        return text
    seconds = time.monotonic() - began
    return f"{text} in {seconds:.1f} s, {counts.records / max(seconds, 1e-3):,.0f}/s"


def _print_rejections(counts: Counts) -> None:
    for rejection in counts.rejections[:_SHOWN]:
        click.echo(f"rejected: {cell_text(f'{rejection.where}: {rejection.reason}')}", err=True)
    if counts.rejected > _SHOWN:
        click.echo(f"rejected: and {counts.rejected - _SHOWN:,} more", err=True)


def _ended(run: _LoadRun, files: Sequence[str], follow: bool) -> int:
    """Print the summary. Return the exit code."""
    if len(files) > 1 and run.counts.records:
        run.ctx.say(f"{len(files)} files: {replace(run.counts, rejections=())}")
    if run.counts.held:
        run.ctx.note("held: a view can't accept a stored document; `penstock status` shows the view and the reason")
    if run.stop.asked and not follow:
        goes_on = f"the same command{' without --again' if run.again else ''} goes on from here"
        click.echo(f"interrupted; {'all records that were read are stored' if run.once else goes_on}", err=True)
        return INTERRUPTED
    return NO if run.counts.rejected or run.unended else DONE
