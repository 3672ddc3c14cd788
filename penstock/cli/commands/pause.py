"""The commands that pause and resume the sources that processes read into a store."""

from __future__ import annotations

import click

from penstock.cache import StoreMissing
from penstock.cli.command_frame import command
from penstock.cli.context import DONE, NO, STORE, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.rows_output import emit, format_option
from penstock.engine import is_store
from penstock.remote import SourceUnread, source_states, switch_sources


def _sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of sources that are being read."""
    store = str(ctx.params.get("store") or ctx.find_root().params.get("store") or STORE)
    return sorted({name for _, name in source_states(store) if name.startswith(incomplete)})


_source = click.argument("source", required=False, shell_complete=_sources)


@command(
    "pause",
    store=True,
    examples=[
        "penstock pause",
        "penstock pause users=kafka:users",
        "penstock pause --format json | jq '.[].process'",
    ],
)
@_source
@format_option
def pause(ctx: Context, source: str | None, format: str | None) -> int:
    """Pause each `penstock run` that reads SOURCE into the store, or any source, until `penstock resume`.

    Batches that were read are committed first. A member of a group stays in it and keeps its share. The names of
    sources are those of `penstock status`. A process pauses as a whole: its other sources pause too, and appear in the
    answer. A process that starts later is not paused. Exit code 1: no process reads SOURCE, or some are not paused
    after 10 s.
    """
    return _signalled(ctx, source, True, format)


@command(
    "resume",
    store=True,
    examples=[
        "penstock resume",
        "penstock resume users=kafka:users",
    ],
)
@_source
@format_option
def resume(ctx: Context, source: str | None, format: str | None) -> int:
    """Resume each `penstock run` that reads SOURCE into the store, or any source, after `penstock pause`.

    Exit code 1: no process reads SOURCE, or some have not resumed after 10 s.
    """
    return _signalled(ctx, source, False, format)


def _signalled(ctx: Context, source: str | None, to_pause: bool, format: str | None) -> int:
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    try:
        done = switch_sources(ctx.store, source, to_pause)
    except SourceUnread as error:
        raise ExitError(str(error), NO) from None
    rows = [(own.source, own.process, own.state) for own in done.sources]
    emit(ctx, rows, ("source", "process", "state"), format)
    for late in done.late:
        ctx.note(str(late))
    return NO if done.late else DONE
