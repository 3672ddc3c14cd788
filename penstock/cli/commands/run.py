"""The command that reads sources into tables until they end.

Each source has a thread. It reads a batch, waits for its commit, and reads the next: all records that arrived
meanwhile. So batches are small under low load and large under high load. Invariants:

- After the first signal every batch that was begun is committed, and the exit code is 0. A second Ctrl-C ends the
  process at once, and loses nothing that was committed.
- The first source or sink that fails stops all of them. The command ends with its error.
- Only the main thread writes to the terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from penstock.cache import StoreInUse, hidden
from penstock.cli.command_frame import command, input_of, load_app, open_reader, reach_writer
from penstock.cli.context import DONE, INTERRUPTED, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.name_completion import input_names, view_names
from penstock.cli.running.sink_thread import SinkThread, asked_of, begun
from penstock.cli.running.source_thread import SHOWN, SourceThread, source_of, topic_of
from penstock.cli.running.spark_options import SparkOptions, spark_options
from penstock.cli.running.stopped_members import end_stopped
from penstock.cli.signals import Stop
from penstock.engine import LOST, HolderSilent, Scrubbing, StandbyWriter, StoreWriter, partitions_of
from penstock.remote import Claim, MemberClaim, ReaderClaim
from penstock.sink import STDOUT
from penstock.spout import SPOUTS, STDIN, Spout, joined
from penstock.views import App, Table

_Opened = tuple[str, Table, Spout]
_WAIT = 0.2  # seconds between two attempts to take a topic
_LOOK = 0.1  # seconds between two rounds of the main thread
_EVERY = 10.0  # seconds between two lines of progress without a terminal
_HOUR, _MEGABYTE = 3600.0, 1e6
_WINDOW = 3.0  # seconds over which a rate is taken


@command(
    "run",
    app=True,
    store=True,
    examples=[
        "penstock run --from users=file:users.jsonl?follow=1",
        "penstock run --from users=users.jsonl --from orders=orders.csv",
        "producer | penstock run --from events=-",
        "penstock run --from users=users.jsonl --to namecount=namecount.jsonl",
        "penstock run --from users=users.jsonl --to 'namecount=file:changes.jsonl?envelope=change'",
        "penstock run --from users=kafka://localhost:9092/users --to namecount=kafka://localhost:9092/namecount",
        "penstock run --on spark --state shop.state --from users=users.jsonl --until-end",
        "penstock run --from 'users=wallaroo://127.0.0.1:7100?cookie=C' --to 'namecount=wallaroo://127.0.0.1:7200?cookie=C'",
    ],
)
@click.option(
    "--from",
    "sources",
    metavar="TABLE=URI",
    multiple=True,
    required=True,
    shell_complete=input_names,
    help="A source and its table. Repeat the option for several.",
)
@click.option(
    "--to",
    "sinks",
    metavar="VIEW=URI",
    multiple=True,
    shell_complete=view_names,
    help="A view and the sink for its changes. Repeat the option for several.",
)
@click.option(
    "--scrub",
    "every",
    type=click.FloatRange(min=0),
    default=24.0,
    metavar="HOURS",
    help="Hours from one scrub to the next (24); 0 for none.",
)
@click.option(
    "--scrub-rate",
    "rate",
    type=click.FloatRange(min=0, min_open=True),
    default=32.0,
    metavar="MB",
    help="Megabytes per second that a scrub reads (32).",
)
@spark_options
def run(
    ctx: Context, sources: tuple[str, ...], sinks: tuple[str, ...], every: float, rate: float, options: SparkOptions
) -> int:
    """Read records from sources as they arrive, and keep the views up to date, until Ctrl-C or SIGTERM.

    A URI is a path, file:PATH?follow=1 for a file that grows, - for standard input, or a source of an installed
    package. The store remembers the offset of each source, and the next run continues there. Meanwhile other commands
    can read the store, and writing commands send their work to this process. The command ends with its last source.

    Under file:PATH?envelope=topic each record names its own table, as for `penstock post`. A ts of 0 posts an old
    value. A record without a table is rejected in the name of TABLE.

    With --to the rows of a view go to a sink, and then its changes: a file, standard output (-), or the sink of an
    installed package. Each line has the latest value of a group, or {"deleted": true} for a group that was removed.
    With ?envelope=change it has the former value as well. Only saved changes are written. With ?early=1 they include
    those of weak and auto views whose batch is not saved yet. A file is continued after its last position. If another
    process of this store writes the file, this process waits, and takes it over when the other one ends.

    kafka://HOST:PORT/TOPIC is a topic, in and out; docs/guide/kafka.md lists its options. One process reads it into a
    store: a second one says so and waits. Several processes of one ?group=NAME share a topic, if the store has several
    partitions. One of them is the holder of the store. When it ends, another takes over. wallaroo://HOST:PORT?cookie=C
    listens there for Wallaroo workers, or sends a view to their sinks. wallaroo+source://HOST:PORT?cookie=C listens for
    source connectors, or sends a view to a worker as one (docs/guide/connector.md).

    A thread scrubs the store once a day: it walks all pages, and compares the keys with a digest of the written keys.
    `penstock status` shows the result. All damage is reported. Damage that needs a copy ends the command.

    With --on spark the app runs as a query of Spark Structured Streaming. It reads files, and keeps its state in the
    folder of --state: docs/guide/spark.md. Ctrl-C and SIGTERM end it after the current batch.

    `penstock pause` or SIGUSR1 pauses the sources. `penstock resume` or SIGUSR2 resumes them. On a terminal a status
    line shows the progress. Elsewhere a line is printed on standard error every ten seconds while records arrive.
    """
    if options.on is not None:
        from penstock.cli.running.spark_stream import run_on_spark  # imports the modules of Spark's jobs

        return run_on_spark(ctx, sources, sinks, options)
    if given := options.given():
        raise ExitError(f"{given[0]} is for a stream on Spark; add --on spark, or leave it out", WRONG)
    scrub = Scrubbing(every * _HOUR, rate * _MEGABYTE) if every else None
    return _run_here(ctx, sources, sinks, scrub)


def _run_here(ctx: Context, sources: tuple[str, ...], sinks: tuple[str, ...], scrub: Scrubbing | None) -> int:
    """Run the sources and sinks in this process, or hand their work to the holder of the store."""
    app = load_app(ctx)
    asked = [_asked(app, text) for text in sources]
    _check(asked)
    wanted = [asked_of(app, text) for text in sinks]
    with Stop(pauses=True) as stop, ExitStack() as stack:
        claims: dict[str, Claim] = {}
        opened = [_source(ctx, stack, claims, *one) for one in asked]
        if not _claimed(ctx, claims, stop):
            return DONE
        for claim in claims.values():
            stack.callback(claim.release)  # after the store is closed
        deliveries = [begun(stack, ctx.store, app.name, *one) for one in wanted]
        writer = _standby(ctx, claims, stop, lambda: _opened(ctx, app, claims, scrub))
        if writer is None:
            return DONE
        stack.enter_context(writer)
        if writer.holder is not None:
            ctx.note(f"the store is held by {writer.holder}, which gets all of this work")
        _open_report(ctx, opened, claims, stack)
        if deliveries:
            reader = stack.enter_context(open_reader(ctx, app))
            for delivery in deliveries:
                delivery.read(reader, writer.settle)
        pumps = [
            SourceThread(writer, *one, lambda: stop.asked or failed(), lambda: stop.paused, claims.get(one[0]))
            for one in opened
        ]
        workers: list[SourceThread | SinkThread] = [*pumps, *deliveries]

        def failed() -> bool:
            return any(one.error is not None for one in workers)

        try:
            say = ctx.note if any(uri == STDOUT for _, _, uri in wanted) else ctx.say
            _watch(ctx, pumps, deliveries, stop, say)
        except KeyboardInterrupt:
            _end_at_once()
    for one in workers:
        if one.error is not None:
            raise one.error
    return DONE


def _standby(
    ctx: Context, claims: dict[str, Claim], stop: Stop, opened: Callable[[], StoreWriter]
) -> StandbyWriter | None:
    """Return the writer of the store, or None after a request to stop. A member of a group waits for a holder."""
    announced = False
    while not stop.asked:
        try:
            return StandbyWriter(opened)
        except (*LOST, StoreInUse) as error:
            if all(claim.group is None for claim in claims.values()):
                raise
            if not announced:
                announced = True
                ctx.note(f"{error}; waiting until it answers or ends")
            time.sleep(_WAIT)
    return None


def _opened(ctx: Context, app: App, claims: dict[str, Claim], scrub: Scrubbing | None) -> StoreWriter:
    """Open the store or reach its holder. A stopped holder that is a member of our groups is ended first."""
    try:
        return reach_writer(ctx, app, True, scrub)
    except HolderSilent:
        ended = end_stopped(ctx.store, {claim.group for claim in claims.values() if claim.group is not None})
        if ended is None:
            raise
    ctx.note(f"process {ended} held the store, and is stopped: it was ended")
    return reach_writer(ctx, app, True, scrub)


def _source(ctx: Context, stack: ExitStack, claims: dict[str, Claim], text: str, table: Table, uri: str) -> _Opened:
    """Open a source, and prepare its claim if it is a topic. Members of a group share both."""
    spout = SPOUTS.open(uri, table.name)
    source, group = topic_of(spout)
    if source is not None and group is not None and partitions_of(ctx.store) > 1:
        claims[text] = members = MemberClaim(ctx.store, source, group)
        spout = joined(spout, members)
    elif source is not None:
        claims[text] = Claim(ctx.store, source)
    stack.callback(spout.close)
    return text, table, spout


def _claimed(ctx: Context, claims: dict[str, Claim], stop: Stop) -> bool:
    """Claim each topic, after other processes that read it into this store. Return False after a request to stop."""
    for text, claim in claims.items():
        announced = False
        while (other := claim.take()) is not None:
            if not announced:
                announced = True
                ctx.note(f"{hidden(text)}: {other} reads it into this store; waiting until it ends")
            if stop.asked:
                return False
            time.sleep(_WAIT)
    return True


def _open_report(ctx: Context, opened: list[_Opened], claims: dict[str, Claim], stack: ExitStack) -> None:
    """Report the state of sources without a claim too, in a file of this process."""
    for text, _, spout in opened:
        if text not in claims:
            claim = claims[text] = ReaderClaim(ctx.store, source_of(spout) or hidden(text))
            claim.take()
            stack.callback(claim.release)


def _asked(app: App, text: str) -> tuple[str, Table, str]:
    name, sign, uri = text.partition("=")
    if not sign or not uri:
        raise ExitError(f"--from {text} names no table; write --from TABLE={text.strip('=') or 'URI'}", WRONG)
    return text, input_of(app, name), uri


def _check(asked: list[tuple[str, Table, str]]) -> None:
    """Raise a fault if a source is given twice: its two readers would conflict."""
    seen: set[str] = set()
    for text, _, uri in asked:
        key = STDIN if uri == STDIN else text
        if key in seen:
            what = "standard input" if uri == STDIN else text
            raise ExitError(f"{what} is given twice; a source goes into one table, once", WRONG)
        seen.add(key)


def _end_at_once() -> None:
    """End the process. A batch that is being committed is then either lost or stored, as a whole."""
    click.echo("penstock: interrupted; the next run reads uncommitted records again", err=True)
    sys.stdout.flush()
    os._exit(INTERRUPTED)


@dataclass(slots=True)
class _ReadRate:
    """The records per second over the last few seconds."""

    clock: Callable[[], float] = time.monotonic
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def of(self, records: int) -> float:
        """Return the rate, now that the total is `records`."""
        now = self.clock()
        self.seen.append((now, records))
        while len(self.seen) > 2 and self.seen[0][0] < now - _WINDOW:
            self.seen.popleft()
        then, before = self.seen[0]
        return (records - before) / (now - then) if now > then else 0.0


def _watch(
    ctx: Context, pumps: list[SourceThread], deliveries: list[SinkThread], stop: Stop, say: Callable[[str], None]
) -> None:
    """Start all threads, and report the progress until all have ended."""
    workers: list[SourceThread | SinkThread] = [*pumps, *deliveries]
    for worker in workers:
        worker.start()
    lines = _lines(pumps, deliveries, stop)
    if sys.stderr.isatty() and not ctx.quiet:
        _watch_live(ctx, pumps, workers, lines)
    else:
        _watch_lines(ctx, pumps, workers, lines)
    for worker in workers:
        if worker.error is None or worker.has_done():
            say(worker.summary())
    for pump in pumps:
        if pump.counts.rejected > SHOWN:
            click.echo(f"rejected: {pump.counts.rejected - SHOWN:,} more from {pump.text}", err=True)


def _watch_lines(
    ctx: Context, pumps: list[SourceThread], workers: list[SourceThread | SinkThread], lines: Iterator[list[str]]
) -> None:
    rate, reported, before = _ReadRate(), time.monotonic(), 0
    for noted in lines:
        for line in noted:
            click.echo(line, err=True)
        now, records = time.monotonic(), sum(pump.counts.records for pump in pumps)
        per_second = rate.of(records)
        if now - reported >= _EVERY and records != before:
            reported, before = now, records
            for worker in workers:
                ctx.note(worker.summary())
            ctx.note(f"{records:,} records, {per_second:,.0f}/s")


def _watch_live(
    ctx: Context, pumps: list[SourceThread], workers: list[SourceThread | SinkThread], lines: Iterator[list[str]]
) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    rate = _ReadRate()
    console = Console(file=sys.stderr, no_color=not ctx.color)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        for noted in lines:
            for line in noted:
                console.print(Text(line))
            records = sum(pump.counts.records for pump in pumps)
            page = [
                *(worker.summary() for worker in workers),
                f"{records:,} records, {rate.of(records):,.0f}/s; Ctrl-C ends it",
            ]
            live.update(Text("\n".join(page), no_wrap=True, overflow="ellipsis"), refresh=True)


def _lines(pumps: list[SourceThread], deliveries: list[SinkThread], stop: Stop) -> Iterator[list[str]]:
    """Yield the lines to show, repeatedly, until all threads have ended."""
    announced = False
    workers: list[SourceThread | SinkThread] = [*pumps, *deliveries]
    while True:
        if not any(pump.is_alive() for pump in pumps):
            for delivery in deliveries:
                delivery.finish()
        for pump in pumps:
            pump.beat()
        working = next((worker for worker in workers if worker.is_alive()), None)
        if working is not None:
            working.join(_LOOK)
        lines = [worker.notes.popleft() for worker in workers for _ in range(len(worker.notes))]
        if stop.asked and working is not None and not announced:
            announced = True
            lines.append("ending: open batches are committed first; Ctrl-C again ends at once")
        yield lines
        if working is None:
            return
