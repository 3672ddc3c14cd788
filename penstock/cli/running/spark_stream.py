"""`penstock run --on spark`: run the app as a query of Spark Structured Streaming, until it ends or is on_commit to.

After the first signal the current batch is committed, and the exit code is 0. Only the main thread writes to the
terminal.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from penstock.cli.command_frame import load_app, table_of
from penstock.cli.context import DONE, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.running.spark_options import SparkOptions
from penstock.cli.signals import Stop
from penstock.spark import Manifest, SparkState, session, stream

__all__ = ["run_on_spark"]

_LOOK = 0.2  # seconds between two looks at the query and at signals


def run_on_spark(ctx: Context, sources: Sequence[str], sinks: Sequence[str], options: SparkOptions) -> int:
    """Run the app of a command over a state."""
    if options.state is None:
        raise ExitError("--on spark needs the state: --state URI, a folder that all hosts mount", WRONG)
    if sinks:
        raise ExitError(
            "--to is not supported with --on spark; `penstock restore URI --store DIR` makes a store of the state, and "
            "`penstock query` reads it",
            WRONG,
        )
    app = load_app(ctx)
    given = _sources(ctx, app.name, sources)
    for table in given:
        table_of(app, table)
    began: deque[Manifest] = deque()
    before = SparkState(options.state).newest()
    with Stop() as stop:
        spark = session(options.spark or "local[*,4]")
        try:
            own = stream(
                app,
                options.state,
                given,
                spark=spark,
                partitions=options.partitions,
                every=options.interval or "1 second",
                batch=options.batch or 1_000_000,
                local=options.local,
                on_commit=began.append,
            )
            header = own.header
            standing = "new" if before is None else f"batch {before.batch}"
            ctx.say(f"state     {options.state}: {standing}, {len(header.starts)} partitions")
            failed: list[Exception] = []

            def finish() -> None:
                try:
                    own.finish() if options.until_end else own.wait()
                except Exception as error:
                    failed.append(error)

            waiting = threading.Thread(target=finish, name="penstock-stream", daemon=True)
            waiting.start()
            while waiting.is_alive():
                waiting.join(_LOOK)
                _say(ctx, began)
                if stop.asked:
                    own.stop()
                    waiting.join()
            _say(ctx, began)
            if failed and not stop.asked:
                raise failed[0]
        finally:
            spark.stop()
    return DONE


def _sources(ctx: Context, app: str, sources: Sequence[str]) -> dict[str, str]:
    """Return the URI of each table."""
    out: dict[str, str] = {}
    for text in sources:
        table, sign, uri = text.partition("=")
        if not sign or not uri:
            raise ExitError(f"{text!r} names no table and source; write TABLE=PATH, as in users=users.jsonl", WRONG)
        if table in out:
            raise ExitError(
                f"--from names the table {table!r} twice; a stream on Spark reads one source a table", WRONG
            )
        out[table] = uri
    return out


def _say(ctx: Context, on_commit: deque[Manifest]) -> None:
    """Print a line for each batch that was committed."""
    while on_commit:
        own = on_commit.popleft()
        ctx.say(f"batch {own.batch:<4}{sum(own.counts):>12,} records in {own.seconds:.1f} s{_refused(own)}")


def _refused(own: Manifest) -> str:
    held, rejected = own.counts[3:5] if len(own.counts) == 5 else (0, 0)
    return "".join(f"; {n:,} {what}" for n, what in ((held, "held"), (rejected, "rejected")) if n)
